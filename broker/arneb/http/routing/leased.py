"""Leased answers: a broker answers about its queues only while it holds the lease.

The rule: the lease is checked before a request is handled, and again before each piece of the
answer. A request waits a little for it; an answer that has begun is broken off. Requests about the
node itself are answered at any time.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.routed import UNHEARD, path_of, unavailable
from arneb_core.api.nodes.lease import Lease

WAIT_S: Final = 2.0
"""How long a request waits for the lease: as long as for a leader."""


class LeaseEnded(Exception):
    """The lease ended after an answer had begun; the rest must not be sent."""


class Leased:
    """An application of a broker that may have been superseded."""

    def __init__(self, inside: ASGIApp, lease: Lease, own_paths: Collection[str] = ()) -> None:
        """``own_paths`` are about the node itself."""
        self._inside = inside
        self._lease = lease
        self._own_paths = frozenset(own_paths)

    def __repr__(self) -> str:
        return f"<Leased {self._inside!r} by {self._lease!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request while the lease is held."""
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
