"""Asked requests: a request is passed on to another node, and the answer is passed back.

The rule: request and answer are passed on unchanged, except for headers of one connection (RFC
9110, 7.6.1). An answer is written piece by piece as it arrives, so that none is held here.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import h11
import trio
from starlette.types import Scope, Send

from arneb.http.server.asgi import STREAMED, VOUCHED
from arneb.settings.http_limits import HEAD_BYTES_MAX
from arneb_core.api.nodes.placement import NodeAddresses

RECEIVE_BYTES: Final = 64 * 1024

ANSWER_S: Final = 120.0
"""How long another node may take between two pieces of an answer: importing a definition file with
a hundred thousand queues takes less."""

OF_ONE_CONNECTION: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding",
        b"upgrade", b"expect", b"content-length", b"proxy-authorization", b"proxy-authenticate",
    }
)  # fmt: skip
"""The headers that belong to one connection."""


@dataclass(frozen=True, slots=True)
class Asker:
    """The sender of a request, and how the request came."""

    address: str
    port: int
    scheme: str
    vouched: str = ""
    """The sender's identity, if this node has authenticated it."""


Ask = Callable[[str, NodeAddresses, Asker], Awaitable[trio.abc.Stream]]
"""Opens a stream to another node for one request about a namespace. Raises
:class:`~arneb_core.api.nodes.placement.NotServed`."""


def asker_of(scope: Scope) -> Asker:
    """Return the sender of a request."""
    address, port = scope.get("client") or ("", 0)
    vouched = scope.get("extensions", {}).get(VOUCHED, "")
    return Asker(address, port, scope.get("scheme", "http"), vouched)


async def pass_on(stream: trio.abc.Stream, scope: Scope, body: bytes, send: Send) -> bool:
    """Pass the request on by ``stream``, then close it; return whether an answer has begun. An
    answer that breaks off is broken off here too."""
    wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    has_begun = False
    async with stream:
        try:
            for part in (_head(scope, body), h11.Data(body), h11.EndOfMessage()):
                if data := wire.send(part):
                    await stream.send_all(data)
            while True:
                with trio.fail_after(ANSWER_S):
                    event = await _next(wire, stream)
                if isinstance(event, h11.Response):
                    has_begun = True
                    await _begin(event, send)
                elif isinstance(event, h11.Data):
                    piece = {"type": "http.response.body", "body": bytes(event.data)}
                    await send({**piece, "more_body": True, STREAMED: True})
                elif isinstance(event, h11.EndOfMessage):
                    await send({"type": "http.response.body", "body": b""})
                    return True
                elif not isinstance(event, h11.InformationalResponse):
                    return _broken(has_begun)
        except (h11.ProtocolError, trio.BrokenResourceError, trio.TooSlowError):
            return _broken(has_begun)


class BrokenOff(trio.BrokenResourceError):
    """Another node's answer broke off, as when the node is killed; the client's answer breaks off
    too."""


def _broken(has_begun: bool) -> bool:
    if has_begun:
        raise BrokenOff("the other node's answer broke off")
    return False


async def _next(wire: h11.Connection, stream: trio.abc.Stream) -> object:
    while (event := wire.next_event()) is h11.NEED_DATA:
        wire.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
    return event


def _head(scope: Scope, body: bytes) -> h11.Request:
    query = scope.get("query_string", b"")
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    headers = _passed(scope["headers"])
    if not any(name == b"host" for name, _ in headers):
        headers.insert(0, (b"host", b"localhost"))
    headers += [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    target = raw + b"?" + query if query else raw
    return h11.Request(method=scope["method"], target=target, headers=headers)


async def _begin(answer: h11.Response, send: Send) -> None:
    headers = _passed(answer.headers)
    # Keep the length: for HEAD it is part of the answer.
    headers += [each for each in answer.headers if each[0] == b"content-length"]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})


def _passed(headers: object) -> list[tuple[bytes, bytes]]:
    """Return the headers to pass on: all but those of one connection, named by us or by them."""
    known = [(bytes(name).lower(), bytes(value)) for name, value in headers]  # type: ignore[attr-defined]
    named = {
        each.strip().lower()
        for name, value in known
        if name == b"connection"
        for each in value.split(b",")
    }
    return [each for each in known if each[0] not in OF_ONE_CONNECTION | named]
