"""A link: one socket, written to at once if it accepts the bytes, otherwise later.

The rule: :meth:`Link.send` never waits. The kernel nearly always takes everything, and then a write
costs one system call and no task. The rest is kept, and a task exists only while something is kept.
The caller bounds that by checking :attr:`Link.waiting_bytes` and pausing its consumers.

It is used instead of :class:`trio.SocketStream` because waking a writer task for every reply would
cost more than the reply, and because acks and confirms must leave in the turn of the event loop
that makes them.
"""

import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from arneb_core.api.nodes.lease import Lease

logger = logging.getLogger(__name__)

NO_FAREWELL: Final = struct.pack("ii", 1, 0)
"""SO_LINGER, on, with zero seconds: close by reset."""

RECEIVE_BYTES_MAX: Final = 256 * 1024
"""Bytes of one read: hundreds of small messages in one wake-up make runs long."""


class Link:
    """The bytes of one connection.

    ``drained`` is called, in the event loop, whenever ``waiting_bytes`` falls to ``low``.
    """

    def __init__(
        self,
        sock: socket.socket,
        nursery: trio.Nursery,
        low: int,
        drained: Callable[[], None],
        lease: Lease | None = None,
    ) -> None:
        """``lease``: while it does not hold, no leased output is sent."""
        sock.setblocking(False)
        self._socket = sock
        self._nursery = nursery
        self._low = low
        self._drained = drained
        self._lease = lease
        self._is_leased = False
        """Whether some of the waiting output is leased."""
        self._waiting: deque[memoryview] = deque()
        self.waiting_bytes = 0
        self.received_bytes = self.sent_bytes = 0
        """Totals; some of the sent bytes may still wait."""
        self.reads = self.writes = 0
        self.filled = False
        """Whether the last read took as much as it could: there may be more."""
        self._writing = False
        self._finishing = False
        self._broken = False
        self._room: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<Link {self._socket.fileno()}, {self.waiting_bytes} bytes waiting>"

    @property
    def broken(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._broken

    async def receive(self, size: int = RECEIVE_BYTES_MAX) -> bytes:
        """Receive at most ``size`` bytes; empty when the peer has closed or the connection
        broke."""
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                data = self._socket.recv(size)
                taken = len(data)
                self.received_bytes += taken
                self.reads += 1
                self.filled = taken == size
                return data
            except BlockingIOError:
                continue
            except (OSError, trio.ClosedResourceError):
                return b""

    def receive_now(self, size: int) -> bytes:
        """Receive at most ``size`` bytes that are there already. The end is left to
        :meth:`receive`."""
        try:
            data = self._socket.recv(size)
        except OSError:
            return b""
        taken = len(data)
        self.received_bytes += taken
        self.reads += 1
        self.filled = taken == size
        return data

    def has_come(self) -> bool:
        """Whether there is input to receive."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def acknowledge_now(self) -> None:
        """Acknowledge what has come to the peer's kernel at once, this time."""
        acknowledge_now(self._socket)

    def send(self, data: bytes, *, leased: bool = False) -> None:
        """Write ``data``, now or once the peer takes it; not at all on a broken link. ``leased``:
        only while the lease holds, and never once it is lost."""
        if self._broken or self._finishing:
            return
        self.sent_bytes += len(data)
        self.writes += 1
        is_held_back = leased and self._lease is not None and not self._lease.holds
        sent = 0 if self._waiting or is_held_back else self._try(data)
        if sent < len(data):
            self._is_leased = self._is_leased or leased
            self._waiting.append(memoryview(data)[sent:])
            self.waiting_bytes += len(data) - sent
            if not self._writing and not self._broken:
                self._writing = True
                self._nursery.start_soon(self._write)

    def finish(self) -> None:
        """Send what waits, then shut down the sending direction."""
        self._finishing = True
        if not self._waiting and not self._broken:
            self._shut_down()

    def reset(self) -> None:
        """Close without a farewell: the peer finds its connection broken."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_FAREWELL)
        self._break()

    def abort(self) -> None:
        """End both directions at once; the reader finds the end."""
        self._break()
        with suppress(OSError):  # the peer may have been faster
            self._socket.shutdown(socket.SHUT_RDWR)

    async def room(self) -> None:
        """Wait until little is left to send."""
        while self.waiting_bytes > self._low and not self._broken:
            if self._room is None:
                self._room = trio.Event()
            await self._room.wait()

    def close(self) -> None:
        """Close the socket; what waits is lost."""
        self._break()
        self._drained = _do_nothing
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()

    async def _write(self) -> None:
        """Send what waits, then end. A defect of ours costs only this connection."""
        try:
            await self._write_waiting()
        except Exception:
            logger.exception("unexpected error while writing to %r", self)
            self.abort()

    async def _write_waiting(self) -> None:
        lease = self._lease
        while self._waiting:
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except (OSError, trio.ClosedResourceError):
                self._break()
                return
            if self._is_leased and lease is not None and not lease.holds:
                if not await lease.held():
                    self.abort()
                    return
                continue
            while self._waiting:
                piece = self._waiting[0]
                sent = self._try(piece)
                self.waiting_bytes -= sent
                if sent < len(piece):
                    if not self._broken:
                        self._waiting[0] = piece[sent:]
                    break
                self._waiting.popleft()
            if self.waiting_bytes <= self._low:
                self._report_room()
        self._writing = self._is_leased = False
        if self._finishing:
            self._shut_down()

    def _try(self, data: bytes | memoryview) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            # The reader learns of it from its own call.
            self._break()
            return 0

    def _break(self) -> None:
        self._broken = True
        self._waiting.clear()
        self.waiting_bytes = 0
        self._report_room()

    def _report_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None
        self._drained()

    def _shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._break()


def _do_nothing() -> None:
    """Replaces the callback of a closed link, which is no longer referenced."""


def acknowledge_now(sock: socket.socket | trio.socket.SocketType) -> None:
    """Have the kernel acknowledge what has come. A client whose kernel gathers small writes (Nagle)
    sends what follows ``tune-ok`` only then, and ours would wait 40 ms for something to send along:
    connections would open in 45 ms instead of 1."""
    with suppress(OSError, AttributeError):  # no TCP, another system, or the peer is gone
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
