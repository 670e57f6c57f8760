"""A priority source: the ready entries of a subscription, the most urgent first.

The rule: a ready entry is in one place only: at the reader (not looked at yet), among those that
came back (not looked at again yet), in the set of its priority, or set aside, because it cannot go
now and must not hold up others. Nothing is handed out before all ready entries have been looked at,
so the front is always the oldest of the most urgent entries. The sets hold compressed positions and
hardly any bytes: ten million ready entries cost a few megabytes.
"""

from collections.abc import Callable, Iterable
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.entry import PRIORITY_OFFSET
from arneb_core.api.entries.position import Position
from arneb_core.subscription.sources.backlog import BacklogReader
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.sources.replay import ReplaySet

SORT_ENTRIES_MAX: Final = 8_192
"""Entries looked at before others get their turn: some milliseconds."""

HOLDING_MAX: Final = 4
"""Priorities whose entries are in memory at the same time, each with the bytes of one read.
A queue with 255 of them must not hold 255 reads."""

KEPT_BYTES_MAX: Final = 64 * 1024
"""Bytes that all sets together keep of entries read to be looked at. So a short queue is read once
and goes out in one turn, however many priorities it has."""


class PrioritySource:
    """Stands in for the replay set, and in front of the reader.

    ``returned`` and ``reader`` are the subscription's sources until now; their entries are looked
    at and put into the sets of their priorities.
    """

    def __init__(
        self,
        returned: ReplaySet,
        reader: BacklogReader,
        highest: int,
        new_set: Callable[[], ReplaySet],
        wake: Callable[[], None],
    ) -> None:
        self._returned = returned
        self._reader = reader
        self._highest = highest
        self._new_set = new_set
        self._wake = wake
        self._aside = new_set()
        self._sets: dict[int, ReplaySet] = {}
        """By priority, the highest first."""
        self._holding: list[ReplaySet] = []
        """Sets that may hold entries, the one at the front last."""
        self.is_sorting = False
        """There is more to look at, at once."""

    def __repr__(self) -> str:
        ready = {priority: len(each) for priority, each in self._sets.items() if each}
        aside = f", {len(self._aside)} set aside" if self._aside else ""
        return f"<PrioritySource {ready}, {len(self._returned)} came back{aside}>"

    def __bool__(self) -> bool:
        """Always true: it is asked first, since the reader's entries go through it too."""
        return True

    @property
    def positions(self) -> BitMap64:
        """All that has been looked at or came back."""
        positions = BitMap64()
        for each in self._all():
            positions |= each.positions
        return positions

    @property
    def fetch(self) -> Fetch:
        """The read that is waited for or has failed; any free one otherwise."""
        fetches = [self._returned.fetch, self._reader.fetch]
        fetches += [each.fetch for each in self._holding[-1:]]
        return next((each for each in fetches if not each.is_free), fetches[0])

    @property
    def first(self) -> Position | None:
        """The lowest entry that has been looked at or came back."""
        firsts = [each.first for each in self._all()]
        return min((each for each in firsts if each is not None), default=None)

    def add(self, positions: Iterable[Position]) -> None:
        """Add ``positions``, which came back."""
        self._returned.add(positions)

    def discard(self, positions: Iterable[Position]) -> None:
        """Remove ``positions``, which were acknowledged."""
        positions = list(positions)
        for each in self._all():
            each.discard(positions)

    def discard_through(self, position: Position) -> None:
        """Remove everything up to ``position``, which was acknowledged."""
        for each in self._all():
            each.discard_through(position)

    def clear(self) -> None:
        """Forget everything."""
        for each in self._all():
            each.clear()

    def drop_cached(self) -> None:
        """Drop the entries held; they are read again when they are needed."""
        for each in self._all():
            each.drop_cached()

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """Return the first entries of the highest priority; None while they, or entries that may
        have to go before them, are being read, or when there are none."""
        if not self._sort():
            return None
        for each in self._sets.values():
            if each:
                self._hold(each)
                at_hand = each.peek()
                if at_hand is not None or each:
                    return at_hand
                # The log no longer had any of them.
        return None

    def take(self, positions: list[Position]) -> None:
        """Remove ``positions``, the first of :meth:`peek`, which were handed out."""
        self._holding[-1].take(positions)

    def set_aside(self, positions: Iterable[Position]) -> None:
        """Set aside entries that were taken but cannot go; :meth:`bring_back` makes them ready."""
        self._aside.add(positions)

    def bring_back(self, positions: Iterable[Position]) -> None:
        """Make those of ``positions`` that are set aside ready; the others were acknowledged."""
        back = self._aside.positions & BitMap64(positions)
        self._aside.discard(map(Position, back))
        self._returned.add(map(Position, back))

    @property
    def aside(self) -> int:
        """How many are set aside."""
        return len(self._aside)

    def _sort(self) -> bool:
        """Put entries not looked at yet into their sets; return True when none are left."""
        self.is_sorting = False
        left = SORT_ENTRIES_MAX
        for source in (self._returned, self._reader):
            while (at_hand := source.peek()) is not None:
                if left <= 0:
                    self.is_sorting = True
                    self._wake()
                    return False
                positions, entries = at_hand
                self._put(positions, entries)
                source.take(positions)
                left -= len(positions)
            if not source.fetch.is_free:
                return False
        return True

    def _put(self, positions: list[Position], entries: list[bytes]) -> None:
        found: dict[int, list[tuple[Position, bytes]]] = {}
        highest = self._highest
        for position, entry in zip(positions, entries, strict=True):
            found.setdefault(min(entry[PRIORITY_OFFSET], highest), []).append((position, entry))
        kept_bytes = sum(map(len, entries)) + sum(each.kept_bytes for each in self._sets.values())
        for priority, group in found.items():
            into = self._set_of(priority)
            into.add(position for position, _ in group)
            if kept_bytes <= KEPT_BYTES_MAX:
                into.keep(group)

    def _set_of(self, priority: int) -> ReplaySet:
        known = self._sets.get(priority)
        if known is None:
            known = self._sets[priority] = self._new_set()
            self._sets = dict(sorted(self._sets.items(), reverse=True))
        return known

    def _hold(self, front: ReplaySet) -> None:
        """Let ``front`` read; beyond :data:`HOLDING_MAX`, the set least recently at the front lets
        go."""
        if self._holding and self._holding[-1] is front:
            return
        if front in self._holding:
            self._holding.remove(front)
        self._holding.append(front)
        if len(self._holding) > HOLDING_MAX:
            self._holding.pop(0).drop_cached()

    def _all(self) -> Iterable[ReplaySet]:
        return (self._returned, self._aside, *self._sets.values())
