"""Serving the control socket: commands to the node, and the API of its broker.

The rule: requests about the process (``/ctl/…``) are answered in every state; all others go to the
running broker, and are refused while there is none. There is no login: whoever can open the socket
is trusted.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import trio

from arneb.control.place import ControlPlace, peer_of
from arneb.control.trusted import NAME
from arneb.listening.accepting import CarefulListener, RefusalLog
from arneb.logs.audit_log import AuditLog
from arneb.settings.http_limits import HttpLimits
from arneb_core.api.connections.listening import serve_listeners
from arneb_core.api.connections.plain_stream import PlainStream
from arneb_core.api.encoding.json_text import InvalidJson, parse_json

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from arneb.http.server.server import HttpServer

ROOT: Final = "/ctl/"

HAND_OVER: Final = "hand-over"

FLUSH: Final = "flush"

LIMITS: Final = HttpLimits(body_bytes_max=32 * 1024 * 1024, connections_max=64)
"""A body may hold the definitions of 200,000 queues."""


class NotPossible(Exception):
    """A request that a node cannot carry out now; the text is for the user."""


class Steered(Protocol):
    """The operations of a node that the control socket requests."""

    audit: AuditLog
    flushes: Callable[[], Awaitable[None]] | None
    """Writes everything that a cluster member has confirmed to disk, where another process finds
    it; None for a single broker, whose data is there already. Raises :class:`NotPossible`."""

    @property
    def api(self) -> "ASGIApp | None":
        """The running broker's API for trusted callers; None while none runs."""
        ...

    def about(self) -> Mapping[str, Any]:
        """Return the node's identity and state, as JSON values."""
        ...

    def environment(self) -> Mapping[str, Any]:
        """Return the settings as JSON values, without secrets."""
        ...

    async def stop_app(self) -> None:
        """Stop the broker and keep the process. Raises :class:`NotPossible`."""
        ...

    async def start_app(self) -> None:
        """Start a broker that was stopped. Raises :class:`NotPossible`."""
        ...

    async def reset(self) -> None:
        """Remove everything that the stopped broker has stored. Raises :class:`NotPossible`."""
        ...

    async def reload(self) -> bool:
        """Read the settings again; return whether that succeeded."""
        ...

    async def adjust(self, settings: Mapping[str, Any]) -> None:
        """Change settings by name until the broker is restarted. Raises :class:`NotPossible`."""
        ...

    async def hand_over(self, shard: str, successor: str) -> Mapping[str, Any]:
        """Hand a shard that this node leads over to another node of the cluster; return the result
        as JSON values. Raises :class:`NotPossible`."""
        ...

    def end(self) -> None:
        """End the process soon."""
        ...


class ControlApp:
    """The application of the control socket."""

    def __init__(self, node: Steered) -> None:
        self._node = node
        self._orders: Mapping[str, Callable[[], Awaitable[object]]] = {
            "stop_app": node.stop_app,
            "start_app": node.start_app,
            "reset": node.reset,
            "reload": node.reload,
            FLUSH: self._flush,
        }

    def __repr__(self) -> str:
        return f"<ControlApp of {self._node!r}>"

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        path: str = scope["path"]
        if not path.startswith(ROOT):
            app = self._node.api
            if app is None:
                reason = "this broker is stopped: start it with start_app"
                await _answer(send, 503, {"error": "not_running", "reason": reason})
                return
            await app(scope, receive, send)
            return
        name, method = path.removeprefix(ROOT), scope["method"]
        try:
            await self._obey(method, name, await _body(receive), send)
        except NotPossible as refused:
            await _answer(send, 409, {"error": "not_possible", "reason": str(refused)})

    async def _flush(self) -> None:
        if self._node.flushes is not None:
            await self._node.flushes()

    async def _obey(self, method: str, name: str, body: bytes, send: "Send") -> None:
        if method == "GET" and name == "about":
            await _answer(send, 200, self._node.about())
        elif method == "GET" and name == "environment":
            await _answer(send, 200, self._node.environment())
        elif method == "POST" and name in self._orders:
            await self._orders[name]()
            await _answer(send, 200, self._node.about())
        elif method == "POST" and name == "stop":
            await _answer(send, 202, self._node.about())
            self._node.end()
        elif method == "PUT" and name == "settings":
            await self._node.adjust(_object(body))
            await _answer(send, 200, self._node.about())
        elif method == "POST" and name == HAND_OVER:
            order = _object(body)
            shard, successor = str(order.get("shard", "")), str(order.get("to", ""))
            await _answer(send, 200, await self._node.hand_over(shard, successor))
        else:
            await _answer(send, 404, {"error": "not_found", "reason": f"{method} {ROOT}{name}"})


async def _body(receive: "Receive") -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _answer(send: "Send", status: int, value: Mapping[str, Any]) -> None:
    body = json.dumps(value).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = parse_json(body)
    except InvalidJson as error:
        raise NotPossible(str(error)) from error
    if not isinstance(value, dict):
        raise NotPossible("expected a JSON object")
    return value


async def serve_control(
    node: Steered, claim: ControlPlace, *, task_status: trio.TaskStatus[None]
) -> NoReturn:
    """Serve the control socket until cancelled. Raises :class:`OSError` if it cannot be made; the
    node then runs without it."""
    listener = CarefulListener.of(claim.listen(), RefusalLog())
    servers: list[HttpServer] = []

    async def accepted(stream: trio.SocketStream) -> None:
        if not servers:
            servers.append(await trio.to_thread.run_sync(_make_server, node))
        process, user = peer_of(stream.socket)
        from arneb.http.server.senders import Sender

        sender = Sender(((f"uid {user}", process), None))
        # If several were made at once, the first serves all, for one limit.
        await servers[0].handle(PlainStream.of(stream), sender)

    async with trio.open_nursery() as connections:
        await serve_listeners(
            accepted,
            [listener],
            handler_nursery=connections,
            task_status=task_status,
        )
    raise AssertionError("listeners are served until cancelled")


def _make_server(node: Steered) -> "HttpServer":
    """Make the HTTP server. It is imported for the first connection: without it, a broker that has
    no HTTP ports is 4 MiB smaller. The import takes a tenth of a second, so a thread does it."""
    from arneb.http.access.audited import Audited
    from arneb.http.server.server import HttpServer

    return HttpServer(Audited(ControlApp(node), node.audit, "control", NAME), LIMITS)
