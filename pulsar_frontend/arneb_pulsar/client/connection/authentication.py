"""Authentication: how the client proves who it is.

The rule: proof is asked for anew at every connection, and whenever a broker asks again, so that
what expires may be renewed. Each method serves the binary protocol and HTTP alike.
"""

import json
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import httpx

from arneb_pulsar.client.connection.http_answers import answer_of
from arneb_pulsar.client.errors import AuthenticationFailed, ConfigurationError, PulsarError

T = TypeVar("T")

RENEW_BEFORE_S: Final = 30.0
"""A token of OAuth 2 is renewed so long before it expires."""

ISSUER_TIMEOUT_S: Final = 30.0
"""For an answer of the issuer of tokens."""


class Authentication(Protocol):
    """One way to prove who the client is."""

    @property
    def method(self) -> str:
        """Its name in the protocol."""

    async def data(self) -> bytes:
        """The proof, as of now. Raises :class:`AuthenticationFailed`."""

    async def headers(self) -> dict[str, str]:
        """The same for HTTP."""


async def proof(authentication: Authentication, ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask``, a method of ``authentication``, gives. Raises :class:`AuthenticationFailed`,
    whatever an application's own code has raised."""
    try:
        return await ask()
    except PulsarError:
        raise
    except Exception as error:
        method = authentication.method
        raise AuthenticationFailed(f"expected a proof by {method!r}, got {error!r}") from error


@dataclass(frozen=True, slots=True)
class NoAuthentication:
    """No proof at all."""

    method: str = "none"

    async def data(self) -> bytes:
        """Nothing."""
        return b""

    async def headers(self) -> dict[str, str]:
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class TlsAuthentication:
    """The certificate that TLS presents; its files are named in ``TlsOptions``."""

    method: str = "tls"

    async def data(self) -> bytes:
        """Nothing: TLS has said it."""
        return b""

    async def headers(self) -> dict[str, str]:
        """None."""
        return {}


TokenSource = str | Path | Callable[[], "str | Awaitable[str]"]


@dataclass(frozen=True, slots=True)
class TokenAuthentication:
    """A JSON web token: the text itself, a file that is read anew each time, or a function, which
    may be asynchronous."""

    source: TokenSource = field(repr=False)
    method: str = "token"

    async def data(self) -> bytes:
        """The token."""
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
        """As a bearer."""
        return {"Authorization": f"Bearer {(await self.data()).decode()}"}


@dataclass(frozen=True, slots=True)
class BasicAuthentication:
    """A user and a password."""

    user: str
    password: str = field(repr=False)
    method: str = "basic"

    async def data(self) -> bytes:
        """``user:password``."""
        return f"{self.user}:{self.password}".encode()

    async def headers(self) -> dict[str, str]:
        """As HTTP's own."""
        return {"Authorization": f"Basic {b64encode(await self.data()).decode()}"}


@dataclass(slots=True)
class OAuth2Authentication:
    """OAuth 2, client credentials: a token from an issuer, renewed before it expires."""

    issuer_url: str
    client_id: str
    client_secret: str = field(repr=False)
    audience: str = ""
    scope: str = ""
    trust_certificates: str | None = None
    """A file of certificates that the issuer's is checked with; by default those of the system."""
    method: str = "token"
    _token: str = field(default="", init=False, repr=False)
    _renew_at: float = field(default=0.0, init=False, repr=False)

    def __repr__(self) -> str:
        return f"<OAuth2Authentication of {self.client_id!r} at {self.issuer_url}>"

    @classmethod
    def from_key_file(
        cls, path: str | Path, issuer_url: str, audience: str = "", scope: str = ""
    ) -> "OAuth2Authentication":
        """With the client's id and secret of a file, as Pulsar's other clients keep it. Raises
        :class:`ConfigurationError`."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(issuer_url, found["client_id"], found["client_secret"], audience, scope)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"expected client_id and client_secret in {path}") from error

    async def data(self) -> bytes:
        """The token, a new one if the last is about to expire."""
        if not self._token or anyio.current_time() >= self._renew_at:
            await self._renew()
        return self._token.encode()

    async def headers(self) -> dict[str, str]:
        """As a bearer."""
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
            verify = ssl.create_default_context(cafile=self.trust_certificates)
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
