"""A stream in memory whose other end is a broker's session.

The rule: bytes arrive in order or not at all. What was written before a cut and had not arrived is
gone, as with a process that is killed.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from arneb_pulsar.client.testing.faults import Faults


class Session(Protocol):
    """The other end."""

    def receive(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class FakeStream(ByteStream):
    """The client's end of one connection."""

    def __init__(self, faults: Faults) -> None:
        self.session: Session | None = None
        self._faults = faults
        self._coming: deque[tuple[float, bytes]] = deque()
        self._news = anyio.Event()
        self.is_cut = False
        """It is over."""
        self._is_closed = False
        self._up_left = faults.bytes_until_cut()
        self._down_left = faults.bytes_until_cut()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "cut" if self.is_cut else "open"
        return f"<FakeStream {state}, {len(self._coming)} writes under way>"

    # The client's side

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """What the broker wrote, once it has arrived. Raises as :class:`ByteStream` does."""
        await checkpoint()
        while True:
            if self._is_closed:
                raise anyio.ClosedResourceError
            if self._coming and self._coming[0][0] <= anyio.current_time():
                at, data = self._coming.popleft()
                if len(data) > max_bytes:
                    self._coming.appendleft((at, data[max_bytes:]))
                return data[:max_bytes]
            if self.is_cut:
                raise anyio.EndOfStream
            await self._wait()

    async def send(self, item: bytes) -> None:
        """Have the broker read it. Raises as :class:`ByteStream` does."""
        await checkpoint()
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self.is_cut or self.session is None:
            raise anyio.BrokenResourceError
        is_last, item, self._up_left = _until_cut(item, self._up_left)
        if item:
            self.session.receive(item)
        if is_last:
            self.cut()

    async def send_eof(self) -> None:
        """The broker takes it for the end."""
        self.cut()

    async def aclose(self) -> None:
        """End it; the broker notices at once."""
        self._is_closed = True
        self.cut()
        await checkpoint()

    # The broker's side

    def write(self, data: bytes) -> None:
        """Have ``data`` arrive at the client, behind all that was written before."""
        if self.is_cut or self._is_closed or not data:
            return
        is_last, data, self._down_left = _until_cut(data, self._down_left)
        at = anyio.current_time() + self._faults.delay_s()
        if self._coming:
            at = max(at, self._coming[-1][0])
        if data:
            self._coming.append((at, data))
        if is_last:
            self.cut()
        self._news.set()

    def cut(self) -> None:
        """End it for both sides; what is under way to the client does not arrive."""
        if self.is_cut:
            return
        self.is_cut = True
        self._coming.clear()
        self._news.set()
        if self.session is not None:
            self.session.closed()

    async def _wait(self) -> None:
        """Until something is written or what is under way arrives."""
        if self._coming:
            delay_s = self._coming[0][0] - anyio.current_time()
            with anyio.move_on_after(delay_s):
                await self._wait_for(lambda: self.is_cut or self._is_closed)
        else:
            await self._wait_for(lambda: True)

    async def _wait_for(self, is_enough: Callable[[], bool]) -> None:
        while True:
            self._news = anyio.Event()
            await self._news.wait()
            if is_enough():
                return


def _until_cut(data: bytes, left: int | None) -> tuple[bool, bytes, int | None]:
    """Whether the cut comes in ``data``, what goes through, and how much may follow."""
    if left is None or len(data) <= left:
        return False, data, None if left is None else left - len(data)
    return True, data[:left], 0
