"""Caught up: a request to grant rights is handled once every user created before it is known.

The rule: once a client has the answer that a user exists, it may grant that user rights at once,
through any node; likewise for a tenant and its namespaces. A broker that copies its users catches
up first; no other request waits.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.routed import path_of, unavailable

WAIT_S: Final = 5.0
"""The longest wait; two round trips are enough while the users' topic answers."""

PATHS: Final = tuple(
    f"/api/{each}" for each in ("permissions/", "topic-permissions/", "definitions")
)
PULSAR_PATHS: Final = ("/admin/v2/namespaces/",)
"""Paths of Pulsar's admin API that wait: a namespace needs its tenant, and may name a group."""
READING: Final = ("GET", "HEAD", "OPTIONS")


class UsersUnknown(Exception):
    """The shard that has the users is no longer followed here; the text is for the operator."""


class CaughtUp:
    """An application of a broker that has a copy of the users."""

    def __init__(
        self,
        inside: ASGIApp,
        catch_up: Callable[[], Awaitable[None]],
        paths: tuple[str, ...] = PATHS,
    ) -> None:
        """``paths`` are the prefixes of the paths that wait."""
        self._inside = inside
        self._paths = paths
        self._catch_up = catch_up

    def __repr__(self) -> str:
        return f"<CaughtUp {self._inside!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
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
