"""Caught up: what is granted to users is handled when all users are known who were made before.

The rule: whoever was told that a user was made may say at once what that user may do, wherever it
is said; so it is with a tenant and its namespaces. A broker that has its users from elsewhere asks
for them first; all other requests do not wait.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.routed import path_of, unavailable

WAIT_S: Final = 5.0
"""It takes two round trips where the topic that users are in answers."""

PATHS: Final = tuple(
    f"/api/{each}" for each in ("permissions/", "topic-permissions/", "definitions")
)
PULSAR_PATHS: Final = ("/admin/v2/namespaces/",)
"""Of Pulsar's admin API: a namespace needs its tenant, and what is said of one may name a group."""
READING: Final = ("GET", "HEAD", "OPTIONS")


class UsersUnknown(Exception):
    """Whoever has the users is not followed here any more; the text is for the operator."""


class CaughtUp:
    """An application of a broker that has a copy of the users."""

    def __init__(
        self,
        inside: ASGIApp,
        catch_up: Callable[[], Awaitable[None]],
        paths: tuple[str, ...] = PATHS,
    ) -> None:
        """``paths``: what those begin with that wait."""
        self._inside = inside
        self._paths = paths
        self._catch_up = catch_up

    def __repr__(self) -> str:
        return f"<CaughtUp {self._inside!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if (
            scope["type"] == "http"
            and scope["method"] not in READING
            and path_of(scope).startswith(self._paths)
        ):
            why = "the users cannot be asked for at the moment"
            with trio.move_on_after(WAIT_S):
                try:
                    await self._catch_up()
                    why = ""
                except UsersUnknown as error:
                    why = str(error)
            if why:
                await unavailable(send, why)
                return
        await self._inside(scope, receive, send)
