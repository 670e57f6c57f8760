"""A link stream: the bytes of a client served elsewhere, for their carrier.

The rule: sending waits until the kernel has taken all but what the link's low mark allows, so
nothing accumulates here.
"""

import trio

from arneb_amqp.server.transport.link import RECEIVE_BYTES_MAX, Link


class LinkStream(trio.abc.HalfCloseableStream):
    """A client's link as a stream."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<LinkStream of {self._link!r}>"

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send, and wait until there is room for more; a checkpoint only if there is none. Raises
        :class:`trio.BrokenResourceError`."""
        link = self._link
        link.send(bytes(data))
        if link.waiting_bytes:
            await link.room()
        if link.broken:
            raise trio.BrokenResourceError("the client is gone")

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room."""
        await self._link.room()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive; empty when the client has closed or is gone."""
        return await self._link.receive(max_bytes or RECEIVE_BYTES_MAX)

    async def send_eof(self) -> None:
        """End the sending direction."""
        self._link.finish()
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """End both directions; the link's owner closes the socket."""
        self._link.abort()
        await trio.lowlevel.checkpoint()
