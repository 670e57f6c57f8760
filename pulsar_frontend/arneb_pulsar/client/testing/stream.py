"""A stream in memory whose other end is a broker's session.

The rule: bytes arrive in order or not at all. When a broker is killed, bytes under way are lost; a
connection that breaks by itself does so at any byte, and those before it arrive. The reading task
also delivers what was written: a stream has no task of its own.
"""

from collections import deque
from math import inf
from typing import Protocol

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from arneb_pulsar.client.testing.faults import Faults


class Session(Protocol):
    """The broker's end of a connection."""

    def receive(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class FakeStream(ByteStream):
    """The client's end of one connection."""

    def __init__(self, faults: Faults) -> None:
        self.session: Session | None = None
        self._faults = faults
        self._coming: deque[tuple[float, bytes]] = deque()
        self._going: deque[tuple[float, bytes]] = deque()
        self._news = anyio.Event()
        self.is_cut = False
        """Whether the connection has ended."""
        self._is_closed = False
        self._is_silent = False
        self._up_left = faults.bytes_until_cut()
        self._down_left = faults.bytes_until_cut()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "cut" if self.is_cut else "open"
        return f"<FakeStream {state}, {len(self._coming) + len(self._going)} writes under way>"

    # The client's side

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes from the broker and return them. Raises as :class:`ByteStream`."""
        await checkpoint()
        while True:
            self._carry(anyio.current_time())
            if self._is_closed:
                raise anyio.ClosedResourceError
            if self._coming and self._coming[0][0] <= anyio.current_time():
                at, data = self._coming.popleft()
                if len(data) > max_bytes:
                    self._coming.appendleft((at, data[max_bytes:]))
                return data[:max_bytes]
            if self.is_cut and not self._coming:
                raise anyio.EndOfStream
            await self._wait()

    async def send(self, item: bytes) -> None:
        """Send bytes to the broker. Raises as :class:`ByteStream`."""
        await checkpoint()
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self.is_cut or self.session is None:
            raise anyio.BrokenResourceError
        delay_s = self._faults.delay_s()
        if not delay_s and not self._going:
            self._deliver(item)
            return
        at = anyio.current_time() + delay_s
        self._going.append((max(at, self._going[-1][0]) if self._going else at, item))
        self._news.set()

    async def send_eof(self) -> None:
        """End the connection."""
        self.cut()

    async def aclose(self) -> None:
        """Close the stream; the broker reads what was written before, and notices."""
        self._is_closed = True
        self._carry(inf)
        self.cut()
        await checkpoint()

    # The broker's side

    def write(self, data: bytes) -> None:
        """Send ``data`` to the client, after everything written before."""
        if self.is_cut or self._is_closed or self._is_silent or not data:
            return
        is_last, data, self._down_left = _until_cut(data, self._down_left)
        at = anyio.current_time() + self._faults.delay_s()
        if self._coming:
            at = max(at, self._coming[-1][0])
        if data:
            self._coming.append((at, data))
        if is_last:
            self._break()
        self._news.set()

    def cut(self) -> None:
        """End the connection for both sides; bytes under way do not arrive."""
        self._coming.clear()
        self._end()

    # Helpers

    def _break(self) -> None:
        """Break the connection: unnoticed, or so that both sides notice."""
        self._going.clear()
        if self._faults.is_silent():
            self._is_silent = True
        else:
            self._end()

    def _end(self) -> None:
        if self.is_cut:
            return
        self.is_cut = True
        self._going.clear()
        self._news.set()
        if self.session is not None:
            self.session.closed()

    def _carry(self, now: float) -> None:
        """Deliver to the broker what has arrived by ``now``."""
        while self._going and self._going[0][0] <= now:
            self._deliver(self._going.popleft()[1])

    def _deliver(self, data: bytes) -> None:
        if self._is_silent or self.is_cut or self.session is None:
            return
        is_last, data, self._up_left = _until_cut(data, self._up_left)
        if data:
            self.session.receive(data)
        if is_last:
            self._break()

    async def _wait(self) -> None:
        """Wait until something is written, or bytes under way arrive."""
        due = min((each[0][0] for each in (self._coming, self._going) if each), default=inf)
        self._news = anyio.Event()
        with anyio.CancelScope(deadline=due):
            await self._news.wait()


def _until_cut(data: bytes, left: int | None) -> tuple[bool, bytes, int | None]:
    """Return whether the cut is within ``data``, the bytes before it, and how many may follow."""
    if left is None or len(data) <= left:
        return False, data, None if left is None else left - len(data)
    return True, data[:left], 0
