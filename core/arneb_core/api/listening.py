"""Listening: clients come in, whatever becomes of those who came before.

The rule: neither a client nor an error while one is accepted ends what others use: an accept that
fails is tried again, and what goes wrong with a client ends with it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NoReturn, Protocol, TypeVar, runtime_checkable

import trio

from arneb_core.api.supervision import supervise

ACCEPT_AGAIN_S: Final = 0.1
"""After an accept that the system refused, for want of descriptors mostly."""

LOGGED_EVERY_S: Final = 1.0

logger = logging.getLogger(__name__)

StreamT = TypeVar("StreamT", bound=trio.abc.AsyncResource)


@runtime_checkable
class ClosesAtOnce(Protocol):
    """What is closed without waiting for anything."""

    def close(self) -> None:
        """Close it."""


async def serve_listeners(
    serve: Callable[[StreamT], Awaitable[object]],
    listeners: Sequence[trio.abc.Listener[StreamT]],
    *,
    handler_nursery: trio.Nursery | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Have ``serve`` serve every client that comes to ``listeners``, until cancelled, and close
    them then. The clients' tasks are in ``handler_nursery``, if there is one, and go on.

    It is :func:`trio.serve_listeners`, but for what that does when an accept fails: it closes the
    listener and raises.
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
    """As :func:`trio.aclose_forcefully`, but not a checkpoint for a socket: crowds that are sent
    away would have everybody wait for that."""
    if isinstance(stream, trio.SocketStream):
        stream.socket.close()
    elif isinstance(stream, ClosesAtOnce):
        stream.close()
    else:
        await trio.aclose_forcefully(stream)
