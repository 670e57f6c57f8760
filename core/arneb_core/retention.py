"""Retention: which ledgers may go.

The rule: pure, and it never names the last ledger, an open one, or one that a cursor has
not passed. Of the rest, the oldest goes when all of it is over the time or over the size
that the topic keeps (Pulsar's ``RetentionPolicies``: 0 keeps nothing, -1 has no end).
"""

from dataclasses import dataclass
from typing import Final

from arneb_core.ledgers import LedgerIndex
from arneb_core.position import LedgerId, Position

WITHOUT_END: Final = -1


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, and how much, acknowledged entries stay."""

    ms: int = 0
    bytes: int = 0

    def __bool__(self) -> bool:
        """Something is asked for."""
        return bool(self.ms or self.bytes)


NOTHING_KEPT: Final = Retention()


def droppable_through(
    ledgers: LedgerIndex,
    slowest: Position | None,
    *,
    retention: Retention,
    now_ms: int,
) -> LedgerId | None:
    """The last ledger that may go, everything below it included; None when none may.

    ``slowest`` is the lowest mark-delete position of the topic's durable subscriptions, None
    when it has none. What is younger than the retention's ``ms`` goes only by its size, and the
    newest ``bytes`` of the log only by their age.
    """
    left_bytes = ledgers.bytes
    through: LedgerId | None = None
    for info in list(ledgers)[:-1]:
        if slowest is not None and info.entries and info.last > slowest:
            break
        left_bytes -= info.bytes
        over_time = retention.ms != WITHOUT_END and now_ms - info.closed_ms >= retention.ms
        over_size = retention.bytes != WITHOUT_END and left_bytes >= retention.bytes
        if not (over_time or over_size):
            break
        through = info.id
    return through
