"""A log in memory, for a topic that ends with the process.

The rule: it answers as a durable log does, and an appended entry is in it at once.
"""

from collections.abc import Callable, Sequence
from typing import Final

from arneb_core.api.entries.position import (
    AFTER_ALL,
    BEFORE_ALL,
    LedgerId,
    Position,
    before,
    position_at,
)
from arneb_core.log.durable_log import DurableLog, Read
from arneb_core.log.ledgers import LedgerIndex
from arneb_core.log.planning import PlannedRun, count_in, plan_run
from arneb_core.log.tail_cache import CacheBudget, TailCache


class MemoryLog:
    """The log of a topic that ends with the process: transient, exclusive, auto-delete queues."""

    durable: Final = False

    def __init__(self) -> None:
        self.ledgers = LedgerIndex()
        # A budget of its own, never exceeded: here the cache is the log.
        self.tail = TailCache(CacheBudget(bytes_max=1 << 62))
        self.stamped_ms = 0
        self.has_batches = False
        self.has_expiring = False
        self.groups_through = BEFORE_ALL

    def __repr__(self) -> str:
        return f"<MemoryLog {self.ledgers!r}>"

    def plan(self, entries: list[bytes], messages: int | None, now_ms: int) -> PlannedRun:
        """Place a run, as :meth:`.DurableLog.plan` does."""
        return plan_run(self.ledgers.newest, entries, messages, now_ms)

    def confirm(self, run: PlannedRun, *, cache: bool = True) -> None:
        """Take in the entries of ``run`` at once."""
        count_in(self.ledgers, run)
        self.has_batches = self.has_batches or run.messages != len(run.entries)
        self.tail.append(run.first, run.entries, run.size)

    @property
    def last(self) -> Position | None:
        """The last entry."""
        return self.ledgers.last

    def after(self, position: Position) -> Position | None:
        """As :meth:`.DurableLog.after`; what every subscription is done with was dropped."""
        return self.tail.after(position)

    def missing(self, after: Position) -> list[range]:
        """As :meth:`.DurableLog.missing`."""
        gaps: list[tuple[Position, Position]] = []
        low = after
        for first, last in self.tail.spans():
            gaps += self.ledgers.runs(low, before(first))
            low = max(low, last)
        gaps += self.ledgers.runs(low, AFTER_ALL)
        return [range(first, last + 1) for first, last in gaps]

    def read_hot(self, position: Position, limit: int) -> tuple[Position, list[bytes]] | None:
        """Return entries from ``position`` on; everything readable is in memory."""
        return self.tail.read(position, limit)

    def read_cold(self, position: Position, bytes_max: int, then: Read) -> None:
        """Answer at once with nothing: all there is was in memory."""
        then([])

    def read_positions(self, positions: Sequence[Position], bytes_max: int, then: Read) -> None:
        """As :meth:`read_cold`."""
        then([])

    def drop_acknowledged(self, is_done: Callable[[Position, Position], bool]) -> None:
        """Free the runs that nobody wants any more, as ``is_done`` says of first and last entry.
        One message left unanswered must not keep all those that came after it."""
        self.tail.drop_runs({first for first, last in self.tail.spans() if is_done(first, last)})

    def drop_through(self, ledger: LedgerId) -> None:
        """Forget the ledgers up to ``ledger``, inclusive, and free their entries."""
        self.ledgers.drop_through(ledger)
        self.tail.drop_through(Position(position_at(ledger + 1, 0) - 1))


Log = DurableLog | MemoryLog
"""Either kind of log."""
