"""The settings of the AMQP frontend: frozen, checked once, passed explicitly."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from arneb_amqp.wire.constants import (
    CHANNEL_MAX_DEFAULT,
    FRAME_BYTES_MAX_DEFAULT,
    FRAME_BYTES_MIN,
    HEARTBEAT_S_DEFAULT,
    LONG_MAX,
    MESSAGE_BYTES_MAX_DEFAULT,
    PARTIAL_BYTES_MAX_DEFAULT,
    SHORT_MAX,
)
from arneb_core.access.defaults import LimitsOf, PolicyOf, VhostDefaults
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.passwords import parse_hash
from arneb_core.access.patterns import check_pattern
from arneb_core.access.seed import Seed, SeedUser

KIB: Final = 1024

TRANSACTION_BYTES_MAX_DEFAULT: Final = 256 * KIB * KIB
"""Two of the largest messages, or 170,000 of 1 KiB. A commit holds all of it once more, in pages of
the store, until it is on disk."""


@dataclass(frozen=True, slots=True)
class User:
    """A user at the first start, who may then do everything in every vhost."""

    name: str
    """The name as the client sends it."""
    password: str = field(default="", repr=False)
    """In clear text, so keep the file private. Set either this or ``password_hash``."""
    password_hash: str = ""
    """RabbitMQ's hash of a password, with SHA-256 (``rabbitmqctl hash_password``, ``arneb
    init``)."""
    loopback_only: bool = False
    """The user may log in from this machine only; RabbitMQ's rule for ``guest``."""
    tags: tuple[str, ...] = ("administrator",)
    """The user's RabbitMQ tags, which give rights over HTTP: ``administrator``, ``monitoring``,
    ``policymaker``, ``management``, ``impersonator``."""

    def __post_init__(self) -> None:
        if not self.name or not (self.password or self.password_hash):
            raise ValueError(f"expected a name and a password, got user {self.name!r} without")
        if self.password and self.password_hash:
            raise ValueError(f"expected password or password_hash of user {self.name!r}, got both")
        try:
            parse_hash(self.password_hash)
        except InvalidAccess as error:
            raise ValueError(f"password_hash of user {self.name!r}: {error}") from None


GUEST: Final = User("guest", "guest", loopback_only=True)


QUEUE_TYPES: Final = ("classic", "quorum", "stream")
"""The choices of a default queue type."""


def _check_pattern(name: str, pattern: str) -> None:
    try:
        check_pattern(pattern)
    except InvalidAccess as error:
        raise ValueError(f"{name}: {error}") from None


class CertificateLogin(Enum):
    """The part of a certificate that is the user's name; the values are RabbitMQ's."""

    DISTINGUISHED_NAME = "distinguished_name"
    COMMON_NAME = "common_name"
    SUBJECT_ALTERNATIVE_NAME = "subject_alternative_name"


class SanType(Enum):
    """A kind of alternative name; the values are RabbitMQ's."""

    DNS = "dns"
    IP = "ip"
    EMAIL = "email"
    URI = "uri"
    OTHER_NAME = "other_name"


@dataclass(frozen=True, slots=True)
class DefaultLimits:
    """The first such table whose pattern is found in the name applies, and no other. It applies
    when the virtual host is made: later changes of the settings do not affect it."""

    pattern: str = ".*"
    """A regular expression, searched in names of virtual hosts."""
    max_connections: int = -1
    """The maximum number of connections; -1 = no limit."""
    max_queues: int = -1
    """The maximum number of queues; -1 = no limit."""

    def __post_init__(self) -> None:
        _check_pattern("pattern", self.pattern)

    @property
    def limits(self) -> LimitsOf:
        """The same in the catalogue's form."""
        given = {"max-connections": self.max_connections, "max-queues": self.max_queues}
        return LimitsOf(self.pattern, {name: each for name, each in given.items() if each >= 0})


