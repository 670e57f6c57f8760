"""Settings of the Pulsar frontend; the broker reads them from its configuration file."""

from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final

from arneb_core.api.subscriptions.key_sharing import LookAhead
from arneb_pulsar.names import DEFAULT_NAMESPACE, parse_namespace
from arneb_pulsar.namespaces.bundles import BUNDLES_DEFAULT, BUNDLES_MAX
from arneb_pulsar.namespaces.defaults import NO_DEFAULTS, DefaultPolicies
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import PARTITIONS_MAX, AutoTopicCreation, InactiveTopics
from arneb_pulsar.schemas.compatibility import Strategy
from arneb_pulsar.wire.frame import MESSAGE_BYTES_MAX

NOT_NEGATIVE: Final = (
    "max_unacked_messages_per_consumer",
    "max_unacked_messages_per_subscription",
    "max_producers_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "max_subscriptions_per_topic",
    "max_topics_per_namespace",
    "connections_max",
    "address_connections_max",
    "inactive_topic_s",
    "key_shared_look_ahead_per_consumer",
    "key_shared_look_ahead_per_subscription",
)
POSITIVE: Final = (
    "handshake_timeout_s",
    "keep_alive_s",
    "probe_timeout_s",
    "outbox_bytes_max",
    "inactive_check_s",
    "backlog_quota_check_s",
    "statistics_s",
    "transactions_open_max",
    "transaction_bytes_max",
)


MESSAGE_BYTES_LEAST: Final = 1024
"""The least ``message_bytes_max``: with less, clients have no room for a chunk's metadata."""
MESSAGE_BYTES_MOST: Final = 64 * 1024 * 1024
"""The greatest ``message_bytes_max``: each connection may have one message in memory until it is
complete."""

METHODS: Final = ("token", "basic", "tls")

NO_FILE: Final = Path()
"""A file that is not named."""


@dataclass(frozen=True, slots=True)
class AuthenticationConfig:
    """How clients authenticate. Without methods, every client is admitted."""

    methods: tuple[str, ...] = ()
    """The accepted methods: any of ``token``, ``basic`` and ``tls``."""

    token_secret_key: Path = NO_FILE
    """The file with the secret that tokens are signed with, of at least 32 bytes. Method ``token``
    needs this or ``token_public_key``."""

    token_public_key: Path = NO_FILE
    """The file with the public key that tokens are verified with, in PEM or DER."""

    basic_file: Path = NO_FILE
    """The file of users and passwords for method ``basic``, as Apache's ``htpasswd`` writes it."""

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
class AuthorizationConfig:
    """Whether roles need permissions, and who has all of them."""

    enabled: bool = False
    """Roles of Pulsar clients and administrators need Apache Pulsar's permissions, granted over its
    admin API. If disabled, every authenticated role may do everything. Needs
    ``pulsar.authentication.methods``."""

    super_user_roles: tuple[str, ...] = ()
    """Roles that may do everything."""

    proxy_roles: tuple[str, ...] = ()
    """Roles of Pulsar proxies. A proxy names the client it acts for, and both need the
    permission."""

    anonymous_role: str = ""
    """The role of clients that do not authenticate. Empty: they are not admitted."""

    wildcards: bool = False
    """Permissions granted to ``abc*`` or ``*abc`` apply to all roles that begin or end with
    ``abc``."""


NO_AUTHORIZATION: Final = AuthorizationConfig()


