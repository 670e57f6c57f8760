"""Listening: accepts clients, whatever becomes of earlier ones.

The rule: neither a client nor a failed accept ends what others use. An accept that fails is tried
again, and an error in a client's task ends only that client.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NoReturn, Protocol, TypeVar, runtime_checkable

import trio

from arneb_core.api.process.supervision import supervise

ACCEPT_AGAIN_S: Final = 0.1
"""Pause after the system refused an accept, mostly for lack of file descriptors."""

LOGGED_EVERY_S: Final = 1.0

logger = logging.getLogger(__name__)

StreamT = TypeVar("StreamT", bound=trio.abc.AsyncResource)


@runtime_checkable
class ClosesAtOnce(Protocol):
    """What can be closed without waiting."""

    def close(self) -> None:
        """Close it."""


async def serve_listeners(
    serve: Callable[[StreamT], Awaitable[object]],
    listeners: Sequence[trio.abc.Listener[StreamT]],
    *,
    handler_nursery: trio.Nursery | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve every client of ``listeners`` with ``serve`` until cancelled, then close the listeners.
    The clients' tasks continue if they are in ``handler_nursery``.

    Unlike :func:`trio.serve_listeners`, it continues when an accept fails, instead of closing the
    listener and raising.
    """
    try:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accept = partial(_accept, listener, serve, handler_nursery or accepting)
                accepting.start_soon(supervise, "accepting connections", accept)
            task_status.started()
            if not listeners:
                await trio.sleep_forever()  # clients come by another way
    finally:
        with trio.CancelScope(shield=True):
            for listener in listeners:
                await listener.aclose()
    raise AssertionError("listeners are served until cancelled")


async def _accept(
    listener: trio.abc.Listener[StreamT],
    serve: Callable[[StreamT], Awaitable[object]],
    clients: trio.Nursery,
) -> NoReturn:
    logged_at = -LOGGED_EVERY_S
    while True:
        try:
            stream = await listener.accept()
        except OSError as error:
            if trio.current_time() >= logged_at + LOGGED_EVERY_S:
                logged_at = trio.current_time()
                logger.error("cannot accept connections, retrying: %s", error)
            await trio.sleep(ACCEPT_AGAIN_S)
        else:
            clients.start_soon(_handle, serve, stream)


async def _handle(serve: Callable[[StreamT], Awaitable[object]], stream: StreamT) -> None:
    try:
        await serve(stream)
    except Exception:  # here, for every wake-up of a connection passes through these frames
        logger.exception("unexpected error in a connection")
    finally:
        await close_at_once(stream)


async def close_at_once(stream: trio.abc.AsyncResource) -> None:
    """Close as :func:`trio.aclose_forcefully` does, but without a checkpoint for a socket: turning
    crowds away would make everybody wait for it."""
    if isinstance(stream, trio.SocketStream):
        stream.socket.close()
    elif isinstance(stream, ClosesAtOnce):
        stream.close()
    else:
        await trio.aclose_forcefully(stream)
