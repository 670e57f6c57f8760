"""Settings of the Pulsar context; the broker reads them from its configuration file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arneb_pulsar.names import DEFAULT_NAMESPACE, parse_namespace
from arneb_pulsar.namespaces.policies import (
    PARTITIONS_MAX,
    AutoTopicCreation,
    InactiveTopics,
    Policies,
)
from arneb_pulsar.schemas.compatibility import Strategy

NOT_NEGATIVE: Final = ("max_unacked_messages_per_consumer", "max_unacked_messages_per_subscription")
POSITIVE: Final = (
    "handshake_timeout_s",
    "keep_alive_s",
    "probe_timeout_s",
    "outbox_bytes_max",
    "inactive_topic_s",
    "inactive_check_s",
    "backlog_quota_check_s",
)


METHODS: Final = ("token", "basic", "tls")

NO_FILE: Final = Path()
"""A file that is not named."""


@dataclass(frozen=True, slots=True)
class AuthenticationConfig:
    """How clients prove who they are. Without methods whatever they say is taken."""

    methods: tuple[str, ...] = ()
    """Of ``token``, ``basic`` and ``tls`` those that count."""

    token_secret_key: Path = NO_FILE
    token_public_key: Path = NO_FILE
    """What tokens are checked with: a secret of at least 32 bytes, or a key in PEM or DER."""

    basic_file: Path = NO_FILE
    """Apache's htpasswd file."""

    def __post_init__(self) -> None:
        for method in self.methods:
            if method not in METHODS:
                raise ValueError(f"methods: expected some of {', '.join(METHODS)}, got {method!r}")
        keys = (self.token_secret_key != NO_FILE) + (self.token_public_key != NO_FILE)
        if "token" in self.methods and keys != 1:
            raise ValueError("expected token_secret_key or token_public_key for method token")
        if "basic" in self.methods and self.basic_file == NO_FILE:
            raise ValueError("expected basic_file for method basic")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """A TLS listener's files, in PEM."""

    certificate: Path = NO_FILE
    key: Path = NO_FILE
    """May stand in the certificate's file."""

    client_ca: Path = NO_FILE
    """Who signs clients' certificates; those are asked for if it is named."""

    require_client_certificate: bool = False

    def __post_init__(self) -> None:
        if self.require_client_certificate and self.client_ca == NO_FILE:
            raise ValueError("expected client_ca beside require_client_certificate")


@dataclass(frozen=True, slots=True)
class PulsarConfig:
    """Each field is a key of the configuration table.

    Raises :class:`ValueError` for values that cannot be.
    """

    advertised_url: str = ""
    """What lookups answer, e.g. ``pulsar://broker.example:6650``. Empty: that the client shall
    come the way that it came, which is right unless it looked up over HTTP and something
    translates ports."""

    advertised_tls_url: str = ""
    """The same for connections by TLS, e.g. ``pulsar+ssl://broker.example:6651``."""

    authentication: AuthenticationConfig = AuthenticationConfig()

    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    """Namespaces (``tenant/namespace``) that exist while no topic stands in them."""

    cluster: str = "standalone"
    """The name that the admin API gives the cluster that this broker is."""

    allow_auto_topic_creation: bool = True
    auto_topic_partitions: int = 0
    """Partitions of topics that come to be by being used; 0 = they are not partitioned."""

    allow_auto_subscription_creation: bool = True

    deduplication: bool = False
    """Whether what a producer sends twice is stored once, where no policy says otherwise."""

    delete_inactive_topics: bool = True
    inactive_topic_s: int = 60
    """A topic without producers and subscriptions goes after so long, unless it keeps messages."""

    inactive_check_s: float = 60.0
    backlog_quota_check_s: float = 60.0

    schema_compatibility: str = Strategy.FULL.value
    """What a new schema must be to those that are there, where no policy says otherwise."""

    handshake_timeout_s: float = 30.0
    keep_alive_s: float = 30.0
    """A peer silent for so long gets a PING, and is closed when silent as long again."""

    probe_timeout_s: float = 5.0
    """How long the connection of a name's present owner may take to prove that it lives."""

    outbox_bytes_max: int = 1024 * 1024
    """Waiting for a connection's socket: past this its consumers get nothing, it is not read, and
    none of its requests is answered. It is a few round trips' worth on a fast network, and small
    beside thousands of connections."""

    max_unacked_messages_per_consumer: int = 50_000
    max_unacked_messages_per_subscription: int = 200_000
    """Of durable Shared and Key_Shared subscriptions: who has so many messages unacknowledged gets
    none until half of them are. 0 = no limit. Pulsar's settings of the same names."""

    key_shared_consistent_hashing: bool = True
    """Key_Shared subscriptions share keys out by consistent hashing; False: by ranges of hashes,
    the biggest of which is split when a consumer comes. Pulsar's
    ``subscriptionKeySharedUseConsistentHashing``."""

    def __post_init__(self) -> None:
        for namespace in self.namespaces:
            parse_namespace(namespace)
        if self.advertised_url and not self.advertised_url.startswith("pulsar://"):
            raise ValueError(f"advertised_url: expected pulsar://…, got {self.advertised_url!r}")
        if self.advertised_tls_url and not self.advertised_tls_url.startswith("pulsar+ssl://"):
            text = f"expected pulsar+ssl://…, got {self.advertised_tls_url!r}"
            raise ValueError(f"advertised_tls_url: {text}")
        if not 0 <= self.auto_topic_partitions <= PARTITIONS_MAX:
            text = f"expected 0 to {PARTITIONS_MAX}, got {self.auto_topic_partitions}"
            raise ValueError(f"auto_topic_partitions: {text}")
        if self.schema_compatibility not in {each.value for each in Strategy}:
            known = ", ".join(each.value for each in Strategy)
            got = self.schema_compatibility
            raise ValueError(f"schema_compatibility: expected one of {known}, got {got!r}")
        for name in NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")

    def advertises(self, url: str) -> bool:
        """The settings name this URL as one to be told."""
        return url in (self.advertised_url, self.advertised_tls_url)

    @property
    def policies(self) -> Policies:
        """What holds where neither a topic nor its namespace says anything."""
        return Policies(
            auto_topic=AutoTopicCreation(
                self.allow_auto_topic_creation, self.auto_topic_partitions
            ),
            inactive=InactiveTopics(self.delete_inactive_topics, self.inactive_topic_s),
            auto_subscription=self.allow_auto_subscription_creation,
            deduplication=self.deduplication,
        )
