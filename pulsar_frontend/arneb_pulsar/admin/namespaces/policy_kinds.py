"""Kinds of policies: the table of those that namespaces and topics have.

The rule: each has one row: its path, its field, how it is read and written, and Pulsar's answer if
it is not set.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from arneb_pulsar.admin.calls.requests import AdminError
from arneb_pulsar.admin.calls.rules import ADMIN, SUPER_USER, Rule, on_policy
from arneb_pulsar.names import TopicName
from arneb_pulsar.namespaces.fields import (
    limit_reader,
    read_auto_subscription,
    read_auto_update,
    read_compatibility,
    read_flag,
    read_properties,
    read_subscription_types,
    read_threshold,
    read_truth,
    read_ttl,
)
from arneb_pulsar.namespaces.rates import DispatchRate, PublishRate, SubscribeRate
from arneb_pulsar.namespaces.rules import (
    AutoTopicCreation,
    DelayedDelivery,
    InactiveTopics,
    Persistence,
    RetentionPolicy,
)
from arneb_pulsar.services.context import BrokerContext

INVALID: Final = 412
MALFORMED: Final = 400
SILENT: Final = 204
"""The status of some calls if nothing is set; others answer 200 without a body."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One policy: its path, its field of :class:`Policies`, and its form."""

    path: str
    field: str
    read: Callable[[Any], Any]
    set_by: str = "POST"
    write: Callable[[Any], Any] = lambda value: getattr(value, "document", value)
    query: str = ""
    """The query parameter that holds the value when there is no body."""
    unset: Any = None
    """The field's value if nothing is set."""
    invalid: int = INVALID
    """The status for an invalid value, as in Pulsar."""
    joined: Callable[[Any, Any], Any] = lambda _, value: value
    """Combines the old value and the new one into the stored one."""
    name: str = ""
    """The name of the right to it, in Pulsar's words."""
    readers: Rule | None = None
    """Who may read it, if that does not follow from a right to the policy."""
    writers: Rule | None = None
    """Who may change it, if that does not follow from a right to the policy."""
    absent: int = 200
    """The status if nothing is set."""
    default: Any = None
    """The value in force if nothing is set anywhere."""
    default_shown: bool = False
    """The default is also the answer to calls for the value that is set."""
    applies: bool = True
    """A topic's calls may ask for the value in force, which may be the namespace's or the
    broker's."""
    may_go: bool = True
    """It can be removed."""
    effective: Callable[[BrokerContext, TopicName], Any] | None = None
    """Returns the value in force on a topic, where it does not depend on policies alone."""
    empty: Any = None
    """The value set by an empty body, and by ``null``."""
    boxed: bool = False
    """An empty body or ``null`` removes it. For other kinds, ``null`` is 0 or false, and an empty
    body is refused. (In Pulsar: whether a call takes an object or one of Java's primitives.)"""
    is_value: bool = False
    """It is a single value, not an object, and empty text is ``null`` too."""
    check: Callable[[BrokerContext, Any], None] | None = None
    """Raises :class:`AdminError` for values that this broker does not support."""

    def rule(self, *, writes: bool, of_topic: bool) -> Rule:
        """Return who may read it, or change it."""
        own = self.writers if writes else self.readers
        return own or on_policy(self.name or self.field.upper(), writes=writes, of_topic=of_topic)


def _written_subscription(value: bool) -> Any:
    return {"allowAutoSubscriptionCreation": value}


def _limit(path: str, field: str, name: str, text: str = "", *, boxed: bool = False) -> Kind:
    """Return the kind of a limit, of which 0 means none."""
    read = limit_reader(path, text)
    return Kind(path, field, read, name=name, default=0, boxed=boxed, is_value=True)


def _fits(context: BrokerContext, size: int) -> None:
    if size > context.config.message_bytes_max:
        raise AdminError(412, MESSAGE_SIZES)


MESSAGE_SIZES: Final = (
    "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that "
    "in the broker-level"
)

NO_DISPATCH_RATE: Final = DispatchRate(0, 0)

