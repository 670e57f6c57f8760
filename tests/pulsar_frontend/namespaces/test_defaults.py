"""Defaults of a broker, and which of three levels holds."""

from dataclasses import fields
from typing import Any

import pytest

from arneb.settings.table import ConfigInvalid, by_our_names, read_settings
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.namespaces.defaults import NO_DEFAULTS, DefaultPolicies
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import DispatchRate, PublishRate, SubscribeRate
from arneb_pulsar.namespaces.rules import (
    DelayedDelivery,
    InactiveMode,
    InactiveTopics,
    Quota,
    QuotaAction,
    QuotaType,
    RetentionPolicy,
)

QUOTA = Quota(1_000, 20, QuotaAction.EVICT)

PULSARS = {
    "defaultRetentionTimeInMinutes": 11,
    "defaultRetentionSizeInMB": 12,
    "ttlDurationDefaultInSeconds": 13,
    "backlogQuotaDefaultLimitBytes": 1_000,
    "backlogQuotaDefaultLimitSecond": 20,
    "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction",
    "brokerServiceCompactionThresholdInBytes": 14,
    "brokerDeleteInactiveTopicsMode": "delete_when_subscriptions_caught_up",
    "delayedDeliveryEnabled": False,
    "delayedDeliveryMaxDelayInMillis": 15,
    "maxPublishRatePerTopicInMessages": 16,
    "maxPublishRatePerTopicInBytes": 17,
    "dispatchThrottlingRatePerTopicInMsg": 18,
    "dispatchThrottlingRatePerTopicInByte": 19,
    "dispatchThrottlingRatePerSubscriptionInMsg": 20,
    "dispatchThrottlingRatePerSubscriptionInByte": 21,
    "subscribeThrottlingRatePerConsumer": 22,
    "subscribeRatePeriodPerConsumerInSecond": 23,
    "subscriptionTypesEnabled": ["Shared", "Exclusive", "Shared"],
    "subscriptionExpirationTimeMinutes": 24,
    "isSchemaValidationEnforced": True,
    "isAllowAutoUpdateSchemaEnabled": False,
    "encryptionRequireOnProducer": True,
}
"""Every key, by its name in Pulsar."""

FOUND = Policies(
    retention=RetentionPolicy(11, 12),
    message_ttl_s=13,
    quotas={QuotaType.SIZE: QUOTA, QuotaType.AGE: QUOTA},
    compaction_threshold=14,
    inactive=InactiveTopics(True, 60, InactiveMode.CAUGHT_UP),
    delayed=DelayedDelivery(False, delay_ms_max=15),
    publish_rate=PublishRate(16, 17),
    dispatch_rate=DispatchRate(18, 19),
    subscription_dispatch_rate=DispatchRate(20, 21),
    subscribe_rate=SubscribeRate(22, 23),
    subscription_types=["Exclusive", "Shared"],
    subscription_expiration_min=24,
    schema_validation=True,
    may_update_schema=False,
    encryption_required=True,
)


def test_every_key_is_taken_by_its_name_in_pulsar() -> None:
    config = read_settings(PulsarConfig, {"defaults": PULSARS}, {}, "pulsar")
    assert len(PULSARS) == len(fields(DefaultPolicies))
    assert config.defaults.joined(Policies()) == FOUND
    assert config.policies == config.defaults.joined(PulsarConfig().policies)


@pytest.mark.parametrize(
    ("given", "idle_s"),
    [
        ({}, 60),
        ({"brokerDeleteInactiveTopicsFrequencySeconds": 2}, 2),
        ({"brokerDeleteInactiveTopicsFrequencySeconds": 0.5}, 1),
        ({"brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": 7}, 7),
        ({"inactive_check_s": 2, "inactive_topic_s": 7}, 7),
    ],
)
def test_topics_may_be_idle_as_long_as_until_they_are_looked_for_unless_it_is_said(
    given: dict[str, object], idle_s: int
) -> None:
    config = read_settings(PulsarConfig, by_our_names(PulsarConfig, given), {}, "pulsar")
    assert config.policies.inactive == InactiveTopics(True, idle_s)


def test_what_is_not_bounded_is_not_said() -> None:
    assert NO_DEFAULTS.joined(Policies()) == Policies(inactive=InactiveTopics(True, 60))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention_min", -2),
        ("retention_min", 5),
        ("retention_mb", 5),
        ("message_ttl_s", -1),
        ("backlog_quota_bytes", -2),
        ("backlog_quota_policy", "drop"),
        ("delete_inactive_topics_mode", "never"),
        ("publish_rate", -1),
        ("subscribe_rate_period_s", 0),
        ("subscription_types", ["shared"]),
        ("subscription_expiration_min", -1),
        ("encryption_required", 1),
    ],
)
def test_what_cannot_be_is_refused_by_name(key: str, value: Any) -> None:
    with pytest.raises(ConfigInvalid, match=key):
        read_settings(PulsarConfig, {"defaults": {key: value}}, {}, "pulsar")


RATES = {
    "publish_rate": (PublishRate(), PublishRate(5)),
    "dispatch_rate": (DispatchRate(0, -1), DispatchRate(5)),
    "subscription_dispatch_rate": (DispatchRate(), DispatchRate(-1, 5)),
    "subscribe_rate": (SubscribeRate(0), SubscribeRate(5)),
}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_that_bounds_nothing_does_not_lift_one_from_above(name: str) -> None:
    nothing, bound = RATES[name]
    above = Policies(**{name: bound})  # type: ignore[arg-type]
    assert Policies(**{name: nothing}).under(above) == above  # type: ignore[arg-type]
    assert Policies(**{name: bound}).under(Policies(**{name: nothing})) == above  # type: ignore[arg-type]


def test_a_limit_of_none_lifts_one_from_above() -> None:
    assert Policies(max_producers=0).under(Policies(max_producers=5)).max_producers == 0
