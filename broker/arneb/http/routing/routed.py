"""Routed requests: a request about a namespace that another node serves is passed on or redirected.

The rule: a node answers only from what it knows itself. Requests about this node are answered here.
Clients that follow redirects and keep their credentials are redirected, as by a Pulsar broker; all
others, browsers included, get the other node's answer unchanged. While no node serves the
namespace, the answer says so.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.asked import Ask, asker_of, pass_on
from arneb_core.api.nodes.placement import (
    Elsewhere,
    Here,
    Nobody,
    NodeAddresses,
    NotServed,
    Placements,
    placement_within,
)

WAIT_S: Final = 2.0
"""How long a request waits while no node leads. After that scripts try again, and people look
elsewhere."""

NOBODY: Final = "no node leads this namespace at the moment"
UNHEARD: Final = "the replicated log does not answer at the moment"

RETRY_AFTER_S: Final = 1
EVERYTHING_ELSE: Final = "*"

NAMESPACE: Final = "arneb.namespace"
"""The key of a request's scope that holds its namespace."""


class Way(Enum):
    """How to treat a request whose namespace is served elsewhere."""

    OWN = "answered here all the same"
    SENT = "redirected"
    ASKED = "asked of the other node"


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about."""

    way: Way
    namespace: str = EVERYTHING_ELSE


class Routed:
    """The application of a node that serves some of the namespaces."""

    def __init__(
        self,
        own: ASGIApp,
        placements: Placements,
        target_of: Callable[[str], Target],
        address_of: Callable[[NodeAddresses], str],
        ask: Ask,
    ) -> None:
        """``own`` answers what is served here. ``target_of`` returns what a path is about, and
        ``address_of`` the address at which a node answers such requests."""
        self._own = own
        self._placements = placements
        self._target_of = target_of
        self._address_of = address_of
        self._ask = ask

    def __repr__(self) -> str:
        return f"<Routed over {self._own!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, pass on or redirect a request."""
        if scope["type"] != "http":
            await self._own(scope, receive, send)
            return
        target = self._target_of(path_of(scope))
        if target.way is Way.OWN:
            await self._own(scope, receive, send)
            return
        placement = await placement_within(self._placements, target.namespace, WAIT_S)
        match placement:
            case Here():
                await self._own({**scope, NAMESPACE: target.namespace}, receive, send)
            case Elsewhere(addresses):
                url = self._address_of(addresses)
                if target.way is Way.SENT and url:
                    await _redirect(url, scope, send)
                else:
                    await self._asked(target.namespace, addresses, scope, receive, send)
            case Nobody(is_unheard):
                await unavailable(send, UNHEARD if is_unheard else NOBODY)

    async def _asked(
        self,
        namespace: str,
        leader: NodeAddresses,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        try:
            stream = await self._ask(namespace, leader, asker_of(scope))
        except NotServed as error:
            await unavailable(send, str(error))
            return
        message = await receive()
        if not await pass_on(stream, scope, message.get("body", b""), send):
            await unavailable(send, f"node '{leader.node}' gave no answer")


def path_of(scope: Scope) -> str:
    """Return the path as requested, percent-encoded."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


async def _redirect(url: str, scope: Scope, send: Send) -> None:
    query = scope.get("query_string", b"").decode("latin-1")
    location = url.rstrip("/") + path_of(scope) + (f"?{query}" if query else "")
    headers = [(b"location", location.encode("latin-1", "replace")), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 307, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def unavailable(send: Send, reason: str) -> None:
    """Answer with 503, so that the client tries again."""
    body = json.dumps({"error": "service_unavailable", "reason": reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(RETRY_AFTER_S).encode()),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