RETENTION: Final = Kind(
    "retention",
    "retention",
    RetentionPolicy.parse,
    invalid=MALFORMED,
    boxed=True,
    default=RetentionPolicy(0, 0),
)
TTL: Final = Kind(
    "messageTTL", "message_ttl_s", read_ttl, query="messageTTL", name="TTL", default=0
)
INACTIVE: Final = Kind(
    "inactiveTopicPolicies", "inactive", InactiveTopics.parse, name="INACTIVE_TOPIC", boxed=True
)
THRESHOLD: Final = Kind(
    "compactionThreshold", "compaction_threshold", read_threshold, name="COMPACTION", default=0
)
RATE: Final = Kind(
    "publishRate", "publish_rate", PublishRate.parse, invalid=MALFORMED, name="RATE", boxed=True
)
DISPATCH_RATE: Final = Kind(
    "dispatchRate",
    "dispatch_rate",
    DispatchRate.parse,
    invalid=MALFORMED,
    boxed=True,
    name="RATE",
    default=NO_DISPATCH_RATE,
)
SUBSCRIPTION_DISPATCH_RATE: Final = replace(
    DISPATCH_RATE, path="subscriptionDispatchRate", field="subscription_dispatch_rate"
)
SUBSCRIBE_RATE: Final = Kind(
    "subscribeRate",
    "subscribe_rate",
    SubscribeRate.parse,
    invalid=MALFORMED,
    boxed=True,
    name="RATE",
    default=SubscribeRate(0, 30),
)
AUTO_SUBSCRIPTION: Final = Kind(
    "autoSubscriptionCreation",
    "auto_subscription",
    read_auto_subscription,
    write=_written_subscription,
    boxed=True,
    name="AUTO_SUBSCRIPTION_CREATION",
)
SUBSCRIPTION_TYPES: Final = Kind(
    "subscriptionTypesEnabled",
    "subscription_types",
    read_subscription_types,
    name="SUBSCRIPTION_AUTH_MODE",
    default=[],
    default_shown=True,
)
DELAYED: Final = Kind(
    "delayedDelivery",
    "delayed",
    DelayedDelivery.parse,
    invalid=MALFORMED,
    boxed=True,
    name="DELAYED_DELIVERY",
    default=DelayedDelivery(),
)
PERSISTENCE: Final = Kind(
    "persistence",
    "persistence",
    Persistence.parse,
    invalid=MALFORMED,
    default=Persistence(),
)
PAUSES: Final = Kind(
    "dispatcherPauseOnAckStatePersistent",
    "pauses_on_ack_state",
    read_flag,
    invalid=MALFORMED,
    name="DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT",
    default=False,
    default_shown=True,
    empty=True,
)
VALIDATION: Final = Kind(
    "schemaValidationEnforced",
    "schema_validation",
    read_flag,
    invalid=MALFORMED,
    name="SCHEMA_COMPATIBILITY_STRATEGY",
    default=False,
    default_shown=True,
    may_go=False,
)
SNAPSHOTS: Final = Kind(
    "deduplicationSnapshotInterval",
    "deduplication_snapshot_s",
    limit_reader("interval"),
    name="DEDUPLICATION_SNAPSHOT",
    boxed=True,
    is_value=True,
    applies=False,
)
PER_SUBSCRIPTION: Final = _limit(
    "maxConsumersPerSubscription", "max_consumers_per_subscription", "MAX_CONSUMERS"
)
SUBSCRIPTIONS: Final = _limit("maxSubscriptionsPerTopic", "max_subscriptions", "MAX_SUBSCRIPTIONS")
PROPERTIES: Final = Kind(
    "properties",
    "properties",
    read_properties,
    "PUT",
    dict,
    unset={},
    joined=lambda own, more: {**own, **more},
    readers=ADMIN,
    writers=ADMIN,
)