@dataclass(frozen=True, slots=True)
class DefaultOperatorPolicy:
    """They apply when the virtual host is made: later changes of the settings do not affect it."""

    name: str
    """Its name."""
    vhost_pattern: str = ".*"
    """A regular expression, searched in names of virtual hosts."""
    queue_pattern: str = ".*"
    """The policy's pattern, for names of queues."""
    expires_ms: int = -1
    """``expires``: how long a queue may be unused; -1 = not set."""
    message_ttl_ms: int = -1
    """``message-ttl``: how long a message may wait; -1 = not set."""
    max_length: int = -1
    """``max-length``: the most messages of a queue; -1 = not set."""
    max_length_bytes: int = -1
    """``max-length-bytes``: the most bytes of a queue's messages; -1 = not set."""
    delivery_limit: int = -1
    """``delivery-limit`` of quorum queues; -1 = not set."""

    def __post_init__(self) -> None:
        _check_pattern("vhost_pattern", self.vhost_pattern)
        _check_pattern("queue_pattern", self.queue_pattern)
        if not self.policy.definition or self.expires_ms == 0:
            raise ValueError(
                f"expected something that policy {self.name!r} sets, or expires_ms > 0"
            )

    @property
    def policy(self) -> PolicyOf:
        """The same in the catalogue's form."""
        given = {
            "expires": self.expires_ms,
            "message-ttl": self.message_ttl_ms,
            "max-length": self.max_length,
            "max-length-bytes": self.max_length_bytes,
            "delivery-limit": self.delivery_limit,
        }
        set_ = {name: each for name, each in given.items() if each >= 0}
        return PolicyOf(self.name, self.vhost_pattern, self.queue_pattern, set_)


RANGES: Final = {
    "channel_max": (0, SHORT_MAX),
    "frame_bytes_max": (0, LONG_MAX),
    "heartbeat_s": (0, SHORT_MAX),
}
"""What ``connection.tune`` has room for."""


