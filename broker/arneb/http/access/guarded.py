"""Guarded applications: a request without valid credentials gets a refusal and nothing else.

The rule: every path needs authentication, except those named as open, and it is checked before
anything else of a request is read.
"""

from base64 import b64decode
from collections.abc import Callable, Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.access.rules import VISITOR, Visitor
from arneb.http.server.senders import CERTIFICATE, NO_CERTIFICATE
from arneb_amqp.config import GUEST
from arneb_core.access.authority import Authority
from arneb_core.access.principals import Credentials, LoginRefused
from arneb_core.api.connections.endpoints import address_of
from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.services.clients.authenticator import Authenticator

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"

PRINCIPAL: Final = "arneb.principal"
"""The key of a request's scope that holds the user who sent it."""

CALLER: Final = "arneb.caller"
"""The key of a request's scope that holds the Pulsar role that sent it."""

ORIGINAL_PRINCIPAL: Final = "x-original-principal"
"""The header by which a Pulsar proxy names the role it acts for."""

METHOD_NAME: Final = "x-pulsar-auth-method-name"
"""The header in which a Pulsar client names its authentication method."""

USERS_METHODS: Final = ("", "basic")
"""The methods of users, who have names and passwords."""

ASKED: Final = {"www-authenticate": 'Bearer, Basic realm="arneb"'}


def anybody(caller: Caller) -> bool:
    """Allow every authenticated role everything."""
    return True


class Guarded:
    """An application behind authentication; ``open_paths`` need no authentication.
    ``authenticator`` admits roles, and ``users`` admits users by their passwords. ``guest``, whose
    password is public, is admitted only while no other user exists (``has_named``) and roles need
    no authentication. Without ``users`` this is Pulsar's port, which is open to everybody if roles
    need no authentication."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        open_paths: Collection[str] = (),
        users: Authority | None = None,
        *,
        has_named: Callable[[], bool] = lambda: True,
        is_super: Callable[[Caller], bool] = anybody,
    ) -> None:
        """``is_super`` returns whether a Pulsar role may do everything."""
        self._has_named = has_named
        self._is_super = is_super
        self._app = app
        self._authenticator = authenticator
        self._open_paths = frozenset(open_paths)
        self._users = users

    def __repr__(self) -> str:
        return f"<Guarded {self._app!r}, open: {sorted(self._open_paths)}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in self._open_paths or await self._admits(scope):
            await self._app(scope, receive, send)
            return
        reason = {"reason": "Authentication required"}
        await JSONResponse(reason, 401, headers=ASKED)(scope, receive, send)

    async def _admits(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        authorization = headers.get("authorization", "")
        method = headers.get(METHOD_NAME, "")
        if not (self._authenticator.asks or self._users):
            scope[CALLER] = NOBODY
            return True
        if self._authenticator.asks:
            original = headers.get(ORIGINAL_PRINCIPAL, "")
            certificate = scope.get("extensions", {}).get(CERTIFICATE, NO_CERTIFICATE)
            client = scope.get("client")
            caller = await self._authenticator.caller(
                authorization, original, certificate, client[0] if client else "", method
            )
            if caller is not None:
                scope[CALLER] = caller
                scope[VISITOR] = Visitor(is_super=self._is_super(caller))
                return True
        return method in USERS_METHODS and await self._is_user(scope, authorization)

    async def _is_user(self, scope: Scope, authorization: str) -> bool:
        scheme, _, proof = authorization.partition(" ")
        if self._users is None:
            return False
        if scheme.lower() == "bearer":
            name, password = "", proof.strip()  # the token names its user
        elif scheme.lower() == "basic":
            try:
                name, _, password = b64decode(proof, validate=True).decode().partition(":")
            except ValueError:
                return False
        else:
            return False
        is_guest = (name, password) == (GUEST.name, GUEST.password)
        if is_guest and (self._has_named() or self._authenticator.asks):
            return False  # everybody knows it
        client = scope.get("client")
        credentials = Credentials(
            name, password, client[0] if client else "", is_loopback(client), "HTTP"
        )
        try:
            principal = await self._users.log_in(credentials)
        except LoginRefused:
            return False
        scope[PRINCIPAL], scope[VISITOR] = principal, Visitor(principal)
        return True


def is_loopback(client: tuple[str, int] | None) -> bool:
    """Whether the client is on this machine."""
    if client is None:
        return False
    return address_of(client[0]).is_loopback
