"""Room: bounds what may be pending, in messages of a producer and in bytes of a whole client.

The rule: waiting tasks are served in order of arrival, and nobody overtakes. Data that brokers have
sent is counted whether there is room or not; tasks that wait then are let in one at a time, so they
are never blocked for good.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from arneb_pulsar.client.errors import QueueFull

ROOMY: Final = 0.75
"""The share of the bound below which more may be fetched in advance, as in Java's client."""

SHORT: Final = 0.95
"""The share of the bound from which less is to be fetched in advance, as in Java's client."""


class Room:
    """An amount of something, up to a bound; 0 = no bound."""

    def __init__(self, limit: int, what: str) -> None:
        self.limit = limit
        self.used = 0
        """The amount taken by tasks, which wait for room."""
        self.held = 0
        """The amount that brokers have sent, which does not wait."""
        self.on_short: set[Callable[[], None]] = set()
        """Called when room becomes short."""
        self._what = what
        self._waiting: deque[tuple[int, anyio.Event]] = deque()

    def __repr__(self) -> str:
        return f"<Room for {self.limit or 'any'} {self._what}, {self.used} taken, {self.held} held>"

    @property
    def is_roomy(self) -> bool:
        """Whether more may be fetched in advance."""
        return not self.limit or self.used + self.held < ROOMY * self.limit

    def take_nowait(self, size: int) -> None:
        """Take room at once. Raises :class:`QueueFull`. An amount larger than the bound is admitted
        alone."""
        if not self._has_room(size) or self._waiting:
            raise QueueFull(
                f"expected room for {size} {self._what}, got {self.used + self.held} of "
                f"{self.limit} taken"
            )
        self.used += size
        if self.on_short:
            self._look(size)

    async def take(self, size: int) -> None:
        """Wait for room and take it. If cancelled, nothing is taken."""
        if self._has_room(size) and not self._waiting:
            self.used += size
            if self.on_short:
                self._look(size)
            return
        turn = size, anyio.Event()
        self._waiting.append(turn)
        try:
            await turn[1].wait()
        except BaseException:
            if turn[1].is_set():
                self.give_back(size)
            else:
                self._waiting.remove(turn)
            raise

    def give_back(self, size: int) -> None:
        """Return room that was taken."""
        self.used -= size
        if self._waiting:
            self._admit()

    def hold(self, size: int) -> None:
        """Count data that a broker has sent; a negative amount removes it."""
        self.held += size
        if size > 0:
            self._look(size)
        elif self._waiting:
            self._admit()

    def admit_all(self) -> None:
        """Admit all waiting tasks: there is nothing to wait for any more."""
        while self._waiting:
            taken, event = self._waiting.popleft()
            self.used += taken
            event.set()

    def _admit(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            taken, event = self._waiting.popleft()
            self.used += taken
            event.set()

    def _look(self, more: int) -> None:
        """Call :attr:`on_short` if ``more`` has made room short."""
        short, now = SHORT * self.limit, self.used + self.held
        if now - more < short <= now:
            for each in tuple(self.on_short):
                each()

    def _has_room(self, size: int) -> bool:
        return not self.limit or self.used + self.held + size <= self.limit or not self.used
