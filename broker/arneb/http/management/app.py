"""The management API as an ASGI application.

The rule: replies are rendered piece by piece, in turns; requests outside the management API go to
the application behind it.
"""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from importlib.resources import files
from typing import Final

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.access.guarded import PRINCIPAL, is_loopback
from arneb.http.management.answering import Request, answer, refusal
from arneb.http.management.page.login import PROOF, SECURE, SHOWN
from arneb.http.management.page.watching import Watch
from arneb.http.management.requests.calls import Refused, Reply
from arneb.http.management.requests.written import rendered
from arneb.http.management.router import ROOT
from arneb.http.management.site import Site
from arneb.http.management.streaming import events
from arneb.http.server.asgi import LEFT, PROOF_WANTED, STREAMED, VOUCHED
from arneb_core.access.principals import Principal

OWN: Final = frozenset({"/api/topics", "/api/alarms", "/api/turns"})
"""Arneb's own paths, which RabbitMQ does not have."""

SCRIPT: Final = "/cli/rabbitmqadmin"

DEFINITIONS_BYTES_MAX: Final = 32 * 1024 * 1024
"""Body of an import: room for 200,000 queues with their bindings."""

LARGER: Final[Mapping[str, int]] = dict.fromkeys(
    (
        f"{ROOT}{path}{slash}"
        for path in ("definitions", "all-configuration")
        for slash in ("", "/")
    ),
    DEFINITIONS_BYTES_MAX,
)

PIECE_BYTES: Final = 64 * 1024
GZIP_BYTES_MIN: Final = 1400
"""A shorter reply fits into one packet anyway."""

UNKNOWN: Final = (
    "this shard's leader does not know the user of that session, who is known by another server or "
    "by a token: expected a login by a header"
)
"""Sent with 403: after a 401 the page would ask for a login again and again."""

_ALWAYS: Final = {
    "cache-control": "no-cache",
    "vary": "accept, accept-encoding, origin",
}


class ManagementApp:
    """The API, which passes other requests to another application."""

    def __init__(self, site: Site, next_app: ASGIApp, caller: Principal | None = None) -> None:
        """``caller``: the sender of every request, if no login is needed."""
        self._site = site
        self._next = next_app
        self._caller = caller

    def __repr__(self) -> str:
        return f"<ManagementApp before {self._next!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._next(scope, receive, send)
            return
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        if raw_path == SCRIPT and scope["method"] in ("GET", "HEAD"):
            script = await trio.to_thread.run_sync(_script)
            await _send(send, Reply(kind="text/plain"), [script])
        elif raw_path.startswith(ROOT) and raw_path not in OWN:
            await self._answer(scope, raw_path, receive, send)
        else:
            await self._next(scope, receive, send)

    async def _answer(self, scope: Scope, raw_path: str, receive: Receive, send: Send) -> None:
        body = bytearray()
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        client, caller = scope.get("client"), self._caller
        voucher, vouched = scope.get("extensions", {}).get(VOUCHED, ""), ""
        if caller is None and "authorization" not in headers:
            session = self._site.sessions.find(headers.get("cookie", ""))
            if session is not None:
                scope[PRINCIPAL] = session.principal  # for the audit log
                if voucher == PROOF_WANTED:
                    headers[PROOF] = SHOWN if scope["scheme"] == SECURE else ""
            elif voucher and voucher != PROOF_WANTED:
                vouched = voucher
                caller = scope[PRINCIPAL] = self._site.known(vouched)
        request = Request(
            scope["method"], raw_path, scope["query_string"].decode("latin-1"), bytes(body),
            headers, client[0] if client else "", caller is not None or is_loopback(client), caller,
            scheme=scope["scheme"],
        )  # fmt: skip
        if vouched and caller is None:
            reply = refusal(Refused(403, "not_authorised", UNKNOWN))
        else:
            reply = await answer(self._site, request)
        if isinstance(reply.body, Watch):
            try:
                await _stream(send, reply, reply.body)
                return
            except Refused as refused:  # before anything was sent
                reply = refusal(refused)
        pieces = [] if reply.body is None else [each async for each in rendered(reply.body)]
        size = sum(map(len, pieces))
        if size >= GZIP_BYTES_MIN and "gzip" in headers.get("accept-encoding", ""):
            packed = await trio.to_thread.run_sync(gzip.compress, b"".join(pieces), 5)
            headed = {**reply.headers, "content-encoding": "gzip"}
            reply = Reply(None, reply.status, headed, reply.kind)
            pieces, size = [packed], len(packed)
        # Drop what the pieces were made from: a client may take long to read them.
        await _send(send, Reply(None, reply.status, reply.headers, reply.kind), pieces)


async def _send(send: Send, reply: Reply, pieces: list[bytes]) -> None:
    headers = {**_ALWAYS, **reply.headers}
    if reply.status != 204:
        headers["content-length"] = str(sum(map(len, pieces)))
    if pieces:
        headers["content-type"] = reply.kind
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})
    for piece, left in _joined(pieces):
        await send({"type": "http.response.body", "body": piece, "more_body": True, LEFT: left})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _stream(send: Send, reply: Reply, watch: Watch) -> None:
    headers = {**_ALWAYS, "content-type": reply.kind, **reply.headers}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    async with aclosing(events(watch)) as pieces:
        piece = await anext(pieces)
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        message = {"type": "http.response.body", "body": piece, "more_body": True}
        await send({**message, STREAMED: True})
        async for piece in pieces:
            message = {"type": "http.response.body", "body": piece, "more_body": True}
            await send({**message, STREAMED: True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _joined(pieces: list[bytes]) -> Iterator[tuple[bytes, int]]:
    """Join pieces until they have :data:`PIECE_BYTES`; yield each with the number of bytes that
    follow it. Empties ``pieces``, so that nothing is kept once it is sent."""
    pieces.reverse()
    left = sum(map(len, pieces))
    gathered, size = list[bytes](), 0
    while pieces:
        gathered.append(pieces.pop())
        size += len(gathered[-1])
        if size >= PIECE_BYTES or not pieces:
            piece, left = b"".join(gathered), left - size
            gathered, size = [], 0
            yield piece, left


def _script() -> bytes:
    return files(__package__).joinpath("rabbitmqadmin.txt").read_bytes()