@dataclass(frozen=True, slots=True)
class AmqpConfig:
    """What the server offers, demands and bounds."""

    users: tuple[User, ...] = (GUEST,)
    """One such table for each user at the first start; later the store has the users. Without such
    a table there is one user, ``guest`` with the password ``guest``, who may log in from this
    machine only; with one, there is no ``guest``."""
    vhosts: tuple[str, ...] = ("/",)
    """The virtual hosts at the first start; later the store has them."""
    default_queue_type: str = ""
    """The type of queues declared without one, in virtual hosts without a default of their own:
    ``classic``, ``quorum`` or ``stream``; empty: ``classic``. A queue that cannot be of that type
    is classic."""
    default_limits: tuple[DefaultLimits, ...] = ()
    """Limits that new virtual hosts have."""
    default_operator_policies: tuple[DefaultOperatorPolicy, ...] = ()
    """Operator policies that new virtual hosts have."""
    loopback_users: tuple[str, ...] = ("guest",)
    """Users who may log in from this machine only, except those in ``users``, which have their own
    setting."""
    password_length_min: int = 0
    """The fewest characters in a password that an operator sets."""
    password_pattern: str = ".*"
    """A regular expression that must be found in each such password."""
    vhosts_max: int = -1
    """The maximum number of virtual hosts; -1 = no limit."""
    connections_max: int = -1
    """The most AMQP connections of a node; -1 = no limit."""
    node_channels_max: int = -1
    """The maximum number of channels on all connections to a node; -1 = no limit."""
    channel_consumers_max: int = -1
    """The maximum number of consumers on a channel; -1 = no limit."""
    queues_max: int = -1
    """The maximum number of queues in all virtual hosts; -1 = no limit."""
    external_login: bool = False
    """Offer ``EXTERNAL`` over TLS: a client's certificate, verified by ``tls.client_ca``, names the
    user, without a password."""
    certificate_login: CertificateLogin = CertificateLogin.DISTINGUISHED_NAME
    """The part of a certificate that is the user's name: ``distinguished_name``, ``common_name`` or
    ``subject_alternative_name``."""
    certificate_san_type: SanType = SanType.DNS
    """The type of alternative name to use: ``dns``, ``ip``, ``email``, ``uri`` or
    ``other_name``."""
    certificate_san_index: int = 0
    """The index among these names, from 0."""
    channel_max: int = CHANNEL_MAX_DEFAULT
    """The maximum number of channels on a connection; 0 = no limit."""
    frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT
    """The maximum size of a frame, offered to clients as ``frame-max``; 0 = no limit."""
    message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT
    """The maximum size of a message body; a larger one closes its channel with 406."""
    partial_bytes_max: int = PARTIAL_BYTES_MAX_DEFAULT
    """The maximum bytes of partly received messages on all channels of a connection; more close the
    connection with 506."""
    transaction_bytes_max: int = TRANSACTION_BYTES_MAX_DEFAULT
    """The maximum bytes of open transactions on all channels of a connection; more close the
    connection with 506."""
    heartbeat_s: int = HEARTBEAT_S_DEFAULT
    """The heartbeat interval offered to clients; 0 = none."""
    proxy_protocol: bool = False
    """Every connection begins with a header of the PROXY protocol, version 1 or 2, in which a proxy
    names the client. Anybody who reaches the port is believed, so let only proxies reach it."""
    handshake_s: float = 10.0
    """The maximum time from accepting a connection to its ``connection.open``."""
    close_s: float = 5.0
    """The longest wait for ``close-ok`` after a ``connection.close`` before the socket is cut."""
    outbox_bytes_high: int = 512 * KIB
    """With more unsent output than this, a connection's consumers get no new deliveries."""
    outbox_bytes_low: int = 128 * KIB
    """Deliveries resume when there is less than this."""
    outbox_bytes_max: int = 8 * KIB * KIB
    """Above this much unsent output the connection is not read either. It is far above what
    deliveries can reach: a client with one thread may publish for long before it reads its
    deliveries, and must not wait for us while we wait for it. This bounds answers that nobody
    reads."""
    consumer_timeout_s: float = 1800.0
    """A delivery not acknowledged for this long closes its channel; 0 = never."""
    event_exchange_vhost: str = ""
    """The virtual host whose exchange ``amq.rabbitmq.event`` publishes the broker's events, with
    the names of all virtual hosts and users; empty: none has it."""
    cluster_name: str = "arneb"
    """The ``cluster_name`` in the server properties that clients see."""

    def __post_init__(self) -> None:
        _check_pattern("password_pattern", self.password_pattern)
        for name, (least, most) in RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(
                    f"expected {name} from {least} to {most}, got {getattr(self, name)}"
                )
        if not self.handshake_s > 0:
            raise ValueError(f"expected handshake_s of more than 0, got {self.handshake_s}")
        for name in ("close_s", "consumer_timeout_s", "message_bytes_max", "certificate_san_index"):
            if getattr(self, name) < 0:
                raise ValueError(f"expected {name} of at least 0, got {getattr(self, name)}")
        if self.frame_bytes_max and self.frame_bytes_max < FRAME_BYTES_MIN:
            raise ValueError(
                f"expected frame_bytes_max of at least {FRAME_BYTES_MIN} or 0, "
                f"got {self.frame_bytes_max}"
            )
        for name in ("partial_bytes_max", "transaction_bytes_max"):
            if (most := getattr(self, name)) < self.message_bytes_max:
                raise ValueError(
                    f"expected {name} of at least message_bytes_max, which is "
                    f"{self.message_bytes_max}, got {most}"
                )
        if self.default_queue_type and self.default_queue_type not in QUEUE_TYPES:
            raise ValueError(
                f"expected default_queue_type to be one of {', '.join(QUEUE_TYPES)}, "
                f"got {self.default_queue_type!r}"
            )
        if not 0 <= self.outbox_bytes_low < self.outbox_bytes_high < self.outbox_bytes_max:
            raise ValueError("expected outbox_bytes_low below _high below _max")

    @property
    def seed(self) -> Seed:
        """The users and virtual hosts at the first start."""
        users = (
            SeedUser(each.name, each.password, each.tags, parse_hash(each.password_hash))
            for each in self.users
        )
        return Seed(self.vhosts, tuple(users))

    @property
    def vhost_defaults(self) -> VhostDefaults:
        """The defaults of new virtual hosts."""
        return VhostDefaults(
            tuple(each.limits for each in self.default_limits),
            tuple(each.policy for each in self.default_operator_policies),
        )

    def is_loopback_only(self, user: str) -> bool:
        """Whether the user may log in from this machine only."""
        named = {each.name: each.loopback_only for each in self.users}
        return named.get(user, user in self.loopback_users)

    def adjusted(
        self,
        *,
        channel_max: int | None = None,
        consumer_timeout_s: float | None = None,
        loopback_users: Sequence[str] | None = None,
    ) -> "AmqpConfig":
        """Return the settings with another ``channel_max`` or ``consumer_timeout_s``, or with
        exactly these users who may log in from this machine only."""
        config = self
        if consumer_timeout_s is not None:
            config = replace(config, consumer_timeout_s=consumer_timeout_s)
        if channel_max is not None:
            config = replace(config, channel_max=channel_max)
        if loopback_users is not None:
            wanted = tuple(loopback_users)
            users = tuple(replace(each, loopback_only=each.name in wanted) for each in config.users)
            config = replace(config, loopback_users=wanted, users=users)
        return config


class Adjustable:
    """The settings for the next connection, which an operator may change at run time."""

    def __init__(self, now: AmqpConfig) -> None:
        self.now = now

    def __repr__(self) -> str:
        return f"<Adjustable {self.now!r}>"

    def is_loopback_only(self, user: str) -> bool:
        """Whether the user may log in from this machine only, by the current settings."""
        return self.now.is_loopback_only(user)
