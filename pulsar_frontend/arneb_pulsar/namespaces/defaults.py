"""Defaults: the policies of a broker, which hold where neither a topic nor its namespace has one.

The rule: pure values; each key is also accepted by Pulsar's name. A default that bounds nothing is
left unset, so that asking for it gives Pulsar's answer for an unset policy.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from arneb_pulsar.namespaces.fields import SUBSCRIPTION_TYPES, read_subscription_types
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import PERIOD_S_MAX, DispatchRate, PublishRate, SubscribeRate
from arneb_pulsar.namespaces.rules import (
    DelayedDelivery,
    InactiveMode,
    InactiveTopics,
    Quota,
    QuotaAction,
    QuotaType,
    RetentionPolicy,
)

UNBOUNDED: Final = -1


def _as(name: str, default: Any) -> Any:
    """Make a field that Pulsar calls ``name``."""
    return field(default=default, metadata={"also": name})


@dataclass(frozen=True, slots=True)
class DefaultPolicies:
    """Policies for topics where neither the topic nor its namespace has one. Each key may also have
    its name in Pulsar's ``broker.conf``."""

    retention_min: int = _as("defaultRetentionTimeInMinutes", 0)
    """How long acknowledged messages are kept; -1 = forever, 0 = as ``[retention]`` says. Pulsar's
    ``defaultRetentionTimeInMinutes``."""

    retention_mb: int = _as("defaultRetentionSizeInMB", 0)
    """How much of them each topic keeps; -1 = everything, 0 = as ``[retention]`` says. Pulsar's
    ``defaultRetentionSizeInMB``."""

    message_ttl_s: int = _as("ttlDurationDefaultInSeconds", 0)
    """Messages older than this are acknowledged on every subscription's behalf; 0 = never. Pulsar's
    ``ttlDurationDefaultInSeconds``."""

    backlog_quota_bytes: int = _as("backlogQuotaDefaultLimitBytes", UNBOUNDED)
    """The maximum backlog of a topic's slowest subscription; -1 = no limit. Pulsar's
    ``backlogQuotaDefaultLimitBytes``."""

    backlog_quota_s: int = _as("backlogQuotaDefaultLimitSecond", UNBOUNDED)
    """The maximum age of the oldest message in a backlog; -1 = no limit. Pulsar's
    ``backlogQuotaDefaultLimitSecond``."""

    backlog_quota_policy: str = _as("backlogQuotaDefaultRetentionPolicy", QuotaAction.HOLD.value)
    """What happens beyond these limits: ``producer_request_hold``, ``producer_exception`` or
    ``consumer_backlog_eviction``. Pulsar's ``backlogQuotaDefaultRetentionPolicy``."""

    compaction_threshold_bytes: int = _as("brokerServiceCompactionThresholdInBytes", 0)
    """A topic is compacted when it has this much that is not compacted; 0 = only on request.
    Pulsar's ``brokerServiceCompactionThresholdInBytes``."""

    delete_inactive_topics_mode: str = _as(
        "brokerDeleteInactiveTopicsMode", InactiveMode.NO_SUBSCRIPTIONS.value
    )
    """Which topics count as unused: ``delete_when_no_subscriptions`` or
    ``delete_when_subscriptions_caught_up``. Pulsar's ``brokerDeleteInactiveTopicsMode``."""

    delayed_delivery: bool = _as("delayedDeliveryEnabled", True)
    """Allow delayed delivery. Pulsar's ``delayedDeliveryEnabled``."""

    delay_ms_max: int = _as("delayedDeliveryMaxDelayInMillis", 0)
    """The maximum delay; 0 = no limit. Pulsar's ``delayedDeliveryMaxDelayInMillis``."""

    publish_rate: int = _as("maxPublishRatePerTopicInMessages", 0)
    """The maximum messages a second published to a topic; 0 = no limit. Pulsar's
    ``maxPublishRatePerTopicInMessages``."""

    publish_rate_bytes: int = _as("maxPublishRatePerTopicInBytes", 0)
    """The same in bytes. Pulsar's ``maxPublishRatePerTopicInBytes``."""

    dispatch_rate: int = _as("dispatchThrottlingRatePerTopicInMsg", 0)
    """The maximum messages a second delivered from a topic, to all its subscriptions; 0 = no limit.
    Pulsar's ``dispatchThrottlingRatePerTopicInMsg``."""

    dispatch_rate_bytes: int = _as("dispatchThrottlingRatePerTopicInByte", 0)
    """The same in bytes. Pulsar's ``dispatchThrottlingRatePerTopicInByte``."""

    subscription_dispatch_rate: int = _as("dispatchThrottlingRatePerSubscriptionInMsg", 0)
    """The maximum messages a second delivered to one subscription; 0 = no limit. Pulsar's
    ``dispatchThrottlingRatePerSubscriptionInMsg``."""

    subscription_dispatch_rate_bytes: int = _as("dispatchThrottlingRatePerSubscriptionInByte", 0)
    """The same in bytes. Pulsar's ``dispatchThrottlingRatePerSubscriptionInByte``."""

    subscribe_rate: int = _as("subscribeThrottlingRatePerConsumer", 0)
    """How often a consumer may subscribe per period; 0 = no limit. Pulsar's
    ``subscribeThrottlingRatePerConsumer``."""

    subscribe_rate_period_s: int = _as("subscribeRatePeriodPerConsumerInSecond", 30)
    """That period. Pulsar's ``subscribeRatePeriodPerConsumerInSecond``."""

    subscription_types: tuple[str, ...] = _as("subscriptionTypesEnabled", ())
    """The subscription types that may be used; empty = all. If ``Key_Shared`` is left out, no
    policy can allow it. Pulsar's ``subscriptionTypesEnabled``."""

    subscription_expiration_min: int = _as("subscriptionExpirationTimeMinutes", 0)
    """A subscription without consumers is deleted after this long; 0 = never. Pulsar's
    ``subscriptionExpirationTimeMinutes``."""

    schema_validation: bool = _as("isSchemaValidationEnforced", False)
    """Refuse producers without a schema on topics that have one, whatever namespaces and topics
    say. Pulsar's ``isSchemaValidationEnforced``."""

    may_update_schema: bool = _as("isAllowAutoUpdateSchemaEnabled", True)
    """Producers may add new schemas. Pulsar's ``isAllowAutoUpdateSchemaEnabled``."""

    encryption_required: bool = _as("encryptionRequireOnProducer", False)
    """Producers must encrypt, whatever namespaces say. Pulsar's ``encryptionRequireOnProducer``."""

    def __post_init__(self) -> None:
        for name in ("retention_min", "retention_mb", "backlog_quota_bytes", "backlog_quota_s"):
            if getattr(self, name) < UNBOUNDED:
                raise ValueError(f"{name}: expected -1 or more, got {getattr(self, name)}")
        if (self.retention_min == 0) != (self.retention_mb == 0):
            raise ValueError("retention_min and retention_mb: expected both or none to be 0")
        for name in NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        if not 0 < self.subscribe_rate_period_s <= PERIOD_S_MAX:
            text = f"expected 1 to {PERIOD_S_MAX}, got {self.subscribe_rate_period_s}"
            raise ValueError(f"subscribe_rate_period_s: {text}")
        for name, known in (
            ("backlog_quota_policy", QuotaAction),
            ("delete_inactive_topics_mode", InactiveMode),
        ):
            if getattr(self, name) not in (names := [each.value for each in known]):
                text = f"expected one of {', '.join(names)}, got {getattr(self, name)!r}"
                raise ValueError(f"{name}: {text}")
        if not set(self.subscription_types) <= set(SUBSCRIPTION_TYPES):
            text = f"expected some of {', '.join(SUBSCRIPTION_TYPES)}"
            raise ValueError(f"subscription_types: {text}, got {list(self.subscription_types)}")

    def joined(self, policies: Policies) -> Policies:
        """Return ``policies`` with these defaults."""
        inactive = policies.inactive or InactiveTopics(True, 60)
        mode = InactiveMode(self.delete_inactive_topics_mode)
        delayed = DelayedDelivery(self.delayed_delivery, delay_ms_max=self.delay_ms_max)
        publish = PublishRate(self.publish_rate, self.publish_rate_bytes)
        dispatch = DispatchRate(self.dispatch_rate, self.dispatch_rate_bytes)
        of_subscription = DispatchRate(
            self.subscription_dispatch_rate, self.subscription_dispatch_rate_bytes
        )
        subscribe = SubscribeRate(self.subscribe_rate, self.subscribe_rate_period_s)
        return replace(
            policies,
            inactive=replace(inactive, mode=mode),
            retention=RetentionPolicy(self.retention_min, self.retention_mb)
            if self.retention_min
            else None,
            message_ttl_s=self.message_ttl_s or None,
            quotas=self._quotas,
            compaction_threshold=self.compaction_threshold_bytes or None,
            delayed=None if delayed == DelayedDelivery() else delayed,
            publish_rate=publish if publish.limits else None,
            dispatch_rate=dispatch if dispatch.limits else None,
            subscription_dispatch_rate=of_subscription if of_subscription.limits else None,
            subscribe_rate=subscribe if subscribe.limits else None,
            subscription_types=read_subscription_types(list(self.subscription_types)) or None,
            subscription_expiration_min=self.subscription_expiration_min or None,
            schema_validation=self.schema_validation or None,
            may_update_schema=None if self.may_update_schema else False,
            encryption_required=self.encryption_required or None,
        )

    @property
    def _quotas(self) -> dict[QuotaType, Quota]:
        """One quota with both bounds, for either kind, as Pulsar has it."""
        if self.backlog_quota_bytes < 0 and self.backlog_quota_s <= 0:
            return {}
        action = QuotaAction(self.backlog_quota_policy)
        quota = Quota(self.backlog_quota_bytes, self.backlog_quota_s, action)
        return dict.fromkeys(QuotaType, quota)


NOT_NEGATIVE: Final = (
    "message_ttl_s",
    "compaction_threshold_bytes",
    "delay_ms_max",
    "publish_rate",
    "publish_rate_bytes",
    "dispatch_rate",
    "dispatch_rate_bytes",
    "subscription_dispatch_rate",
    "subscription_dispatch_rate_bytes",
    "subscribe_rate",
    "subscription_expiration_min",
)

NO_DEFAULTS: Final = DefaultPolicies()