OF_NAMESPACES: Final = (
    RETENTION,
    TTL,
    INACTIVE,
    replace(THRESHOLD, set_by="PUT"),
    AUTO_SUBSCRIPTION,
    RATE,
    DISPATCH_RATE,
    SUBSCRIPTION_DISPATCH_RATE,
    SUBSCRIBE_RATE,
    PROPERTIES,
    _limit("maxProducersPerTopic", "max_producers", "MAX_PRODUCERS"),
    _limit("maxConsumersPerTopic", "max_consumers", "MAX_CONSUMERS"),
    PER_SUBSCRIPTION,
    SUBSCRIPTIONS,
    replace(_limit("maxTopicsPerNamespace", "max_topics", "MAX_TOPICS"), default_shown=True),
    _limit("maxUnackedMessagesPerConsumer", "max_unacked_per_consumer", "MAX_UNACKED"),
    _limit("maxUnackedMessagesPerSubscription", "max_unacked_per_subscription", "MAX_UNACKED"),
    Kind(
        "subscriptionExpirationTime",
        "subscription_expiration_min",
        limit_reader(
            "subscriptionExpirationTime", "Invalid value for subscription expiration time"
        ),
        name="SUBSCRIPTION_EXPIRATION_TIME",
    ),
    SUBSCRIPTION_TYPES,
    replace(DELAYED, writers=SUPER_USER),
    PERSISTENCE,
    VALIDATION,
    replace(SNAPSHOTS, may_go=False),
    PAUSES,
    Kind(
        "schemaAutoUpdateCompatibilityStrategy",
        "schema_auto_update",
        read_auto_update,
        "PUT",
        name="SCHEMA_COMPATIBILITY_STRATEGY",
        absent=SILENT,
        boxed=True,
        is_value=True,
        may_go=False,
    ),
    Kind(
        "isAllowAutoUpdateSchema",
        "may_update_schema",
        read_flag,
        invalid=MALFORMED,
        name="SCHEMA_COMPATIBILITY_STRATEGY",
        default=True,
        default_shown=True,
        may_go=False,
    ),
    Kind(
        "encryptionRequired",
        "encryption_required",
        read_flag,
        invalid=MALFORMED,
        name="ENCRYPTION",
        default=False,
        default_shown=True,
        may_go=False,
    ),
    Kind(
        "autoTopicCreation",
        "auto_topic",
        AutoTopicCreation.parse,
        name="AUTO_TOPIC_CREATION",
        boxed=True,
    ),
    Kind("deduplication", "deduplication", read_flag),
    Kind(
        "schemaCompatibilityStrategy",
        "schema_compatibility",
        read_compatibility,
        "PUT",
        name="SCHEMA_COMPATIBILITY_STRATEGY",
        default="UNDEFINED",
        default_shown=True,
        boxed=True,
        is_value=True,
    ),
)

OF_TOPICS: Final = (
    RETENTION,
    TTL,
    INACTIVE,
    replace(THRESHOLD, read=limit_reader("", "Invalid value for compactionThreshold")),
    AUTO_SUBSCRIPTION,
    replace(RATE, absent=SILENT, applies=False),
    DISPATCH_RATE,
    SUBSCRIPTION_DISPATCH_RATE,
    SUBSCRIBE_RATE,
    _limit("maxProducers", "max_producers", "MAX_PRODUCERS"),
    _limit("maxConsumers", "max_consumers", "MAX_CONSUMERS"),
    replace(
        PER_SUBSCRIPTION,
        read=limit_reader("", "Invalid value for maxConsumersPerSubscription"),
        absent=SILENT,
        applies=False,
    ),
    replace(SUBSCRIPTIONS, absent=SILENT, applies=False),
    _limit(
        "maxUnackedMessagesOnConsumer",
        "max_unacked_per_consumer",
        "MAX_UNACKED",
        "maxUnackedNum must be 0 or more",
        boxed=True,
    ),
    _limit(
        "maxUnackedMessagesOnSubscription",
        "max_unacked_per_subscription",
        "MAX_UNACKED",
        "maxUnackedNum must be 0 or more",
        boxed=True,
    ),
    replace(
        _limit("maxMessageSize", "max_message_bytes", "MAX_MESSAGE_SIZE", MESSAGE_SIZES),
        absent=SILENT,
        applies=False,
        check=_fits,
        readers=ADMIN,
        writers=ADMIN,
    ),
    SUBSCRIPTION_TYPES,
    DELAYED,
    PERSISTENCE,
    VALIDATION,
    SNAPSHOTS,
    PAUSES,
    Kind("deduplicationEnabled", "deduplication", read_truth, boxed=True, is_value=True),
    Kind(
        "schemaCompatibilityStrategy",
        "schema_compatibility",
        read_compatibility,
        "PUT",
        name="SCHEMA_COMPATIBILITY_STRATEGY",
        boxed=True,
        is_value=True,
        effective=lambda context, topic: context.schemas.strategy(topic).value,
    ),
)
