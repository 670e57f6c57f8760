"""Vouched sessions: who has logged in at the leader's page, as a node knows it that does not lead.

The rule: the leader is asked each time while there is one. While nobody leads, whoever it vouched
for lately may go on looking at this node, as long as the tags that the directory knows allow it.
"""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import trio
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.access.audited import LOOKING
from arneb.http.access.rules import MONITORING, allows
from arneb.http.management.login import MARK
from arneb.http.management.sessions import COOKIE, token_in
from arneb.http.routing.routed import unavailable
from arneb.http.routing.targets import MEMBER_PATH
from arneb.http.server.asgi import PROOF_WANTED, UNPROVED, VOUCHED
from arneb.http.server.whole_answers import whole_answer
from arneb_core.access.records import User
from arneb_core.access.tables import Tables

SESSION_PATH: Final = "/api/page/session"

REMEMBERED_S: Final = 3600.0
"""So long after the leader vouched for it a session is known while nobody leads."""

REMEMBERED_MAX: Final = 1000
"""As many as a leader has sessions."""

ANSWER_BYTES_MAX: Final = 16 * 1024
"""Of the leader's answer: a name and tags."""

REFUSED: Final = {"error": "not_authorized", "reason": "Not_Authorized"}
"""As the management API says it, by which the page knows that it has to ask for a login."""

OPEN_TO_MONITORS: Final = {"reason": f"expected a user with the tag {MONITORING.who.value}"}


async def leads_now(scope: Scope, receive: Receive, send: Send) -> None:
    """In the leader's place when this node has just begun to lead: its own sessions are others."""
    await unavailable(send, "this node begins to lead")


@dataclass(frozen=True, slots=True)
class _Known:
    """Somebody whom the leader has vouched for."""

    name: str
    may_monitor: bool
    is_in_directory: bool
    at_s: float


class VouchedSessions:
    """The sessions of which the leader said whose they are."""

    def __init__(
        self,
        leader: ASGIApp,
        somebody_leads: Callable[[], bool],
        tables: Tables,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        """``leader`` answers as whoever leads does."""
        self._leader = leader
        self._somebody_leads = somebody_leads
        self._tables = tables
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        """By the digests of tokens, the one that was vouched for last at the end."""

    def __repr__(self) -> str:
        return f"<VouchedSessions, {len(self._known)} known>"

    async def may_monitor(self, scope: Scope) -> bool | None:
        """Whether the one with the session that a request brings may see how a node does; None:
        there is no such session, as far as is known."""
        token = token_in(Headers(scope=scope).get("cookie", ""))
        if not token:
            return None
        key = sha256(token.encode()).digest()
        if self._somebody_leads():
            status, said = await session_at(self._leader, scope, token)
            if status == 200:
                return self._vouched(key, said)
            if status == 401:
                self._known.pop(key, None)
                return None
        return self._remembered(key)

    def _vouched(self, key: bytes, said: Any) -> bool:
        name, may_monitor = str(said["name"]), bool(said["is_monitor"])
        is_there = self._tables.get(User, name) is not None
        self._known[key] = _Known(name, may_monitor, is_there, self._clock())
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return may_monitor

    def _remembered(self, key: bytes) -> bool | None:
        known = self._known.get(key)
        if known is None or self._clock() - known.at_s > REMEMBERED_S:
            return None
        user = self._tables.get(User, known.name)
        if user is None:
            return None if known.is_in_directory else known.may_monitor
        return allows(MONITORING.who, user.tags)


class Vouching:
    """Requests to other leaders than the first shard's by whoever has a session there: they are
    told whose it is. What changes something has to have the page's mark, as it has to there."""

    def __init__(self, first: ASGIApp, is_others: Callable[[Scope], bool], inside: ASGIApp) -> None:
        """``first`` answers as the first shard's leader does. ``is_others``: a request goes to
        another."""
        self._first = first
        self._is_others = is_others
        self._inside = inside

    def __repr__(self) -> str:
        return f"<Vouching before {self._inside!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "http" and self._is_others(scope):
            headers = Headers(scope=scope)
            token = token_in(headers.get("cookie", ""))
            is_ours = scope["method"] in LOOKING or MARK in headers
            if token and is_ours and "authorization" not in headers:
                status, said = await session_at(self._first, scope, token, with_proof=True)
                if status == 200:
                    scope = _known(scope, said)
        await self._inside(scope, receive, send)


def _known(scope: Scope, said: Any) -> Scope:
    """A request of somebody, by a name that is vouched for; or, where somebody else knows who that
    is, by what was shown at the login, or not at all if that does not come here."""
    proof = said.get("proof")
    if proof:
        headers = [*scope["headers"], (b"authorization", f"Basic {proof}".encode())]
        return {**scope, "headers": headers}
    extensions = {
        **scope.get("extensions", {}),
        VOUCHED: str(said["name"]) if proof is None else UNPROVED,
    }
    return {**scope, "extensions": extensions}


class MemberLook:
    """How this node does, for whoever has a session; others prove themselves by a header, as
    everywhere on a node that does not lead."""

    def __init__(
        self, sessions: VouchedSessions, look: Callable[[], dict[str, Any]], others: ASGIApp
    ) -> None:
        self._sessions = sessions
        self._look = look
        self._others = others

    def __repr__(self) -> str:
        return f"<MemberLook before {self._others!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        is_ours = scope.get("path") == MEMBER_PATH and scope["method"] in ("GET", "HEAD")
        if not is_ours or "authorization" in headers:
            await self._others(scope, receive, send)
            return
        may = await self._sessions.may_monitor(scope)
        if may:
            response = JSONResponse(self._look())
        elif may is not None:
            response = JSONResponse(OPEN_TO_MONITORS, 403)
        elif MARK in headers:
            # A browser that is asked by a header asks its user itself, and the page does better.
            response = JSONResponse(REFUSED, 401)
        else:
            await self._others(scope, receive, send)
            return
        response.headers["cache-control"] = "no-store"
        await response(scope, receive, send)


async def session_at(
    leader: ASGIApp, scope: Scope, token: str, *, with_proof: bool = False
) -> tuple[int, Any]:
    """What a leader says of a session, of which a request brings the token; ``with_proof``: and by
    what others may know whose it is, if that came by TLS."""
    extensions = {**scope.get("extensions", {}), **({VOUCHED: PROOF_WANTED} if with_proof else {})}
    asked = {
        **scope,
        "extensions": extensions,
        "method": "GET",
        "path": SESSION_PATH,
        "raw_path": SESSION_PATH.encode(),
        "query_string": b"",
        "headers": [(b"cookie", f"{COOKIE}={token}".encode()), (MARK.encode(), b"1")],
    }
    answer = await whole_answer(leader, asked, ANSWER_BYTES_MAX)
    return answer.status, json.loads(answer.body) if answer.status == 200 else None
