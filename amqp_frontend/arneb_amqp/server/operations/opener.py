"""The opener: opens in threads what takes long to unpack, for one connection.

The rule: one piece at a time, and the next only when the client has taken most of the output. So
what is unpacked in memory is bounded, deliveries stay in order, and the event loop serves others
meanwhile.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from arneb_amqp.opening import in_thread
from arneb_amqp.server.context import NOBODY
from arneb_amqp.session.consume.unbatching import unbatched
from arneb_amqp.session.unopened import Messages, Piece, Unopened
from arneb_core.api.process.supervision import contain


class OpenerConnection(Protocol):
    """A connection as its opener uses it."""

    def opened(self, piece: Piece, messages: Messages) -> None:
        """Send an opened piece. Never raises."""
        ...

    def break_down(self, error: Exception) -> None:
        """End the connection at once after a defect of ours."""
        ...


class Opener:
    """Opens what waits in one connection. Invariant: a task does so while anything waits, until
    :meth:`stop`."""

    def __init__(
        self,
        unopened: Unopened,
        connection: OpenerConnection,
        nursery: trio.Nursery,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """``room`` waits until the client has taken most of the output."""
        self._unopened = unopened
        self._connection: OpenerConnection = connection
        self._nursery = nursery
        self._room = room
        self._is_open = self._is_over = False
        self._scope = trio.CancelScope()
        self._progress = trio.Event()

    def __repr__(self) -> str:
        return f"<Opener of {self._unopened!r}>"

    def begin(self) -> None:
        """Have what waits be opened. Does not wait."""
        if self._unopened and not self._is_open and not self._is_over:
            self._is_open, self._scope = True, trio.CancelScope()
            self._nursery.start_soon(contain, "opening deliveries", self._open)

    async def caught_up(self) -> None:
        """Wait until all that waits now is sent, or the connection ends."""
        wanted = self._unopened.put_total
        while self._is_open and self._unopened.sent_total < wanted:
            await self._progress.wait()

    def stop(self) -> None:
        """Open nothing more: the connection ends, and what waits goes back with its consumers."""
        self._is_over = True
        self._scope.cancel()
        self._unopened.forget_all()
        self._connection = NOBODY

    async def _open(self) -> None:
        try:
            with self._scope:
                while (piece := self._unopened.first()) is not None:
                    self._connection.opened(piece, await _unpacked(piece))
                    self._tell()
                    await self._room()
        except Exception as error:
            self._connection.break_down(error)
        finally:
            self._is_open = False
            self._tell()

    def _tell(self) -> None:
        self._progress.set()
        self._progress = trio.Event()


async def _unpacked(piece: Piece) -> Messages:
    if piece.unpacked_bytes:
        return await in_thread(piece.run, piece.queue)
    await trio.lowlevel.checkpoint()
    return unbatched(piece.run, piece.queue)
