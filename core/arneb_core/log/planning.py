"""Planning: where a run of entries will be if its commit succeeds.

The rule: pure, except for counting a run into its ledger once its commit is on disk. A ledger that
is full, or old, is closed by the next run.
"""

from dataclasses import dataclass
from typing import Final

from arneb_core.api.core import CountedRun
from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import (
    FIRST_LEDGER,
    LedgerId,
    Position,
    ledger_of,
    position_at,
    render,
)
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo
from arneb_core.log.retention import LEDGER_AGE_MS_MAX
from arneb_core.store.format.records import LedgerRecord

LEDGER_ENTRIES_MAX: Final = 50_000
"""Pulsar's ``managedLedgerMaxEntriesPerLedger``: the unit of trimming and of Spark's tasks."""

LEDGER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Acknowledged entries stay as long as their ledger, so this bounds what one unacknowledged entry
keeps on disk."""


NO_LEDGER: Final = LedgerId(0)
"""Below every ledger."""


@dataclass(slots=True)
class PlannedRun:
    """Where a run will be if its commit succeeds. Not to be changed; not frozen, because one is
    made for every commit, and a frozen one takes four times as long to make."""

    first: Position
    entries: list[bytes]
    messages: int
    size: int
    ledger: LedgerInfo
    """The run's ledger, as it will be then."""
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
    used: LedgerId = NO_LEDGER,
) -> PlannedRun:
    """Plan ``entries`` as a run after ``newest``, the last ledger. ``size``: their bytes, if
    known; ``roll``: open a new ledger in any case. Ledgers up to ``used`` are not opened: they hold
    what was written ahead."""
    if size is None:
        size = sum(map(len, entries))
    if messages is None:
        messages = sum(map(messages_in, entries))
    opens = newest is None or bool(newest.closed_ms) or roll or _is_full(newest, now_ms, bytes_max)
    if newest is None or opens:
        newest = ledger_after(newest, ledger_id_after(newest, used), now_ms)
    first = position_at(newest.id, newest.entries)
    ledger = newest.extended(len(entries), messages, size)
    return PlannedRun(first, entries, messages, size, ledger, opens)


def plan_placed(
    newest: LedgerInfo | None, run: CountedRun, first: Position, now_ms: int
) -> PlannedRun:
    """Plan a run that was written ahead at ``first``, after ``newest``, the last ledger."""
    opens = newest is None or newest.id < ledger_of(first)
    if newest is None or opens:
        newest = ledger_after(newest, ledger_of(first), now_ms)
    assert position_at(newest.id, newest.entries) == first, f"not due at {render(first)}: {newest}"
    ledger = newest.extended(len(run.entries), run.messages, run.bytes)
    return PlannedRun(first, run.entries, run.messages, run.bytes, ledger, opens)


def ledger_id_after(newest: LedgerInfo | None, used: LedgerId) -> LedgerId:
    """Return the id of the ledger to open next."""
    return LedgerId(max(FIRST_LEDGER if newest is None else newest.id + 1, used + 1))


def ledger_after(newest: LedgerInfo | None, ledger: LedgerId, now_ms: int) -> LedgerInfo:
    """Return an empty ledger after the last one."""
    before = 0 if newest is None else newest.messages_before + newest.messages
    return LedgerInfo(ledger, created_ms=now_ms, messages_before=before)


def count_in(ledgers: LedgerIndex, run: PlannedRun) -> None:
    """Count ``run`` into its ledger, opening that first if the run does."""
    ledger = run.ledger
    if run.opens:
        if ledgers.current is not None:
            ledgers.close(ledger.created_ms)
        ledgers.pass_over(ledger.id, ledger.created_ms)
        ledgers.open(ledger.id, ledger.created_ms)
    ledgers.becomes(ledger, len(run.entries))


def closed_record(ledger: LedgerInfo, closed_ms: int) -> LedgerRecord:
    """Return the record of a ledger that takes no more entries."""
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
