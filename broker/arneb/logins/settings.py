"""The settings of logins: which backends there are, and where they find what they must know."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

NO_FILE: Final = Path()
"""No file is named."""

INTERNAL: Final = "internal"
HTTP: Final = "http"
OAUTH: Final = "oauth"
BACKENDS: Final = (INTERNAL, HTTP, OAUTH)

CACHE_S_MAX: Final = 3600.0


@dataclass(frozen=True, slots=True)
class HttpLoginTable:
    """The backend ``http``: a server of yours that is asked as RabbitMQ's
    ``rabbitmq_auth_backend_http`` asks it. It answers ``allow``, with tags for a login, or
    ``deny``."""

    user_url: str = "http://localhost:8000/auth/user"
    """Asked with ``username`` and ``password``."""
    vhost_url: str = "http://localhost:8000/auth/vhost"
    """Asked with ``username``, ``vhost``, ``ip`` and ``tags``."""
    resource_url: str = "http://localhost:8000/auth/resource"
    """Asked with ``username``, ``vhost``, ``resource`` (``queue`` or ``exchange``), ``name``,
    ``permission`` and ``tags``."""
    topic_url: str = "http://localhost:8000/auth/topic"
    """Asked with the same and ``routing_key``, for topic exchanges."""
    post: bool = False
    """Send a form by POST, and no query by GET."""
    timeout_s: float = 15.0
    """How long an answer may take; without one nothing is allowed."""
    cache_s: float = 15.0
    """How long an answer counts before it is asked for again; 0 = it is asked for every time."""

    def __post_init__(self) -> None:
        for name in ("user_url", "vhost_url", "resource_url", "topic_url"):
            value = getattr(self, name)
            if not value.startswith(("http://", "https://")):
                raise ValueError(f"expected {name} to begin with http:// or https://, got {value}")
        if not 0 < self.timeout_s <= 60:
            raise ValueError(
                f"expected timeout_s of more than 0 and up to 60, got {self.timeout_s}"
            )
        if not 0 <= self.cache_s <= CACHE_S_MAX:
            raise ValueError(f"expected cache_s from 0 to {CACHE_S_MAX:g}, got {self.cache_s}")


@dataclass(frozen=True, slots=True)
class OAuthTable:
    """The backend ``oauth``: a JSON Web Token as password, whose scopes are rights as RabbitMQ
    writes them (``<resource_server_id>.read:<vhost>/<name>``)."""

    resource_server_id: str = "rabbitmq"
    """Must be among the audience of a token, and is what scopes that count begin with."""
    jwks_url: str = ""
    """Where the keys of tokens are published (a JSON Web Key Set)."""
    public_key: Path = NO_FILE
    """A public key in PEM, for tokens that name none."""
    issuer: str = ""
    """If it is set, the only issuer whose tokens count."""
    verify_audience: bool = True
    """Look at the audience of tokens."""
    username_claims: tuple[str, ...] = ("sub", "client_id")
    """The first of these claims that a token has is the user's name."""
    additional_scopes_key: str = ""
    """A claim in which there are more scopes."""
    keys_s: float = 300.0
    """How long the keys of ``jwks_url`` count before they are fetched again."""
    timeout_s: float = 10.0
    """How long fetching them may take."""

    def __post_init__(self) -> None:
        if not self.resource_server_id:
            raise ValueError("expected resource_server_id, got none")
        if self.jwks_url and not self.jwks_url.startswith(("http://", "https://")):
            raise ValueError(
                f"expected jwks_url to begin with http:// or https://, got {self.jwks_url}"
            )
        if self.keys_s <= 0 or self.timeout_s <= 0:
            raise ValueError("expected keys_s and timeout_s of more than 0")


@dataclass(frozen=True, slots=True)
class LoginTable:
    """Who knows the users of AMQP and of the HTTP port."""

    backends: tuple[str, ...] = (INTERNAL,)
    """Asked in this order, the first that knows somebody counts: ``internal`` (the users in the
    store), ``http``, ``oauth``."""
    http: HttpLoginTable = HttpLoginTable()
    oauth: OAuthTable = OAuthTable()

    def __post_init__(self) -> None:
        unknown = [each for each in self.backends if each not in BACKENDS]
        if unknown or not self.backends:
            raise ValueError(f"expected backends of {', '.join(BACKENDS)}, got {self.backends!r}")
        if OAUTH in self.backends and not self.oauth.jwks_url and self.oauth.public_key == NO_FILE:
            raise ValueError("expected oauth.jwks_url or oauth.public_key for backend oauth")


DEFAULT_LOGINS: Final = LoginTable()
