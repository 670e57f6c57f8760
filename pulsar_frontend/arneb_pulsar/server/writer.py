"""The writing half of a connection: one flush for each wake-up, and when it is full.

The rule: output that only the leader may send is written while the lease holds, or not at all. A
task writes, since a flush may wait for a long turn in the middle; only what is due at the end of
the connection's own turn goes straight to a plain socket, if that accepts it. Why AMQP's
connections write differently: docs/decisions/0013-two-ways-of-writing-to-a-socket.md.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn, Protocol

import trio

from arneb_core.api.connections.plain_stream import PlainStream
from arneb_core.api.nodes.lease import Lease
from arneb_core.api.process.long_turns import LongTurns

PIECE_BYTES: Final = 256 * 1024
"""Bytes written at once, so that a slow but living client makes visible progress."""

PIECE_WITHIN_S: Final = 60.0
"""A client that takes no piece for this long does not read at all: two keep-alive intervals."""


class Speaking(Protocol):
    """A session, as its writer knows it: it has something to send."""

    @property
    def has_unsent(self) -> bool:
        """There is more than the last call gave."""
        ...

    def data_to_send(self) -> list[bytes]:
        """Return the frames that wait, or one turn's part of them."""
        ...


class Writer:
    """Sends what the session has to send.

    Beyond ``full_bytes`` it is full. Invariants: ``_sending_bytes`` is the size of what was taken
    and is not sent yet; ``_busy`` is set while something is due or under way.
    """

    def __init__(
        self,
        stream: trio.abc.SendStream,
        session: Speaking,
        full_bytes: int,
        long_turns: LongTurns,
        lease: Lease,
    ) -> None:
        self._stream = stream
        self._full_bytes = full_bytes
        self._session = session
        self._long_turns = long_turns
        self._lease = lease
        self.is_leased = False
        """What is to be sent has messages or answers that were made under the lease; the process
        may be suspended before it writes them."""
        self._woken = trio.Event()
        self._flushed = trio.Event()
        self._busy = False
        self._sending_bytes = 0
        self.sent_bytes = 0
        """Bytes sent since the connection was opened."""
        self._torn = False
        self._plain = stream if isinstance(stream, PlainStream) else None
        self._left = b""
        """What the kernel did not take of a write by :meth:`say`."""

    def __repr__(self) -> str:
        state = "torn" if self._torn else "busy" if self._busy else "idle"
        return f"<Writer {state}, {self._sending_bytes} bytes of {self._full_bytes} under way>"

    def wake(self) -> None:
        """Have the task send what there may be."""
        self._busy = True
        self._woken.set()

    def say(self) -> bool:
        """Send what there is at once, if possible; return True if there was something and all of it
        was sent. Otherwise as :meth:`wake`."""
        if self._plain is None or self._busy:
            self.wake()
            return False
        if self.is_leased and not self._lease.holds:
            self.wake()
            return False
        data = b"".join(self._session.data_to_send())
        sent = self._plain.send_now(data[:PIECE_BYTES]) if data else 0
        self.sent_bytes += sent
        if sent < len(data):
            self._left = data[sent:]
            self._sending_bytes = len(self._left)
            self._torn = sent > 0
            self.wake()
            return False
        if self._session.has_unsent:
            self.wake()
            return False
        self.is_leased = False
        return sent > 0

    def is_full(self, waiting_bytes: int) -> bool:
        """Return whether too much is under way, with ``waiting_bytes`` still at the session."""
        return self._sending_bytes + waiting_bytes > self._full_bytes

    async def flushed(self) -> None:
        """Wait until everything up to now is sent."""
        while self._busy:
            await self._flushed.wait()

    async def run(self, sent: Callable[[], None]) -> NoReturn:
        """Flush at every wake-up; ``sent`` is called after each.

        Raises :class:`trio.BrokenResourceError` when the client is gone or reads no more.
        """
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            await self._flush()
            self._busy = self._woken.is_set()
            self.is_leased = self.is_leased and self._busy
            self._flushed.set()
            self._flushed = trio.Event()
            sent()

    async def farewell(self) -> None:
        """Send what is still there, unless the stream ends inside a frame already."""
        if not self._torn:
            # The client may be gone already.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._flush()

    async def _flush(self) -> None:
        await self._flush_some()
        while self._session.has_unsent:
            # Others first: one part takes as long as a turn may.
            await self._long_turns.next()
            await self._flush_some()

    async def _flush_some(self) -> None:
        left, self._left = self._left, b""
        data = b"".join([left, *self._session.data_to_send()])
        self._sending_bytes = len(data)
        self._torn = True  # until all is sent: a cancellation may leave half a frame behind
        for start in range(0, len(data), PIECE_BYTES):
            piece = data if len(data) <= PIECE_BYTES else data[start : start + PIECE_BYTES]
            if self.is_leased and not self._lease.holds and not await self._lease.held():
                raise trio.BrokenResourceError("another node leads")
            with trio.move_on_after(PIECE_WITHIN_S) as limit:
                await self._stream.send_all(piece)
            if limit.cancelled_caught:
                raise trio.BrokenResourceError("the client does not read")
            self.sent_bytes += len(piece)
            self._sending_bytes = max(0, len(data) - start - PIECE_BYTES)
        self._torn = False
