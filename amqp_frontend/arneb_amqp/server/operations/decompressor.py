"""The decompressor of one connection: decompresses large runs in threads.

The rule: one piece at a time, and the next only when the client has taken most of the output. So
the memory in use is bounded, deliveries stay in order, and the event loop serves others meanwhile.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from arneb_amqp.decompression import in_thread
from arneb_amqp.server.context import NOBODY
from arneb_amqp.session.compressed_runs import CompressedRuns, Messages, Piece
from arneb_amqp.session.consume.unbatching import unbatched
from arneb_core.api.process.supervision import contain


class DecompressorConnection(Protocol):
    """A connection as its decompressor uses it."""

    def decompressed(self, piece: Piece, messages: Messages) -> None:
        """Send a decompressed piece. Never raises."""
        ...

    def break_down(self, error: Exception) -> None:
        """End the connection at once after a defect of ours."""
        ...


class Decompressor:
    """Decompresses the runs of one connection. Invariant: a task does so while any run waits, until
    :meth:`stop`."""

    def __init__(
        self,
        runs: CompressedRuns,
        connection: DecompressorConnection,
        nursery: trio.Nursery,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """``room`` waits until the client has taken most of the output."""
        self._runs = runs
        self._connection: DecompressorConnection = connection
        self._nursery = nursery
        self._room = room
        self._is_busy = self._is_over = False
        self._scope = trio.CancelScope()
        self._progress = trio.Event()

    def __repr__(self) -> str:
        return f"<Decompressor of {self._runs!r}>"

    def begin(self) -> None:
        """Start to decompress what waits. Does not wait for it."""
        if self._runs and not self._is_busy and not self._is_over:
            self._is_busy, self._scope = True, trio.CancelScope()
            self._nursery.start_soon(contain, "decompressing deliveries", self._decompress)

    async def caught_up(self) -> None:
        """Wait until all that waits now is sent, or the connection ends."""
        wanted = self._runs.put_total
        while self._is_busy and self._runs.sent_total < wanted:
            await self._progress.wait()

    def stop(self) -> None:
        """Decompress nothing more: the connection ends, and what waits is requeued with the
        rest."""
        self._is_over = True
        self._scope.cancel()
        self._runs.forget_all()
        self._connection = NOBODY

    async def _decompress(self) -> None:
        try:
            with self._scope:
                while (piece := self._runs.first()) is not None:
                    self._connection.decompressed(piece, await _decompressed(piece))
                    self._tell()
                    await self._room()
        except Exception as error:
            self._connection.break_down(error)
        finally:
            self._is_busy = False
            self._tell()

    def _tell(self) -> None:
        self._progress.set()
        self._progress = trio.Event()


async def _decompressed(piece: Piece) -> Messages:
    if piece.decompressed_bytes:
        return await in_thread(piece.run, piece.queue)
    await trio.lowlevel.checkpoint()
    return unbatched(piece.run, piece.queue)
