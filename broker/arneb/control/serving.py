"""Serving the control socket: what a node is told, and the API of the broker in it.

The rule: what concerns the process (``/ctl/…``) is answered in every state; everything else is the
running broker's, and is refused while there is none. Nobody logs in: whoever can open the socket is
trusted.
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
from arneb_core.api.json_text import InvalidJson, parse_json
from arneb_core.api.listening import serve_listeners
from arneb_core.api.plain_stream import PlainStream

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from arneb.http.server.server import HttpServer

ROOT: Final = "/ctl/"

HAND_OVER: Final = "hand-over"

FLUSH: Final = "flush"

LIMITS: Final = HttpLimits(body_bytes_max=32 * 1024 * 1024, connections_max=64)
"""Definitions of 200,000 queues come in by it."""


class NotPossible(Exception):
    """What was asked of a node cannot be done now; the text is for the user."""


class Steered(Protocol):
    """A node, as it is steered from outside."""

    audit: AuditLog
    flushes: Callable[[], Awaitable[None]] | None
    """Has on disk, where another process finds it, what a member of a cluster has confirmed; None:
    a broker that is alone has it there. Raises :class:`NotPossible`."""

    @property
    def api(self) -> "ASGIApp | None":
        """What the running broker serves to whoever is trusted; None while none runs."""
        ...

    def about(self) -> Mapping[str, Any]:
        """What it is and how it is, as JSON's values."""
        ...

    def environment(self) -> Mapping[str, Any]:
        """Its settings as JSON's values, without secrets."""
        ...

    async def stop_app(self) -> None:
        """Stop the broker and keep the process. Raises :class:`NotPossible`."""
        ...

    async def start_app(self) -> None:
        """Start a broker that was stopped. Raises :class:`NotPossible`."""
        ...

    async def reset(self) -> None:
        """Remove all that the stopped broker has stored. Raises :class:`NotPossible`."""
        ...

    async def reload(self) -> bool:
        """Look at the settings again; whether that went well."""
        ...

    async def adjust(self, settings: Mapping[str, Any]) -> None:
        """Other settings until the broker is started again, by name. Raises
        :class:`NotPossible`."""
        ...

    async def hand_over(self, shard: str, successor: str) -> Mapping[str, Any]:
        """Have another node of its cluster lead a shard that this one leads; what came of it, as
        JSON's values. Raises :class:`NotPossible`."""
        ...

    def end(self) -> None:
        """Have the process end soon."""
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
            said = _object(body)
            shard, successor = str(said.get("shard", "")), str(said.get("to", ""))
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
    node: Steered, place: ControlPlace, *, task_status: trio.TaskStatus[None]
) -> NoReturn:
    """Serve the control socket until cancelled. Raises :class:`OSError` if it cannot be made: then
    the node cannot be steered, which nothing else depends on."""
    listener = CarefulListener.of(place.listen(), RefusalLog())
    servers: list[HttpServer] = []

    async def accepted(stream: trio.SocketStream) -> None:
        if not servers:
            servers.append(await trio.to_thread.run_sync(_make_server, node))
        process, user = peer_of(stream.socket)
        # The first serves all, with one limit, if several were made at once.
        await servers[0].handle(PlainStream.of(stream), ((f"uid {user}", process), None))

    async with trio.open_nursery() as connections:
        await serve_listeners(
            accepted,
            [listener],
            handler_nursery=connections,
            task_status=task_status,
        )
    raise AssertionError("listeners are served until cancelled")


def _make_server(node: Steered) -> "HttpServer":
    """What speaks HTTP. It is read when somebody comes: a broker without HTTP ports, where nobody
    does, is 4 MiB smaller without it. That takes a tenth of a second, so a thread does it."""
    from arneb.http.access.audited import Audited
    from arneb.http.server.server import HttpServer

    return HttpServer(Audited(ControlApp(node), node.audit, "control", NAME), LIMITS)
