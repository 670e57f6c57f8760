"""The HTTP server: hypercorn's trio worker on sockets that are bound already."""

from collections.abc import Sequence
from typing import Final, cast

import trio
from hypercorn.config import Config as HypercornConfig
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.types import ASGIApp

GRACEFUL_S: Final = 1.0


async def serve_http(
    app: ASGIApp,
    listeners: Sequence[trio.SocketListener],
    *,
    task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer requests until cancelled; started when connections are accepted.

    Takes the listeners' sockets over.
    """
    config = HypercornConfig()
    config.bind = [f"fd://{_take_over(listener)}" for listener in listeners]
    config.errorlog = None
    config.graceful_timeout = GRACEFUL_S
    config.include_server_header = False
    # Both speak ASGI, but each has types of its own for it.
    framework = cast(ASGIFramework, app)
    await serve(framework, config, task_status=task_status, mode="asgi")


def _take_over(listener: trio.SocketListener) -> int:
    return listener.socket.detach()
