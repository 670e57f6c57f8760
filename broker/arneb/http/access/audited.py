"""Audited applications: every change leaves a record.

The rule: a request that only reads is not recorded; every other one is recorded with its outcome,
even if it is refused, before its answer is sent.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arneb.http.access.guarded import PRINCIPAL
from arneb.logs.audit_log import AuditLog, AuditRecord, shown_fields
from arneb_core.access.principals import Principal

LOOKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})

DATA: Final = "/data/"
"""Paths of the data API, by which applications publish and consume."""

BODY_BYTES_MAX: Final = 64 * 1024
"""The largest body whose fields are shown."""

NOBODY: Final = ""


class Audited:
    """An application whose changes are recorded."""

    def __init__(self, app: ASGIApp, log: AuditLog, by: str, user: str = NOBODY) -> None:
        """``by`` is how requests arrive; ``user`` is the sender where there is no login."""
        self._app = app
        self._log = log
        self._by = by
        self._user = user

    def __repr__(self) -> str:
        return f"<Audited {self._app!r} by {self._by}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_change = scope["type"] == "http" and scope["method"] not in LOOKING
        if not is_change or scope["path"].startswith(DATA):
            await self._app(scope, receive, send)
            return
        body = bytearray()

        async def hearing() -> Message:
            message = await receive()
            if len(body) <= BODY_BYTES_MAX:
                body.extend(message.get("body", b""))
            return message

        async def recording(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._log.record(self._record(scope, bytes(body), message["status"]))
            await send(message)

        await self._app(scope, hearing, recording)

    def _record(self, scope: Scope, body: bytes, status: int) -> AuditRecord:
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        headers = Headers(scope=scope)
        client = scope.get("client") or ("", 0)
        fields = _fields(raw_path, body)
        if reason := headers.get("x-reason"):
            fields["reason"] = reason[:1000]
        return AuditRecord(
            self._user or _known(scope) or claimed(headers), self._by, f"{client[0]}:{client[1]}",
            f"{scope['method']} {raw_path}", outcome_of(status), status, fields,
        )  # fmt: skip


def outcome_of(status: int) -> str:
    """Return the outcome that a status means."""
    if status < 300:
        return "done"
    if status in (401, 403):
        return "refused"
    return "rejected" if status < 500 else "failed"


def _known(scope: Scope) -> str:
    """Return the authenticated user; empty if there is none."""
    principal = scope.get(PRINCIPAL)
    return principal.name if isinstance(principal, Principal) else ""


def claimed(headers: Mapping[str, str]) -> str:
    """Return the name that a request claims, whether or not it is true."""
    scheme, _, proof = headers.get("authorization", "").partition(" ")
    if not scheme and "cookie" in headers:
        try:
            morsel = SimpleCookie(headers["cookie"]).get("auth")
        except CookieError:
            morsel = None
        scheme, proof = ("basic", unquote(morsel.value)) if morsel else ("", "")
    if scheme.lower() == "basic":
        try:
            return b64decode(proof.strip(), validate=True).decode().partition(":")[0]
        except ValueError:
            return "(not readable)"
    return "(by token)" if scheme.lower() == "bearer" else ""


def _fields(raw_path: str, body: bytes) -> dict[str, Any]:
    if not body or len(body) > BODY_BYTES_MAX:
        return {}
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(sent, dict):
        return {}
    noun = raw_path.removeprefix("/api/").removeprefix("/ctl/").partition("/")[0]
    return shown_fields(noun, sent)
