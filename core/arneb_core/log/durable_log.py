"""A durable log: one topic's committed entries, in ledgers, with the recent ones in memory.

The rule: an entry is in the log when its commit is on disk, and not before. :meth:`DurableLog.plan`
places a run after everything planned so far; :meth:`DurableLog.confirm` makes it visible; a run
that fails is taken off :attr:`DurableLog.planned` again, so it leaves no gap.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from arneb_core.api.core import CountedRun
from arneb_core.api.entries.position import (
    BEFORE_ALL,
    FIRST_LEDGER,
    LedgerId,
    Position,
    before,
    ledger_of,
    position_at,
)
from arneb_core.api.errors import StoreFailed
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo, empty_ledger
from arneb_core.log.planning import (
    LEDGER_BYTES_MAX,
    NO_LEDGER,
    PlannedRun,
    closed_record,
    count_in,
    ledger_id_after,
    plan_placed,
    plan_run,
)
from arneb_core.log.tail_cache import CacheBudget, TailCache
from arneb_core.log.written_ahead import Ahead, AheadState, placed_from
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import LedgerRecord, TrimmedRecord
from arneb_core.store.format.schema import Table, TopicId, gap_key, ledger_key, trimmed_key

Runs = list[tuple[Position, list[bytes]]]
"""Entries in log order: contiguous runs, each with the position of its first entry."""

Read = Callable[[Runs | StoreFailed], None]
"""Takes what was read, which is empty when nothing is there (any more), or why that failed."""


class ColdReader(Protocol):
    """Reads ranges of the store off the event loop."""

    def read(
        self, topic_id: TopicId, position: Position, last: Position, bytes_max: int, then: Read
    ) -> None:
        """Read entries from ``position`` to ``last``; ``then`` is called later in the loop."""
        ...

    def read_positions(
        self, topic_id: TopicId, positions: Sequence[Position], bytes_max: int, then: Read
    ) -> None:
        """Read single entries; ``then`` is called later in the loop."""
        ...


class DurableLog:
    """The log of a durable topic."""

    durable: Final = True

    def __init__(
        self,
        topic_id: TopicId,
        ledgers: LedgerIndex,
        reader: ColdReader,
        budget: CacheBudget,
        *,
        ledger_bytes_max: int = LEDGER_BYTES_MAX,
        stamped_ms: int = 0,
        gaps: Sequence[tuple[Position, Position]] = (),
        used: LedgerId = NO_LEDGER,
    ) -> None:
        """``gaps``: first and last positions of lost entries, in order. ``used``: see
        :attr:`used`."""
        self.topic_id = topic_id
        self.stamped_ms = stamped_ms
        """The publish time of the last entry; no later entry may have an earlier one."""
        self._gaps = list(gaps)
        self.ledger_bytes_max = ledger_bytes_max
        """The size at which the log begins a new ledger."""
        self.ledgers = ledgers
        # Lists of one or two: an empty deque takes ten times the memory, and there are many logs.
        self.planned: list[LedgerInfo] = []
        """The newest ledger as each commit under way will leave it, oldest commit first."""
        self.planned_drops: list[LedgerId] = []
        """The last ledger that each commit under way drops, likewise."""
        self.tail = TailCache(budget)
        self._reader = reader
        self.has_batches = any(each.messages != each.entries for each in ledgers)
        self.has_expiring = False
        """Some entry may expire; other logs are not searched for that."""
        self.groups_through = ledgers.last or BEFORE_ALL
        """Entries after this are not grouped; those of a log that was opened may be."""
        self.ended = LedgerId(0)
        """Ledgers up to this one get no more entries, because somebody asked for that."""
        self.ahead: Ahead | None = None
        """Ledgers after the last one that are being written ahead."""
        self.used = used
        """Ledgers up to this one may hold blocks that were written ahead in vain."""
        self._goes_on = ledgers.current is None
        """The open ledger is this process's own; one of an earlier process gets no more entries."""

    def __repr__(self) -> str:
        return f"<DurableLog {self.topic_id} {self.ledgers!r}>"

    def plan(
        self, entries: list[bytes], messages: int | None, now_ms: int, size: int | None = None
    ) -> PlannedRun:
        """Place ``entries``, of ``size`` bytes if known, after all that is :attr:`planned`. The
        place is taken only once the run's ledger is added there."""
        planned = self.planned
        newest = planned[-1] if planned else self.ledgers.newest
        run = plan_run(
            newest,
            entries,
            messages,
            # No ledger is older than the entries of the one before it.
            max(now_ms, self.stamped_ms),
            size=size,
            roll=not (self._goes_on or planned) or (newest is not None and newest.id <= self.ended),
            bytes_max=self.ledger_bytes_max,
            used=self.used,
        )
        if run.opens and self._overtakes(run.ledger.id):
            return self.plan(entries, messages, now_ms, size)
        return run

    def place_ahead(self, runs: Iterable[CountedRun]) -> tuple[list[CountedRun], Ahead]:
        """Place ``runs``, which are to be written ahead."""
        assert self.ahead is None, f"{self!r} is being written ahead already"
        newest = self.planned[-1] if self.planned else self.ledgers.newest
        free = ledger_id_after(newest, self.used)
        placed, self.ahead = placed_from(LedgerId(free + 1), runs, self.ledger_bytes_max)
        return placed, self.ahead

    def plan_ahead(self, run: CountedRun, now_ms: int) -> PlannedRun | None:
        """Plan a run that was written ahead, as :meth:`plan`; None when that was in vain."""
        if (
            self.ahead is None
            or run.first is None
            or ledger_of(run.first) not in self.ahead.ledgers
        ):
            return None
        newest = self.planned[-1] if self.planned else self.ledgers.newest
        return plan_placed(newest, run, run.first, max(now_ms, self.stamped_ms))

    def ahead_ends(self, state: AheadState) -> None:
        """Note that what is being written ahead is part of the log, or will not be."""
        assert self.ahead is not None, f"{self!r} is not being written ahead"
        self.used = max(self.used, LedgerId(self.ahead.ledgers[-1]))
        self.ahead.becomes(state)
        self.ahead = None

    def _overtakes(self, ledger: LedgerId) -> bool:
        """Whether opening ``ledger`` overtakes ledgers written ahead; then another one is due."""
        if self.ahead is None or ledger not in self.ahead.ledgers:
            return False
        self.ahead_ends(AheadState.OVERTAKEN)
        return True

    def ledger_puts(self, run: PlannedRun) -> list[tuple[Table, bytes, bytes]]:
        """Return the ledger records to write in the commit of ``run``, which opens a ledger and is
        not :attr:`planned` yet."""
        puts = []
        newest = self.planned[-1] if self.planned else self.ledgers.newest
        opened = run.ledger
        if newest is not None and not newest.closed_ms:
            key = ledger_key(self.topic_id, newest.id)
            puts.append((Table.LEDGERS, key, closed_record(newest, opened.created_ms).pack()))
        puts += self._passed_over(newest, opened)
        key = ledger_key(self.topic_id, opened.id)
        # The counts of an open ledger are not kept up to date on disk: every commit would write one
        # more page. Opening the log counts its blocks instead.
        record = LedgerRecord(opened.created_ms, messages_before=opened.messages_before)
        puts.append((Table.LEDGERS, key, record.pack()))
        return puts

    def plan_successor(self, now_ms: int) -> list[tuple[Table, bytes, bytes]]:
        """Plan an empty ledger after the last one, which ends, in a commit without a run of this
        log and with nothing else planned. Return their records. The new record keeps positions and
        the count of messages from starting over when the last ledger goes."""
        last = self.ledgers.newest
        assert last is not None, "a log without ledgers has none that could end"
        assert not self.planned, f"expected a last ledger that stays as it is, got {self.planned}"
        before = self.ledgers.messages_ever
        if self._overtakes(ledger := ledger_id_after(last, self.used)):
            ledger = ledger_id_after(last, self.used)
        successor = LedgerInfo(ledger, created_ms=now_ms, messages_before=before)
        self.planned.append(successor)
        return [
            *self._passed_over(last, successor),
            (
                Table.LEDGERS,
                ledger_key(self.topic_id, last.id),
                closed_record(last, last.closed_ms or now_ms).pack(),
            ),
            (
                Table.LEDGERS,
                ledger_key(self.topic_id, successor.id),
                LedgerRecord(now_ms, messages_before=before).pack(),
            ),
        ]

    def _passed_over(
        self, newest: LedgerInfo | None, opened: LedgerInfo
    ) -> Iterator[tuple[Table, bytes, bytes]]:
        """Yield the records of the ledgers between the last one and the one that is opened."""
        first = FIRST_LEDGER if newest is None else newest.id + 1
        for ledger in range(first, opened.id):
            empty = empty_ledger(LedgerId(ledger), opened.created_ms, opened.messages_before)
            record = closed_record(empty, empty.closed_ms)
            yield Table.LEDGERS, ledger_key(self.topic_id, empty.id), record.pack()

    def succeeded(self, now_ms: int) -> None:
        """Apply :meth:`plan_successor`: its commit is on disk."""
        successor = self.planned.pop(0)
        last = self.ledgers.newest
        assert last is not None, "it was there when the commit was planned"
        if not last.closed_ms:
            self.ledgers.close(now_ms)
        self.ledgers.pass_over(successor.id, now_ms)
        self.ledgers.open(successor.id, now_ms)
        self._goes_on = True

    def confirm(self, run: PlannedRun, *, cache: bool) -> None:
        """Take in the entries of ``run``: its commit is on disk."""
        self.planned.pop(0)
        count_in(self.ledgers, run)
        self._goes_on = True
        self.has_batches = self.has_batches or run.messages != len(run.entries)
        if cache:
            self.tail.append(run.first, run.entries, run.size)
        else:
            self.tail.clear()

    @property
    def last(self) -> Position | None:
        """The last entry that can be read."""
        last = self.ledgers.last
        for gap_first, gap_last in reversed(self._gaps):
            if gap_last != last:
                break
            last = self.ledgers.at_or_before(before(gap_first))
        return last

    def after(self, position: Position) -> Position | None:
        """Return the first entry above ``position``; it may be lost."""
        return self.ledgers.after(position)

    def missing(self, after: Position) -> list[range]:
        """Return the entries above ``after`` that are in a ledger but can no longer be read."""
        return [
            range(max(first, after + 1), last + 1) for first, last in self._gaps if last > after
        ]

    def read_hot(self, position: Position, limit: int) -> tuple[Position, list[bytes]] | None:
        """Return entries from ``position`` on, if they are in memory."""
        return self.tail.read(position, limit)

    def read_cold(self, position: Position, bytes_max: int, then: Read) -> None:
        """Read entries from ``position`` on from the store; see :data:`Read`."""
        last = self.ledgers.last
        assert last is not None, "a cold read is asked for only behind an existing entry"
        self._reader.read(self.topic_id, position, last, bytes_max, then)

    def read_positions(self, positions: Sequence[Position], bytes_max: int, then: Read) -> None:
        """Read the entries at ``positions``, which ascend, from the store; see :data:`Read`."""
        self._reader.read_positions(self.topic_id, positions, bytes_max, then)

    def plan_drop(self, ledger: LedgerId, changes: Changes) -> None:
        """Have ``changes`` remove the ledgers up to ``ledger``, inclusive, except those that
        commits under way remove."""
        changes.puts.extend(
            (Table.GAPS, gap_key(self.topic_id, last), None)
            for _, last in self._gaps
            if ledger_of(last) <= ledger
        )
        dropped = self.planned_drops[-1] if self.planned_drops else 0
        end = None
        for info in self.ledgers:
            if info.id > ledger:
                break
            if info.id > dropped:
                changes.puts.append((Table.LEDGERS, ledger_key(self.topic_id, info.id), None))
                if info.entries:
                    changes.trims.append((self.topic_id, position_at(info.id, 0), info.last))
                    end = info.last + 1
        if end is not None:
            # So that a reader who has read up to there is not told of a loss.
            record = TrimmedRecord(Position(end), position_at(ledger + 1, 0))
            changes.puts.append((Table.CATALOG, trimmed_key(self.topic_id), record.pack()))
        self.planned_drops.append(ledger)

    def drop_through(self, ledger: LedgerId) -> None:
        """Forget the ledgers up to ``ledger``, inclusive: the commit of :meth:`plan_drop` is on
        disk, and their blocks are being trimmed."""
        self.planned_drops.pop(0)
        self.ledgers.drop_through(ledger)
        self.tail.drop_through(Position(position_at(ledger + 1, 0) - 1))
        self._gaps = [gap for gap in self._gaps if ledger_of(gap[1]) > ledger]
