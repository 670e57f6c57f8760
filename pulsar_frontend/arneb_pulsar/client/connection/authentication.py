"""Authentication: how the client proves who it is.

The rule: credentials are obtained afresh for each connection and for each challenge of a broker, so
that expiring ones can be renewed. Each method serves both the binary protocol and HTTP.
"""

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import httpx

from arneb_pulsar.client.connection.http_answers import answer_of
from arneb_pulsar.client.connection.verification import make_context
from arneb_pulsar.client.errors import AuthenticationFailed, ConfigurationError, PulsarError

T = TypeVar("T")

RENEW_BEFORE_S: Final = 30.0
"""How long before its expiry an OAuth 2 token is renewed."""

ISSUER_TIMEOUT_S: Final = 30.0
"""The limit for a response of the token issuer."""


class Authentication(Protocol):
    """One way to prove who the client is."""

    @property
    def method(self) -> str:
        """The method's name in the protocol."""

    async def data(self) -> bytes:
        """Return the current credentials. Raises :class:`AuthenticationFailed`."""

    async def headers(self) -> dict[str, str]:
        """Return the same as HTTP headers."""


async def proof(authentication: Authentication, ask: Callable[[], Awaitable[T]]) -> T:
    """Return what ``ask``, a method of ``authentication``, returns. Turns any error of application
    code into :class:`AuthenticationFailed`."""
    try:
        return await ask()
    except PulsarError:
        raise
    except Exception as error:
        method = authentication.method
        raise AuthenticationFailed(f"expected a proof by {method!r}, got {error!r}") from error


@dataclass(frozen=True, slots=True)
class NoAuthentication:
    """No authentication."""

    method: str = "none"

    async def data(self) -> bytes:
        """Return no bytes."""
        return b""

    async def headers(self) -> dict[str, str]:
        """Return no headers."""
        return {}


@dataclass(frozen=True, slots=True)
class TlsAuthentication:
    """The client certificate that TLS presents; ``TlsOptions`` names its files."""

    method: str = "tls"

    async def data(self) -> bytes:
        """Return no bytes: TLS has authenticated the client."""
        return b""

    async def headers(self) -> dict[str, str]:
        """Return no headers."""
        return {}


TokenSource = str | Path | Callable[[], "str | Awaitable[str]"]


@dataclass(frozen=True, slots=True)
class TokenAuthentication:
    """A JSON web token: the text itself, a file that is read each time, or a function, which may be
    asynchronous."""

    source: TokenSource = field(repr=False)
    method: str = "token"

    async def data(self) -> bytes:
        """Return the token."""
        match self.source:
            case str():
                token = self.source
            case Path():
                try:
                    token = await anyio.Path(self.source).read_text(encoding="utf-8")
                except OSError as error:
                    raise AuthenticationFailed(
                        f"expected a token in {self.source}: {error}"
                    ) from error
            case _:
                found = self.source()
                token = await found if isawaitable(found) else found
        return token.strip().encode()

    async def headers(self) -> dict[str, str]:
        """Return the token as a Bearer header."""
        return {"Authorization": f"Bearer {(await self.data()).decode()}"}


@dataclass(frozen=True, slots=True)
class BasicAuthentication:
    """A user name and a password."""

    user: str
    password: str = field(repr=False)
    method: str = "basic"

    async def data(self) -> bytes:
        """Return ``user:password``."""
        return f"{self.user}:{self.password}".encode()

    async def headers(self) -> dict[str, str]:
        """Return the header of HTTP's Basic authentication."""
        return {"Authorization": f"Basic {b64encode(await self.data()).decode()}"}


@dataclass(slots=True)
class OAuth2Authentication:
    """OAuth 2 with client credentials: a token from an issuer, renewed before it expires."""

    issuer_url: str
    client_id: str
    client_secret: str = field(repr=False)
    audience: str = ""
    scope: str = ""
    trust_certificates: str | None = None
    """A file of certificates to verify the issuer's with; by default the system's."""
    method: str = "token"
    _token: str = field(default="", init=False, repr=False)
    _renew_at: float = field(default=0.0, init=False, repr=False)

    def __repr__(self) -> str:
        return f"<OAuth2Authentication of {self.client_id!r} at {self.issuer_url}>"

    @classmethod
    def from_key_file(
        cls, path: str | Path, issuer_url: str, audience: str = "", scope: str = ""
    ) -> "OAuth2Authentication":
        """Read the client's id and secret from a key file of Pulsar's other clients. Raises
        :class:`ConfigurationError`."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(issuer_url, found["client_id"], found["client_secret"], audience, scope)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"expected client_id and client_secret in {path}") from error

    async def data(self) -> bytes:
        """Return the token; get a new one if the last is about to expire."""
        if not self._token or anyio.current_time() >= self._renew_at:
            await self._renew()
        return self._token.encode()

    async def headers(self) -> dict[str, str]:
        """Return the token as a Bearer header."""
        return {"Authorization": f"Bearer {(await self.data()).decode()}"}

    async def _renew(self) -> None:
        base = self.issuer_url.rstrip("/")
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
        }
        if self.audience:
            form["audience"] = self.audience
        if self.scope:
            form["scope"] = self.scope
        try:
            verify = make_context(cafile=self.trust_certificates)
            async with httpx.AsyncClient(timeout=ISSUER_TIMEOUT_S, verify=verify) as http:
                ask = http.build_request("GET", f"{base}/.well-known/openid-configuration")
                found = await answer_of(http, ask)
                endpoint = found.raise_for_status().json()["token_endpoint"]
                ask = http.build_request("POST", endpoint, data=form)
                answer = (await answer_of(http, ask)).raise_for_status().json()
                token, expires_s = answer["access_token"], float(answer.get("expires_in", 3600))
        except (httpx.HTTPError, PulsarError, OSError, ValueError, KeyError, TypeError) as error:
            raise AuthenticationFailed(
                f"expected a token for {self.client_id!r} from {base}: {error!r}"
            ) from error
        self._token = token
        self._renew_at = anyio.current_time() + max(expires_s - RENEW_BEFORE_S, expires_s / 2)
