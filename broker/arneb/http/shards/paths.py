"""Shard paths: everything that a shard's leader serves at ``/`` is also served below
``/shards/NAME``.

The rule: such a request is answered by that shard's leader alone, whichever node receives it. The
rest of the path is not interpreted; a header makes code that covers all shards show only this one.
"""

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.management.page.watching import OF_ONE

ROOT: Final = "/shards/"


class ShardPaths:
    """The shards' leaders in front of an application for all of them."""

    def __init__(self, leaders: Mapping[str, ASGIApp], rest: ASGIApp) -> None:
        self._leaders = leaders
        self._rest = rest

    def __repr__(self) -> str:
        return f"<ShardPaths of {', '.join(self._leaders)} before {self._rest!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope.get("path", "")
        name, slash, below = path.removeprefix(ROOT).partition("/")
        leader = self._leaders.get(name)
        if scope["type"] != "http" or not path.startswith(ROOT) or not slash or leader is None:
            await self._rest(scope, receive, send)
            return
        prefix = f"{ROOT}{name}"  # names of shards need no escapes
        raw = scope.get("raw_path") or path.encode()
        headers = [*scope["headers"], (OF_ONE.encode(), name.encode())]
        asked = {
            **scope,
            "headers": headers,
            "path": f"/{below}",
            "raw_path": raw.removeprefix(prefix.encode()),
        }
        await leader(asked, receive, send)
