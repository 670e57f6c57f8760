"""A byte counter: how many bytes of a subscription are ready, to the byte.

The rule: an entry is measured when it is appended, when it is at hand anyway, or by reading the
log; its size is remembered only while it is in flight. So all ready entries together cost one
number. Only subscriptions with a limit on bytes pay for it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.cursor.acks import AckState
from arneb_core.log.durable_log import Runs
from arneb_core.log.memory_log import Log
from arneb_core.subscription.sources.fetch import Fetch

SizeOf = Callable[[bytes], int]
"""Returns how many bytes an entry counts."""

COUNT_RUN_MAX: Final = 1_024
COUNT_READ_BYTES: Final = 1024 * 1024
"""Bytes in one read of entries not measured when they were appended: mostly after a start."""


class ByteCounter:
    """Counts the ready bytes of one subscription.

    Invariant: ``_ready`` is the size of the ready entries up to ``_through``; those after it are
    still to be measured. ``_away`` holds the sizes of all measured entries in flight.
    """

    def __init__(
        self,
        log: Log,
        acks: AckState,
        fetch: Fetch,
        size_of: SizeOf,
        in_flight: Callable[[], Iterable[Position]],
    ) -> None:
        self._log = log
        self._acks = acks
        self.fetch = fetch
        self.size_of = size_of
        self._in_flight = in_flight
        self._ready = 0
        self._through: Position = BEFORE_ALL
        self._away: dict[Position, int] = {}
        self._unmeasured: set[Position] = set()
        """Entries in flight that were delivered before they were measured."""
        self._lost_count = True

    def __repr__(self) -> str:
        return f"<ByteCounter {self._ready} bytes ready, {len(self._away)} entries in flight>"

    @property
    def ready(self) -> int:
        """Bytes ready now; while the log is being read to count them, those found so far."""
        self.count_on()
        return self._ready

    @property
    def ready_before(self) -> int:
        """As :attr:`ready`, without entries that came since that was last asked."""
        return 0 if self._lost_count else self._ready

    def came(self, first: Position, entries: list[bytes]) -> None:
        """Measure a run that was appended to the log."""
        if self._lost_count:
            self.count_on()
        elif self._log.after(self._low) == first:
            self._measure(first, entries)

    def count_on(self) -> None:
        """Measure the remaining entries, or ask for them to be read."""
        if self._lost_count:
            self._begin_again()
        while self.fetch.is_free:
            following = self._following()
            if following is None:
                return
            hot = self._log.read_hot(following, COUNT_RUN_MAX)
            if hot is None:
                self.fetch.ask(following, COUNT_READ_BYTES, self._read)
            else:
                self._measure(*hot)

    def left(self, positions: Sequence[Position], entries: Sequence[bytes]) -> None:
        """Count these as in flight."""
        away = self._away
        for position, entry in zip(positions, entries, strict=True):
            if position not in away:
                away[position] = size = self.size_of(entry)
                if position <= self._through:
                    self._ready -= size

    def returned(self, positions: Iterable[Position]) -> None:
        """Count these as ready again."""
        for position in positions:
            size = self._away.pop(position, None)
            if size is None:
                self._unmeasured.discard(position)
                self._lost_count = self._lost_count or position <= self._through
            elif position <= self._through:
                self._ready += size

    def acknowledged(self, positions: Iterable[Position]) -> None:
        """Count these as acknowledged. The size of one that was ready is unknown, so the count is
        lost."""
        for position in positions:
            if self._away.pop(position, None) is None:
                self._unmeasured.discard(position)
                self._lost_count = self._lost_count or position <= self._through

    def emptied(self) -> None:
        """Everything that was ready is acknowledged."""
        self._ready = 0
        self._through = max(self._through, self._log.ledgers.last or BEFORE_ALL)

    def lose_count(self) -> None:
        """Have everything counted again: too much has changed."""
        self._lost_count = True

    def forget(self) -> None:
        """A seek: nothing is in flight any more."""
        self._away.clear()
        self._unmeasured.clear()
        self._lost_count = True

    @property
    def _low(self) -> Position:
        return max(self._through, self._acks.mark_delete)

    def _begin_again(self) -> None:
        self.fetch.forget()
        in_flight = set(self._in_flight())
        self._away = {position: self._away[position] for position in in_flight & self._away.keys()}
        self._unmeasured = in_flight - self._away.keys()
        self._ready, self._through, self._lost_count = 0, self._acks.mark_delete, False

    def _following(self) -> Position | None:
        """Return the next entry to measure, passing over stretches of acknowledged entries."""
        following = self._log.after(self._low)
        acks, last = self._acks, self._log.ledgers.last
        if following is None or last is None or not acks.is_acknowledged(following):
            return following
        unacked = acks.unacknowledged(self._low, last, 1)
        if unacked:
            return unacked[0]
        self._through = last
        return None

    def _read(self, runs: Runs) -> None:
        for first, entries in runs:
            self._measure(first, entries)

    def _measure(self, first: Position, entries: list[bytes]) -> None:
        acks, low = self._acks, self._low
        for offset, entry in enumerate(entries):
            position = Position(first + offset)
            if position <= low or acks.is_acknowledged(position):
                continue
            if position in self._unmeasured:
                self._unmeasured.discard(position)
                self._away[position] = self.size_of(entry)
            elif position not in self._away:
                self._ready += self.size_of(entry)
        self._through = max(low, Position(first + len(entries) - 1))
