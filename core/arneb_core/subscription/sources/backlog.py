"""A backlog reader: the entries that a subscription has read ahead and not delivered yet.

The rule: it reads ahead of need, in log order, from memory if the entries are there and otherwise
off the event loop; it skips acknowledged entries; what it holds is bounded by :data:`AHEAD_BYTES`,
and what all readers hold by an :class:`AheadBudget`. Replays are fetched separately, so that they
can overtake.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position, before
from arneb_core.cursor.acks import AckState
from arneb_core.log.durable_log import Runs
from arneb_core.log.memory_log import Log
from arneb_core.subscription.sources.fetch import Fetch

RUN_ENTRIES_MAX: Final = 512
"""Entries dispatched at a time: enough to make the fixed cost of a run negligible, few enough that
a slow client's back-pressure is noticed before much more is on its way."""

READ_BYTES: Final = 1024 * 1024
"""Bytes of one read of the store: a thousand entries of 1 KiB, some hundred microseconds."""

AHEAD_BYTES: Final = 512 * 1024
"""Bytes at hand below which the next read starts, so that it is done when these are used up."""

ALL_AHEAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that all subscriptions together may have read and not handed out. Beyond that, each reads
one block at a time and drops what its consumers have no room for."""


class AheadBudget:
    """Counts the bytes that the backlog readers of an engine hold."""

    __slots__ = ("bytes", "bytes_max")

    def __init__(self, bytes_max: int = ALL_AHEAD_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<AheadBudget {self.bytes}/{self.bytes_max} bytes>"

    @property
    def is_spent(self) -> bool:
        """More is held than should be."""
        return self.bytes > self.bytes_max


@dataclass(slots=True)
class Chunk:
    """Entries at hand, in log order; ``[start:]`` is not handed out yet."""

    positions: list[Position]
    entries: list[bytes]
    start: int = 0


class BacklogReader:
    """Reads one subscription's part of a log."""

    is_sorting = False
    """Its front is known at once."""

    def __init__(
        self, log: Log, acks: AckState, after: Position, fetch: Fetch, budget: AheadBudget
    ) -> None:
        self._log = log
        self._acks = acks
        self.fetch = fetch
        self._budget = budget
        self._chunks: list[Chunk] = []
        self._bytes = 0
        self.after = after
        """Everything up to here was handed out or needs no handing out."""
        self._ahead = after
        """Everything up to here is in chunks or was handed out."""
        self.skip: BitMap64 | None = None
        """Entries that come from the delayed index instead."""
        self.withheld: set[Position] | None = None
        """Entries that nobody delivers before a transaction has ended."""

    @property
    def ahead(self) -> Position:
        """Everything up to here is at hand or was handed out."""
        return self._ahead

    def __repr__(self) -> str:
        return f"<BacklogReader after {self.after}, {self._bytes} bytes ahead>"

    def rewind(self, after: Position) -> None:
        """Go on beyond ``after``, forgetting what was read."""
        self.fetch.forget()
        self._chunks = []
        self._count(-self._bytes)
        self.after = self._ahead = after

    def drop_cached(self) -> None:
        """Drop what was read and not handed out; it is read again when it is needed."""
        if self._chunks:
            self.rewind(self.after)

    def reread(self, positions: Sequence[Position]) -> None:
        """Read the entries at hand again if ``positions``, which became acknowledged or ceased to
        be, may be among them."""
        if self._chunks and any(self.after < position <= self._ahead for position in positions):
            self.drop_cached()

    def take(self, positions: list[Position]) -> None:
        """Remove ``positions``, the first of :meth:`peek`, which were handed out."""
        chunk = self._chunks[0]
        stop = chunk.start + len(positions)
        self._count(-sum(map(len, chunk.entries[chunk.start : stop])))
        self.after = chunk.positions[stop - 1]
        chunk.start = stop
        if stop == len(chunk.positions):
            self._chunks.pop(0)
            if not self._chunks:
                self.after = self._ahead

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """Return the next entries to hand out, at most :data:`RUN_ENTRIES_MAX`; None when none are
        at hand now (nothing is left, or a read is under way or has failed)."""
        self._read_on()
        if not self._chunks:
            return None
        chunk = self._chunks[0]
        stop = chunk.start + RUN_ENTRIES_MAX
        if chunk.start == 0 and stop >= len(chunk.positions):
            return chunk.positions, chunk.entries
        return chunk.positions[chunk.start : stop], chunk.entries[chunk.start : stop]

    def _read_on(self) -> None:
        while self.fetch.is_free and (not self._chunks or self._bytes < AHEAD_BYTES):
            following = self._following()
            if following is None:
                return
            hot = self._log.read_hot(following, RUN_ENTRIES_MAX)
            if hot is not None:
                if self._chunks:  # what is in memory stays there; no need to hold it here
                    return
                self._add(*hot)
                continue
            self.fetch.ask(following, 1 if self._budget.is_spent else READ_BYTES, self._read)

    def _following(self) -> Position | None:
        """Return the next entry to read, passing over stretches of acknowledged entries."""
        acks = self._acks
        low = max(self._ahead, acks.mark_delete)
        following = self._log.after(low)
        if following is None:
            return None
        if self.skip and (following in self.skip or acks.is_acknowledged(following)):
            return self._following_delayed(following, self.skip)
        if not acks.holes or not acks.is_acknowledged(following):
            return following
        last = self._log.ledgers.last
        assert last is not None, "there is an entry behind"
        unacked = acks.unacknowledged(low, last, 1)
        if unacked:
            return unacked[0]
        self._passed(last)
        return None

    def _following_delayed(self, following: Position, skip: BitMap64) -> Position | None:
        """Return the next entry from ``following`` on that is neither acknowledged nor skipped."""
        acks, last = self._acks, self._log.ledgers.last
        assert last is not None, "there is an entry behind"
        for low, high in self._log.ledgers.runs(before(following), last):
            if skip.range_cardinality(low, high + 1) <= high - low:
                wanted = BitMap64(range(low, high + 1)) - skip
                while wanted:
                    position = Position(wanted.min())
                    if not acks.is_acknowledged(position):
                        return position
                    unacked = acks.unacknowledged(before(position), high, 1)
                    if not unacked:
                        break
                    wanted.remove_range(0, unacked[0])
            self._passed(high)
        return None

    def _read(self, runs: Runs) -> None:
        for first, entries in runs:
            self._add(first, entries)

    def _add(self, first: Position, entries: list[bytes]) -> None:
        last = Position(first + len(entries) - 1)
        acks = self._acks
        positions: list[Position]
        if acks.mark_delete < first and not acks.holes:
            positions = cast(list[Position], list(range(first, last + 1)))
        else:
            low = Position(max(first - 1, acks.mark_delete))
            positions = acks.unacknowledged(low, last, len(entries)) if low < last else []
            entries = [entries[position - first] for position in positions]
        if self.skip and self.skip.range_cardinality(first, last + 1):
            skip = self.skip
            entries = [entries[i] for i, position in enumerate(positions) if position not in skip]
            positions = [position for position in positions if position not in skip]
        if withheld := self.withheld:
            entries = [
                entries[i] for i, position in enumerate(positions) if position not in withheld
            ]
            positions = [position for position in positions if position not in withheld]
        if positions:
            self._chunks.append(Chunk(positions, entries))
            self._count(sum(map(len, entries)))
        self._passed(last)

    def _passed(self, last: Position) -> None:
        """Note that everything up to ``last`` is at hand or needs no handing out."""
        self._ahead = last
        if not self._chunks:
            self.after = last

    def _count(self, size: int) -> None:
        self._bytes += size
        self._budget.bytes += size
