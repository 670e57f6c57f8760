"""Planning: where a run of entries will stand if its commit succeeds.

The rule: pure, but for counting a run into its ledger when its commit is on disk. A ledger that is
full, or old, is closed by the run that comes next.
"""

from dataclasses import dataclass
from typing import Final

from arneb_core.api.entry import messages_in
from arneb_core.api.position import FIRST_LEDGER, LedgerId, Position, position
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo
from arneb_core.log.retention import LEDGER_AGE_MS_MAX
from arneb_core.store.records import LedgerRecord

LEDGER_ENTRIES_MAX: Final = 50_000
"""Pulsar's ``managedLedgerMaxEntriesPerLedger``: the grain of trimming and of Spark's tasks."""

LEDGER_BYTES_MAX: Final = 64 * 1024 * 1024
"""What is acknowledged stays as long as its ledger, so this bounds what one unacknowledged entry
keeps on disk."""


@dataclass(slots=True)
class PlannedRun:
    """Where a run will stand if its commit succeeds. Not to be changed; not frozen, because one is
    made for every commit, and a frozen one costs four times as much to make."""

    first: Position
    entries: list[bytes]
    messages: int
    size: int
    ledger: LedgerInfo
    """The ledger that it stands in, as it will be then."""
    opens: bool
    """The run opens that ledger, and closes the one before it."""

    @property
    def last(self) -> Position:
        return Position(self.first + len(self.entries) - 1)


def plan_run(
    newest: LedgerInfo | None,
    entries: list[bytes],
    messages: int | None,
    now_ms: int,
    *,
    size: int | None = None,
    roll: bool = False,
    bytes_max: int = LEDGER_BYTES_MAX,
) -> PlannedRun:
    """The run that ``entries`` make behind ``newest``, the last ledger. ``size`` is their bytes, if
    somebody knows; ``roll``: they open a ledger in any case."""
    if size is None:
        size = sum(map(len, entries))
    if messages is None:
        messages = sum(map(messages_in, entries))
    opens = newest is None or bool(newest.closed_ms) or roll or _is_full(newest, now_ms, bytes_max)
    if newest is None:
        newest = LedgerInfo(FIRST_LEDGER, created_ms=now_ms)
    elif opens:
        before = newest.messages_before + newest.messages
        newest = LedgerInfo(LedgerId(newest.id + 1), created_ms=now_ms, messages_before=before)
    first = position(newest.id, newest.entries)
    ledger = newest.extended(len(entries), messages, size)
    return PlannedRun(first, entries, messages, size, ledger, opens)


def count_in(ledgers: LedgerIndex, run: PlannedRun) -> None:
    """Count ``run`` into its ledger, opening that first if the run does."""
    ledger = run.ledger
    if run.opens:
        if ledgers.current is not None:
            ledgers.close(ledger.created_ms)
        ledgers.open(ledger.id, ledger.created_ms)
    ledgers.becomes(ledger, len(run.entries))


def closed_record(ledger: LedgerInfo, closed_ms: int) -> LedgerRecord:
    """The record of a ledger that takes no more entries."""
    return LedgerRecord(
        ledger.created_ms,
        max(closed_ms, 1),
        ledger.entries,
        ledger.messages,
        ledger.bytes,
        ledger.messages_before,
    )


def _is_full(ledger: LedgerInfo, now_ms: int, bytes_max: int) -> bool:
    return (
        ledger.entries >= LEDGER_ENTRIES_MAX
        or ledger.bytes >= bytes_max
        or now_ms - ledger.created_ms >= LEDGER_AGE_MS_MAX
    )
