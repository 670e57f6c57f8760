"""A timer wheel: entries by the tick at which they are due.

The rule: an entry is due no earlier than the requested time, and at most one tick later. Empty
ticks cost nothing, so that ten thousand idle consumers never wake the event loop.
"""

from heapq import heappop, heappush
from math import ceil

from arneb_pulsar.client.ids import EntryId


class TimerWheel:
    """Entries that are due at ticks of ``tick_s`` seconds.

    Invariant: an entry is only in the slot of its tick in ``_ticks``; ``_upcoming`` has each slot's
    tick once; if ``_is_sorted``, the entries in ``_ticks`` are in the order of the log.
    """

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._slots: dict[int, set[EntryId]] = {}
        self._upcoming: list[int] = []
        self._ticks: dict[EntryId, int] = {}
        self._latest: EntryId = (0, 0)
        self._is_sorted = True

    def __repr__(self) -> str:
        return f"<TimerWheel of {len(self._ticks)} in {len(self._slots)} ticks of {self._tick_s} s>"

    def __len__(self) -> int:
        return len(self._ticks)

    def put(self, entry: EntryId, at: float) -> None:
        """Make ``entry`` due at the first tick not before ``at``, instead of any earlier choice."""
        tick = ceil(at / self._tick_s)
        known = self._ticks.pop(entry, None)
        if known is not None and known != tick:
            self._slots[known].discard(entry)
        # Subscriptions with cumulative acknowledgements deliver in order: the entries that one
        # covers are then in front, and discard_up_to can stop after them.
        self._is_sorted = not self._ticks or (self._is_sorted and entry >= self._latest)
        self._latest = entry
        self._ticks[entry] = tick
        slot = self._slots.get(tick)
        if slot is None:
            slot = self._slots[tick] = set()
            heappush(self._upcoming, tick)
        slot.add(entry)

    def discard(self, entry: EntryId) -> None:
        """Remove ``entry`` if it is there."""
        tick = self._ticks.pop(entry, None)
        if tick is not None:
            self._slots[tick].discard(entry)

    def discard_up_to(self, entry: EntryId) -> int:
        """Remove ``entry`` and all before it; return how many entries were removed."""
        gone = []
        for each in self._ticks:
            if each <= entry:
                gone.append(each)
            elif self._is_sorted:
                break
        for each in gone:
            self.discard(each)
        return len(gone)

    def due(self) -> float | None:
        """Return the time of the next tick with an entry; None if there is none."""
        while self._upcoming and not self._slots[self._upcoming[0]]:
            del self._slots[heappop(self._upcoming)]
        return self._upcoming[0] * self._tick_s if self._upcoming else None

    def take(self, now: float) -> list[EntryId]:
        """Remove and return the entries that are due, in the order of the log."""
        taken: list[EntryId] = []
        while self._upcoming and self._upcoming[0] * self._tick_s <= now:
            taken += self._slots.pop(heappop(self._upcoming))
        for entry in taken:
            del self._ticks[entry]
        taken.sort()
        return taken

    def clear(self) -> None:
        """Remove everything."""
        self._slots.clear()
        self._upcoming.clear()
        self._ticks.clear()
