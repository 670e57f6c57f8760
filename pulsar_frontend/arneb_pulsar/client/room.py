"""Room: how much may be pending, of a producer in messages and of a whole client in bytes.

The rule: whoever waits is served in the order of coming, and nobody overtakes. What brokers have
sent is held, room or not: who waits then is let in one at a time, and never stands still for it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from arneb_pulsar.client.errors import QueueFull

ROOMY: Final = 0.75
"""The part of the bound below which more may be fetched in advance, as in Java's client."""

SHORT: Final = 0.95
"""The part of the bound from which on less is to be fetched in advance, as there."""


class Room:
    """So many of something, up to a bound; 0 = no bound."""

    def __init__(self, limit: int, what: str) -> None:
        self.limit = limit
        self.used = 0
        """By those who wait for room."""
        self.held = 0
        """By those who do not."""
        self.on_short: set[Callable[[], None]] = set()
        """Called when room gets short."""
        self._what = what
        self._waiting: deque[tuple[int, anyio.Event]] = deque()

    def __repr__(self) -> str:
        return f"<Room for {self.limit or 'any'} {self._what}, {self.used} taken, {self.held} held>"

    @property
    def is_roomy(self) -> bool:
        """More may be fetched in advance."""
        return not self.limit or self.used + self.held < ROOMY * self.limit

    def take_nowait(self, size: int) -> None:
        """Raises :class:`QueueFull`. What is larger than the bound has it for itself."""
        if not self._has_room(size) or self._waiting:
            raise QueueFull(
                f"expected room for {size} {self._what}, got {self.used + self.held} of "
                f"{self.limit} taken"
            )
        self.used += size
        if self.on_short:
            self._look(size)

    async def take(self, size: int) -> None:
        """Wait for room. Cancelled, nothing is taken."""
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
        """It is not held any more."""
        self.used -= size
        if self._waiting:
            self._admit()

    def hold(self, size: int) -> None:
        """What was sent by a broker is here; less than 0: is gone."""
        self.held += size
        if size > 0:
            self._look(size)
        elif self._waiting:
            self._admit()

    def admit_all(self) -> None:
        """Let everybody in who waits: there is nothing to wait for any more."""
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
        """Say so if ``more`` has made room short."""
        short, now = SHORT * self.limit, self.used + self.held
        if now - more < short <= now:
            for each in tuple(self.on_short):
                each()

    def _has_room(self, size: int) -> bool:
        return not self.limit or self.used + self.held + size <= self.limit or not self.used
