"""Vouched sessions: page sessions of the leader, as known to a node that does not lead.

The rule: while there is a leader, it is asked each time. While no node leads, a user for whom it
recently vouched may continue to look at this node, as long as the user's tags in the directory
allow it.
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
"""How long a session remains valid while no node leads, counted from when a leader last vouched for
it."""

REMEMBERED_MAX: Final = 1000
"""The most remembered sessions: as many as a leader has."""

ANSWER_BYTES_MAX: Final = 16 * 1024
"""The most bytes of the leader's answer, which has a name and tags."""

REFUSED: Final = {"error": "not_authorized", "reason": "Not_Authorized"}
"""The management API's refusal, by which the page knows that it must ask for a login."""

OPEN_TO_MONITORS: Final = {"reason": f"expected a user with the tag {MONITORING.who.value}"}


async def leads_now(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in place of another leader when this node has just begun to lead: sessions here are
    different."""
    await unavailable(send, "this node begins to lead")


@dataclass(frozen=True, slots=True)
class _Known:
    """A user for whom the leader has vouched."""

    name: str
    may_monitor: bool
    is_in_directory: bool
    at_s: float


class VouchedSessions:
    """The sessions whose users the leader has named."""

    def __init__(
        self,
        leader: ASGIApp,
        somebody_leads: Callable[[], bool],
        tables: Tables,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        """``leader`` passes requests on to the current leader."""
        self._leader = leader
        self._somebody_leads = somebody_leads
        self._tables = tables
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        """Users by digest of their session's token, the one vouched for last at the end."""

    def __repr__(self) -> str:
        return f"<VouchedSessions, {len(self._known)} known>"

    async def may_monitor(self, scope: Scope) -> bool | None:
        """Whether the user of a request's session may see this node's state; None if no such
        session is known."""
        token = token_in(Headers(scope=scope).get("cookie", ""))
        if not token:
            return None
        key = sha256(token.encode()).digest()
        if self._somebody_leads():
            status, session = await session_at(self._leader, scope, token)
            if status == 200:
                return self._vouched(key, session)
            if status == 401:
                self._known.pop(key, None)
                return None
        return self._remembered(key)

    def _vouched(self, key: bytes, session: Any) -> bool:
        name, may_monitor = str(session["name"]), bool(session["is_monitor"])
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
    """Informs the leaders of other shards about who has a session with the first shard's leader. A
    request that changes something must carry the page's mark, as there."""

    def __init__(self, first: ASGIApp, is_others: Callable[[Scope], bool], inside: ASGIApp) -> None:
        """``first`` passes requests on to the first shard's leader. ``is_others`` returns whether a
        request is for another shard."""
        self._first = first
        self._is_others = is_others
        self._inside = inside

    def __repr__(self) -> str:
        return f"<Vouching before {self._inside!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and self._is_others(scope):
            headers = Headers(scope=scope)
            token = token_in(headers.get("cookie", ""))
            is_ours = scope["method"] in LOOKING or MARK in headers
            if token and is_ours and "authorization" not in headers:
                status, session = await session_at(self._first, scope, token, with_proof=True)
                if status == 200:
                    scope = _known(scope, session)
        await self._inside(scope, receive, send)


def _known(scope: Scope, session: Any) -> Scope:
    """Return the request with the user's name, vouched for. For a user whom another backend
    authenticated it carries the proof shown at the login instead, or is marked unproved if that
    proof does not reach us."""
    proof = session.get("proof")
    if proof:
        headers = [*scope["headers"], (b"authorization", f"Basic {proof}".encode())]
        return {**scope, "headers": headers}
    extensions = {
        **scope.get("extensions", {}),
        VOUCHED: str(session["name"]) if proof is None else UNPROVED,
    }
    return {**scope, "extensions": extensions}


class MemberLook:
    """Shows this node's state to users with a session; others authenticate by a header, as
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
        """Answer a request."""
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
            # A challenge in a header would make the browser ask the user; the page's own login is
            # better.
            response = JSONResponse(REFUSED, 401)
        else:
            await self._others(scope, receive, send)
            return
        response.headers["cache-control"] = "no-store"
        await response(scope, receive, send)


async def session_at(
    leader: ASGIApp, scope: Scope, token: str, *, with_proof: bool = False
) -> tuple[int, Any]:
    """Ask a leader about a request's session; return the answer's status and document. With
    ``with_proof``, the document has what proves the user to others, if the request came by TLS."""
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
