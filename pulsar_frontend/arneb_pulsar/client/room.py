"""Room: how much may be pending, of a producer in messages and of a whole client in bytes.

The rule: whoever waits is served in the order of coming, and nobody overtakes.
"""

from collections import deque

import anyio

from arneb_pulsar.client.errors import QueueFull


class Room:
    """So many of something, up to a bound; 0 = no bound."""

    def __init__(self, limit: int, what: str) -> None:
        self.limit = limit
        self.used = 0
        self._what = what
        self._waiting: deque[tuple[int, anyio.Event]] = deque()

    def __repr__(self) -> str:
        return f"<Room for {self.limit or 'any'} {self._what}, {self.used} taken>"

    def take_nowait(self, size: int) -> None:
        """Raises :class:`QueueFull`. What is larger than the bound has it for itself."""
        if not self._has_room(size) or self._waiting:
            raise QueueFull(
                f"expected room for {size} {self._what}, got {self.used} of {self.limit} taken"
            )
        self.used += size

    async def take(self, size: int) -> None:
        """Wait for room. Cancelled, nothing is taken."""
        if self._has_room(size) and not self._waiting:
            self.used += size
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
        while self._waiting and self._has_room(self._waiting[0][0]):
            taken, event = self._waiting.popleft()
            self.used += taken
            event.set()

    def admit_all(self) -> None:
        """Let everybody in who waits: there is nothing to wait for any more."""
        while self._waiting:
            taken, event = self._waiting.popleft()
            self.used += taken
            event.set()

    def _has_room(self, size: int) -> bool:
        return not self.limit or self.used + size <= self.limit or not self.used
