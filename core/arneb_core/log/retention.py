"""Retention: which ledgers may go.

The rule: pure, and it never names a ledger that a cursor has not passed, nor one that takes
entries. Of the rest, the oldest goes when all of it exceeds the time or the size that the topic
keeps (Pulsar's ``RetentionPolicies``: 0 keeps nothing, -1 has no bound). The last ledger goes only
as it ends: an empty one is opened after it, so that positions continue.
"""

from typing import Final

from arneb_core.api.entries.position import LedgerId, Position
from arneb_core.api.topics.settings import WITHOUT_END, Retention
from arneb_core.log.ledgers import LedgerIndex

ENDED_BYTES_MIN: Final = 1 << 20
"""A last ledger of this size ends as soon as all of it is acknowledged. A smaller one waits,
because ledger ids have 32 bits and a queue may be drained thousands of times a second."""

ENDED_AGE_MS_MIN: Final = 60_000
"""How long a smaller one waits. Until then a Pulsar consumer can seek back to what it has just
acknowledged, which clients' own tests do and a broker without retention does not promise."""

LEDGER_AGE_MS_MAX: Final = 4 * 60 * 60 * 1000
"""Pulsar's ``managedLedgerMaxLedgerRolloverTimeMinutes``: lets retention by time make progress."""


def droppable_through(
    ledgers: LedgerIndex,
    slowest: Position | None,
    *,
    retention: Retention,
    now_ms: int,
    ends: bool = False,
) -> LedgerId | None:
    """Return the last ledger that may go, with everything below it; None when none may.

    ``slowest`` is the lowest mark-delete position of the topic's durable subscriptions, None
    without any. Ledgers younger than the retention's ``ms`` go only for their size, and the newest
    ``bytes`` of the log only for their age. ``ends``: the last ledger ends now, and may go like the
    others.
    """
    left_bytes = ledgers.bytes
    through: LedgerId | None = None
    for info in list(ledgers) if ends else list(ledgers)[:-1]:
        if slowest is not None and info.entries and info.last > slowest:
            break
        left_bytes -= info.bytes
        age_ms = now_ms - info.closed_ms if info.closed_ms else 0
        over_time = retention.ms != WITHOUT_END and age_ms >= retention.ms
        over_size = retention.bytes != WITHOUT_END and left_bytes >= retention.bytes
        if not (over_time or over_size):
            break
        through = info.id
    return through


def last_ledger_ends(
    ledgers: LedgerIndex,
    slowest: Position | None,
    *,
    retention: Retention,
    now_ms: int,
    at_once: bool = False,
) -> bool:
    """Whether the last ledger should end although no append ends it.

    It must hold something, and every subscription must have acknowledged all of it. ``slowest`` is
    the lowest mark-delete position of all, or None: a log without durable subscriptions keeps its
    last ledger for the first to come. ``at_once``: room is short, so any size will do.
    """
    last = ledgers.newest
    if last is None or not last.entries or slowest is None or slowest < last.last:
        return False
    age_ms = now_ms - last.created_ms
    if retention:
        return age_ms >= LEDGER_AGE_MS_MAX  # its time of retention begins when it is closed
    return at_once or last.bytes >= ENDED_BYTES_MIN or age_ms >= ENDED_AGE_MS_MIN
