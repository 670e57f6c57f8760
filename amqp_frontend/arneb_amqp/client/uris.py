"""URIs of brokers, as RabbitMQ's clients write them.

The rule: only :attr:`BrokerUri.shown`, which has no password, is ever displayed.

Source: RabbitMQ's URI specification, and its URI query parameters.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

AMQP_PORT: Final = 5672
AMQPS_PORT: Final = 5671

HEARTBEAT_S: Final = 10
TIMEOUT_S: Final = 60.0
"""RabbitMQ's defaults for connections between brokers."""


class InvalidUri(ValueError):
    """Not a URI of a broker; the text says why, without the password."""


@dataclass(frozen=True, slots=True)
class BrokerUri:
    """A broker's address and the client's credentials."""

    host: str = ""
    """Empty: this broker, without a connection."""
    port: int = AMQP_PORT
    vhost: str | None = None
    """None: the shovel's own vhost in this broker; ``/`` in another."""
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    tls: bool = False
    heartbeat_s: int = HEARTBEAT_S
    timeout_s: float = TIMEOUT_S
    """The time for the connection to open."""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    verifies: bool = True
    server_name: str = ""
    external: bool = False
    """Whether it authenticates by its certificate."""
    shown: str = "amqp://"
    """The URI without user, password and query."""

    @property
    def is_local(self) -> bool:
        """Whether it is this broker."""
        return not self.host


def parse_uri(text: str) -> BrokerUri:
    """Parse the URI of a broker. Raises :class:`InvalidUri`."""
    try:
        parts = urlsplit(text)
        port, host = parts.port, unquote(parts.hostname or "")
    except ValueError as error:
        raise InvalidUri(f"expected a URI, got one that cannot be read: {error}") from None
    if parts.scheme not in ("amqp", "amqps"):
        raise InvalidUri(f"expected amqp:// or amqps://, got {parts.scheme[:20]!r}")
    secured = parts.scheme == "amqps"
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    vhost = None if not parts.path else unquote(parts.path[1:])
    if not host and parts.path == "/":
        vhost = None
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = "" if port is None else f":{port}"
    verify = query.get("verify", "verify_peer" if "cacertfile" in query else "verify_none")
    return BrokerUri(
        host,
        port or (AMQPS_PORT if secured else AMQP_PORT),
        vhost,
        unquote(parts.username) if parts.username is not None else "guest",
        unquote(parts.password) if parts.password is not None else "guest",
        secured,
        _number(query, "heartbeat", HEARTBEAT_S),
        _number(query, "connection_timeout", int(TIMEOUT_S * 1000)) / 1000,
        query.get("cacertfile", ""),
        query.get("certfile", ""),
        query.get("keyfile", ""),
        verify != "verify_none",
        query.get("server_name_indication", ""),
        query.get("auth_mechanism", "").lower() == "external",
        f"{parts.scheme}://{shown_host}{shown_port}{parts.path}",
    )


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidUri(f"expected a number as {name}, got {text[:20]!r}")
    return int(text)
