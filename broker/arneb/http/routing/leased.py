"""Leased answers: what a broker says of its queues is said only while it may.

The rule: the lease is looked at before a request is handled, and again before each piece of the
answer. A request waits a little for it; an answer that has begun is broken off. How the node itself
does is said at any time.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.routed import UNHEARD, path_of, unavailable
from arneb_core.api.lease import Lease

WAIT_S: Final = 2.0
"""As long as a request waits for a leader."""


class LeaseEnded(Exception):
    """An answer that had begun must not be said to its end."""


class Leased:
    """An application of a broker that may have been superseded."""

    def __init__(self, inside: ASGIApp, lease: Lease, own_paths: Collection[str] = ()) -> None:
        """``own_paths`` are about the node."""
        self._inside = inside
        self._lease = lease
        self._own_paths = frozenset(own_paths)

    def __repr__(self) -> str:
        return f"<Leased {self._inside!r} by {self._lease!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        lease = self._lease
        if scope["type"] != "http" or path_of(scope) in self._own_paths:
            await self._inside(scope, receive, send)
            return
        with trio.move_on_after(WAIT_S):
            await lease.held()
        if not lease.holds:
            await unavailable(send, UNHEARD)
            return
        has_begun = False

        async def say(message: Mapping[str, Any]) -> None:
            nonlocal has_begun
            if not lease.holds:
                raise LeaseEnded(UNHEARD)
            has_begun = True
            await send(dict(message))

        try:
            await self._inside(scope, receive, say)
        except LeaseEnded:
            if has_begun:
                raise
            await unavailable(send, UNHEARD)