@dataclass(frozen=True, slots=True)
class PulsarConfig:
    """Each field is a key of the configuration table.

    Raises :class:`ValueError` for values that cannot be.
    """

    advertised_url: str = ""
    """The address given in answers to lookups, such as ``pulsar://broker.example:6650``. Empty: the
    client uses the address it connected to, which is right unless it looks up over HTTP and a proxy
    or container translates ports."""

    advertised_tls_url: str = ""
    """The same for connections by TLS, e.g. ``pulsar+ssl://broker.example:6651``."""

    authentication: AuthenticationConfig = AuthenticationConfig()

    defaults: DefaultPolicies = NO_DEFAULTS

    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    """Namespaces (``tenant/namespace``) that exist even while they have no topic."""

    cluster: str = field(default="standalone", metadata={"also": "clusterName"})
    """The name of the cluster in the admin API."""

    allow_auto_topic_creation: bool = field(
        default=True, metadata={"also": "allowAutoTopicCreation"}
    )
    """Create a topic when a client first uses it, unless a policy says otherwise."""

    auto_topic_partitions: int = 0
    """The number of partitions of automatically created topics; 0 = not partitioned."""

    allow_auto_subscription_creation: bool = field(
        default=True, metadata={"also": "allowAutoSubscriptionCreation"}
    )
    """Create a subscription when a client first uses it, unless a policy says otherwise."""

    deduplication: bool = field(default=False, metadata={"also": "brokerDeduplicationEnabled"})
    """Store a message once that a producer sends twice, unless a policy says otherwise."""

    delete_inactive_topics: bool = field(
        default=True, metadata={"also": "brokerDeleteInactiveTopicsEnabled"}
    )
    """Delete topics that nobody uses, unless a policy says otherwise."""

    delete_inactive_partitioned_topics: bool = field(
        default=False, metadata={"also": "brokerDeleteInactivePartitionedTopicMetadataEnabled"}
    )
    """Delete a partitioned topic with the last of its partitions that nobody uses; otherwise it
    stays, and its partitions come back when they are used."""

    inactive_topic_s: int = field(
        default=0, metadata={"also": "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"}
    )
    """A topic without producers and subscriptions is deleted after so long, unless it retains
    messages; 0 = as long as `inactive_check_s`."""

    inactive_check_s: float = field(
        default=60.0, metadata={"also": "brokerDeleteInactiveTopicsFrequencySeconds"}
    )
    """How often inactive topics are looked for."""

    backlog_quota_check_s: float = field(
        default=60.0, metadata={"also": "backlogQuotaCheckIntervalInSeconds"}
    )
    """How often backlog quotas are checked."""

    schema_compatibility: str = field(
        default=Strategy.FULL.value, metadata={"also": "schemaCompatibilityStrategy"}
    )
    """The compatibility that new schemas of a topic need, unless a policy says otherwise: the name
    of one of Pulsar's strategies."""

    statistics_s: float = field(default=60.0, metadata={"also": "statsUpdateFrequencyInSecs"})
    """The interval over which statistics average rates. Pulsar's ``statsUpdateFrequencyInSecs``."""

    proxy_protocol: bool = field(default=False, metadata={"also": "haProxyProtocolEnabled"})
    """As of ``[amqp]``; Pulsar calls it ``haProxyProtocolEnabled``."""

    connections_max: int = field(default=0, metadata={"also": "brokerMaxConnections"})
    """The maximum number of Pulsar connections; 0 = no limit."""

    address_connections_max: int = field(default=0, metadata={"also": "brokerMaxConnectionsPerIp"})
    """The maximum number of them from one address; 0 = no limit."""

    handshake_timeout_s: float = 30.0
    """The maximum time from accepting a connection to the end of its handshake."""

    keep_alive_s: float = 30.0
    """A connection that is silent for this long gets a PING, and is closed after as much silence
    again."""

    probe_timeout_s: float = 5.0
    """When a producer's or exclusive consumer's name is taken: how long the connection that holds
    it has to show that it is alive."""

    outbox_bytes_max: int = 1024 * 1024
    """With more unsent output than this, a connection gets no deliveries, is not read, and its
    requests are not answered. It covers a few round trips on a fast network, and is affordable for
    thousands of connections."""

    message_bytes_max: int = field(default=MESSAGE_BYTES_MAX, metadata={"also": "maxMessageSize"})
    """The maximum size of a message's or batch's payload as sent. Clients learn it when they
    connect, and split larger messages into chunks. Pulsar's ``maxMessageSize``."""

    max_unacked_messages_per_consumer: int = field(
        default=50_000, metadata={"also": "maxUnackedMessagesPerConsumer"}
    )
    """The maximum number of unacknowledged messages of a consumer of a durable Shared or Key_Shared
    subscription. A consumer that reaches it gets no more until half of them are acknowledged. 0 =
    no limit."""

    max_unacked_messages_per_subscription: int = field(
        default=200_000, metadata={"also": "maxUnackedMessagesPerSubscription"}
    )
    """The same for all consumers of such a subscription together. 0 = no limit."""

    max_producers_per_topic: int = field(default=0, metadata={"also": "maxProducersPerTopic"})
    """The maximum number of producers of a topic, unless a policy says otherwise; 0 = no limit."""

    max_consumers_per_topic: int = field(default=0, metadata={"also": "maxConsumersPerTopic"})
    """The maximum number of consumers of a topic, over all its subscriptions; 0 = no limit."""

    max_consumers_per_subscription: int = field(
        default=0, metadata={"also": "maxConsumersPerSubscription"}
    )
    """The maximum number of consumers of a subscription; 0 = no limit."""

    max_subscriptions_per_topic: int = field(
        default=0, metadata={"also": "maxSubscriptionsPerTopic"}
    )
    """The maximum number of subscriptions of a topic; 0 = no limit."""

    max_topics_per_namespace: int = field(default=0, metadata={"also": "maxTopicsPerNamespace"})
    """The maximum number of topics in a namespace, counting each partition; 0 = no limit."""

    namespace_bundles: int = field(
        default=BUNDLES_DEFAULT, metadata={"also": "defaultNumberOfNamespaceBundles"}
    )
    """The number of bundles of a new namespace that asks for none. Namespaces that are there keep
    theirs. Pulsar's ``defaultNumberOfNamespaceBundles``."""

    key_shared_consistent_hashing: bool = field(
        default=True, metadata={"also": "subscriptionKeySharedUseConsistentHashing"}
    )
    """Key_Shared subscriptions distribute keys by consistent hashing; ``false``: by hash ranges,
    the largest of which is split when a consumer joins. Pulsar's
    ``subscriptionKeySharedUseConsistentHashing``."""

    failover_consistent_hashing: bool = field(
        default=False, metadata={"also": "activeConsumerFailoverConsistentHashing"}
    )
    """On Failover a hash chooses the consumer of each partition, as of topics without partitions;
    `false`: the partition's number does, so that the partitions of one topic are shared out
    evenly. Pulsar's ``activeConsumerFailoverConsistentHashing``."""

    key_shared_look_ahead_per_consumer: int = field(
        default=2_000, metadata={"also": "keySharedLookAheadMsgInReplayThresholdPerConsumer"}
    )
    """How many messages or batches of a Key_Shared subscription may wait for earlier ones of their
    keys, per consumer, before reading stops; 0 = no such limit. Pulsar's
    ``keySharedLookAheadMsgInReplayThresholdPerConsumer``."""

    key_shared_look_ahead_per_subscription: int = field(
        default=20_000, metadata={"also": "keySharedLookAheadMsgInReplayThresholdPerSubscription"}
    )
    """The same for all its consumers together. If both are 0, the limits of unacknowledged messages
    apply instead. Pulsar's ``keySharedLookAheadMsgInReplayThresholdPerSubscription``."""

    transactions_open_max: int = field(
        default=10_000, metadata={"also": "maxActiveTransactionsPerCoordinator"}
    )
    """The maximum number of open transactions. Pulsar's ``maxActiveTransactionsPerCoordinator``."""

    transaction_bytes_max: int = 128 * 1024 * 1024
    """The maximum bytes of messages sent in one transaction. They wait on disk until it ends. While
    it is committed they are in memory, for one such transaction at a time."""

    expose_broker_entry_metadata: bool = field(
        default=False, metadata={"also": "exposingBrokerEntryMetadataToClientEnabled"}
    )
    """Send each message with the time at which it was stored and its index in the topic, to clients
    that support it. Pulsar's ``exposingBrokerEntryMetadataToClientEnabled``; no interceptors are
    needed."""

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
        if not 1 <= self.namespace_bundles <= BUNDLES_MAX:
            text = f"expected 1 to {BUNDLES_MAX}, got {self.namespace_bundles}"
            raise ValueError(f"namespace_bundles: {text}")
        if self.schema_compatibility not in {each.value for each in Strategy}:
            known = ", ".join(each.value for each in Strategy)
            got = self.schema_compatibility
            raise ValueError(f"schema_compatibility: expected one of {known}, got {got!r}")
        if not MESSAGE_BYTES_LEAST <= self.message_bytes_max <= MESSAGE_BYTES_MOST:
            text = f"expected {MESSAGE_BYTES_LEAST} to {MESSAGE_BYTES_MOST}"
            raise ValueError(f"message_bytes_max: {text}, got {self.message_bytes_max}")
        for name in NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")

    def advertises(self, url: str) -> bool:
        """Whether the settings name this URL as one to advertise."""
        return url in (self.advertised_url, self.advertised_tls_url)

    @property
    def look_ahead(self) -> LookAhead:
        """How many entries may wait for earlier ones of their keys."""
        each, together = (
            self.key_shared_look_ahead_per_consumer,
            self.key_shared_look_ahead_per_subscription,
        )
        if each or together:
            return LookAhead(each, together)
        return LookAhead(
            self.max_unacked_messages_per_consumer, self.max_unacked_messages_per_subscription
        )

    @property
    def policies(self) -> Policies:
        """The policies that apply where neither a topic nor its namespace has its own."""
        own = Policies(
            auto_topic=AutoTopicCreation(
                self.allow_auto_topic_creation, self.auto_topic_partitions
            ),
            inactive=InactiveTopics(
                self.delete_inactive_topics, self.inactive_topic_s or ceil(self.inactive_check_s)
            ),
            auto_subscription=self.allow_auto_subscription_creation,
            deduplication=self.deduplication,
            max_producers=self.max_producers_per_topic,
            max_consumers=self.max_consumers_per_topic,
            max_consumers_per_subscription=self.max_consumers_per_subscription,
            max_subscriptions=self.max_subscriptions_per_topic,
            max_topics=self.max_topics_per_namespace,
            max_unacked_per_consumer=self.max_unacked_messages_per_consumer,
            max_unacked_per_subscription=self.max_unacked_messages_per_subscription,
        )
        return self.defaults.joined(own)
