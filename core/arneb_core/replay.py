"""The replay set: entries that came back and are due again, in their original order.

The rule: replays are sorted by position and go before anything new. The bytes are
fetched when they are needed, a range at a time, because a set of ten million returned
positions costs little and their entries would cost gigabytes.
"""

from collections.abc import Callable, Iterable
from typing import Final

from pyroaring import BitMap64

from arneb_core.log import Log
from arneb_core.position import Position

REPLAY_RUN_MAX: Final = 256
"""Replays handed out at a time."""

REPLAY_READ_BYTES: Final = 256 * 1024
"""One read for replays; they are often scattered, so this is less than a backlog read."""


class ReplaySet:
    """The replays of one subscription."""

    def __init__(self, log: Log, wake: Callable[[], None]) -> None:
        self._log = log
        self._wake = wake
        self._places = BitMap64()
        self._fetched: dict[Position, bytes] = {}
        self._reading = False
        self._generation = 0

    def __repr__(self) -> str:
        return f"<ReplaySet {len(self._places)} entries>"

    def __len__(self) -> int:
        return len(self._places)

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def is_reading(self) -> bool:
        """A read of the store is under way; the wake call-back follows it."""
        return self._reading

    def add(self, positions: Iterable[Position]) -> None:
        """Have ``positions`` delivered again."""
        self._places.update(positions)

    def discard(self, positions: Iterable[Position]) -> None:
        """``positions`` were acknowledged, or handed out."""
        self._places.difference_update(BitMap64(positions))
        if not self._places:
            self._fetched.clear()

    def discard_through(self, place: Position) -> None:
        """Everything up to ``place`` was acknowledged."""
        if self._places:
            self._places.remove_range(0, place + 1)

    def clear(self) -> None:
        """Forget everything."""
        self._places.clear()
        self._fetched.clear()
        self._generation += 1
        self._reading = False

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """The lowest replays whose entries are at hand; None while they are being read.

        Replays whose entries the log no longer has are dropped.
        """
        while self._places and not self._reading:
            positions: list[Position] = []
            entries: list[bytes] = []
            for number in self._places[:REPLAY_RUN_MAX]:
                place = Position(number)
                entry = self._fetched.get(place)
                if entry is None:
                    hot = self._log.read_hot(place, 1)
                    if hot is None:
                        break
                    entry = hot[1][0]
                positions.append(place)
                entries.append(entry)
            if positions:
                return positions, entries
            self._fetch(Position(self._places[0]))
        return None

    def take(self, positions: list[Position]) -> None:
        """``positions`` were handed out."""
        for place in positions:
            self._fetched.pop(place, None)
        self.discard(positions)

    def _fetch(self, place: Position) -> None:
        if not self._log.ledgers.contains(place):
            following = self._log.ledgers.after(place)
            self.discard_through(Position(following - 1) if following is not None else place)
            return
        self._reading = True
        generation = self._generation
        self._log.read_cold(
            place, REPLAY_READ_BYTES, lambda runs: self._read(generation, place, runs)
        )

    def _read(
        self, generation: int, place: Position, runs: list[tuple[Position, list[bytes]]]
    ) -> None:
        if generation != self._generation:
            return
        self._reading = False
        self._fetched = {}
        for first, entries in runs:
            wanted = self._places & BitMap64(range(first, first + len(entries)))
            self._fetched.update((Position(each), entries[each - first]) for each in wanted)
        if place not in self._fetched:
            self.discard([place])  # trimmed while it was being read
        self._wake()
