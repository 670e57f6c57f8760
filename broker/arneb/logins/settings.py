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
    """The backend ``http``: your own server, asked in the way of RabbitMQ's
    ``rabbitmq_auth_backend_http``. It answers ``allow``, with tags for a login, or ``deny``."""

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
    """Send a form with POST instead of a query with GET."""
    timeout_s: float = 15.0
    """How long the server may take to answer; without an answer nothing is allowed."""
    cache_s: float = 15.0
    """How long an answer is cached; 0 = ask every time."""

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
    """The backend ``oauth``: the password is a JSON Web Token, whose scopes are rights in
    RabbitMQ's form (``<resource_server_id>.read:<vhost>/<name>``)."""

    resource_server_id: str = "rabbitmq"
    """Must be in the token's audience, and is the prefix of the scopes that count."""
    jwks_url: str = ""
    """Where the keys for tokens are published (a JSON Web Key Set)."""
    public_key: Path = NO_FILE
    """A public key in PEM, for tokens that name no key."""
    issuer: str = ""
    """If set, only tokens of this issuer are accepted."""
    verify_audience: bool = True
    """Check the audience of tokens."""
    username_claims: tuple[str, ...] = ("sub", "client_id")
    """The first of these claims that a token has is the user's name."""
    additional_scopes_key: str = ""
    """A claim with additional scopes."""
    keys_s: float = 300.0
    """How long the keys of ``jwks_url`` are cached."""
    timeout_s: float = 10.0
    """The maximum time for fetching them."""

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
    """Where users of AMQP and of the HTTP port are looked up."""

    backends: tuple[str, ...] = (INTERNAL,)
    """The backends, asked in this order until one knows the user: ``internal`` (users in the
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
