"""Connections by TLS: what is inside goes to a connection as any other, over a pair of sockets.

The rule: a connection works on a bare socket, as fast as that goes; TLS is taken off before it
and costs nobody else anything. Either side's end is passed on, so nothing is left behind.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import trio

LOGGER: Final = logging.getLogger(__name__)

PIECE_BYTES: Final = 128 * 1024
"""Passed on at once."""

FAREWELL_S: Final = 2.0
"""How long a client may take to read what is left when its connection has ended."""

SecuredStream = trio.SSLStream[trio.SocketStream]


async def serve_secured(
    stream: SecuredStream, handshake_s: float, serve: Callable[[socket.socket], Awaitable[None]]
) -> None:
    """Take TLS off ``stream`` and have ``serve`` serve what is inside."""
    # Made at once, so that who decides whether to accept one more knows what the others take.
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        LOGGER.info("no TLS: %s", error)
        await trio.aclose_forcefully(stream)
        return
    with ours, theirs:
        try:
            with trio.fail_after(handshake_s):
                await stream.do_handshake()
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            LOGGER.info("no TLS: %s", error.__cause__ or error)
            await trio.aclose_forcefully(stream)
            return
        theirs.setblocking(False)
        inner = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_inwards, stream, inner)
                nursery.start_soon(_outwards, inner, stream, nursery.cancel_scope)
                await serve(theirs)
                nursery.cancel_scope.deadline = trio.current_time() + FAREWELL_S
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(inner)
                await trio.aclose_forcefully(stream)


async def _inwards(stream: SecuredStream, inner: trio.SocketStream) -> None:
    """What the client says, until it leaves."""
    try:
        while data := await stream.receive_some(PIECE_BYTES):
            await inner.send_all(data)
        await inner.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await inner.aclose()


async def _outwards(
    inner: trio.SocketStream, stream: SecuredStream, everything: trio.CancelScope
) -> None:
    """What the broker says, until it has no more to say."""
    try:
        while data := await inner.receive_some(PIECE_BYTES):
            await stream.send_all(data)
        await stream.aclose()
        everything.cancel()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await inner.aclose()
