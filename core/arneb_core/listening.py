"""Listening: clients come in, whatever becomes of those who came before.

The rule: neither a client nor an error while one is accepted ends what others use: an accept that
fails is tried again, and what goes wrong with a client ends with it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import trio

from arneb_core.supervision import contain, supervise

StreamT = TypeVar("StreamT", bound=trio.abc.AsyncResource)


async def serve_listeners(
    serve: Callable[[StreamT], Awaitable[object]],
    listeners: Sequence[trio.abc.Listener[StreamT]],
    *,
    handler_nursery: trio.Nursery | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Have ``serve`` serve every client that comes to ``listeners``, until cancelled. The clients'
    tasks are in ``handler_nursery``, if there is one, and go on when this is cancelled.

    It is :func:`trio.serve_listeners`, of which each listener is a background task of its own.
    """

    async def handle(stream: StreamT) -> None:
        await contain("serving a connection", partial(serve, stream))

    async with trio.open_nursery() as accepting:
        for listener in listeners:
            accept: Callable[[], Awaitable[Any]] = partial(
                trio.serve_listeners,
                handle,
                [listener],
                handler_nursery=handler_nursery or accepting,
            )
            accepting.start_soon(supervise, "the accepting of connections", accept)
        task_status.started()
    raise AssertionError("listeners are served until cancelled")
