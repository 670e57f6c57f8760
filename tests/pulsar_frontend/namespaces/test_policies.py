"""Policies: every document that is read is written again, and what is said nearest holds."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.namespaces.fields import COMPATIBILITY
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import (
    AutoTopicCreation,
    DelayedDelivery,
    InactiveMode,
    InactiveTopics,
    Quota,
    QuotaAction,
    QuotaType,
    RetentionPolicy,
)

numbers = st.integers(1, 1 << 40) | st.just(-1)
retention = st.builds(RetentionPolicy, numbers, numbers) | st.just(RetentionPolicy(0, 0))
quotas = st.builds(Quota, numbers, numbers, st.sampled_from(QuotaAction))
inactive = st.builds(
    InactiveTopics, st.booleans(), st.integers(1, 1 << 30), st.sampled_from(InactiveMode)
)
auto_topic = st.builds(AutoTopicCreation, st.booleans(), st.integers(0, 100))
policies = st.builds(
    Policies,
    retention=st.none() | retention,
    message_ttl_s=st.none() | st.integers(0, 1 << 30),
    quotas=st.dictionaries(st.sampled_from(QuotaType), quotas),
    inactive=st.none() | inactive,
    auto_topic=st.none() | auto_topic,
    auto_subscription=st.none() | st.booleans(),
    deduplication=st.none() | st.booleans(),
    schema_compatibility=st.none() | st.sampled_from(sorted(COMPATIBILITY)),
    compaction_threshold=st.none() | st.integers(0, 1 << 40),
    properties=st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
)
ALLOWED = {"allowAutoTopicCreation": True}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(policies)
def test_policies_come_back_from_their_document(made: Policies) -> None:
    assert Policies.parse(made.document) == made


@given(policies, policies)
def test_what_is_said_nearest_holds(topic: Policies, namespace: Policies) -> None:
    both = topic.under(namespace)
    assert both.message_ttl_s == (
        namespace.message_ttl_s if topic.message_ttl_s is None else topic.message_ttl_s
    )
    assert both.retention == (topic.retention or namespace.retention)
    for kind in QuotaType:
        assert both.quotas.get(kind) == topic.quotas.get(kind, namespace.quotas.get(kind))
    assert topic.under(Policies()) == topic


@given(st.sampled_from([RetentionPolicy, Quota, InactiveTopics, AutoTopicCreation]), json_values)
def test_any_other_document_is_refused_or_read(kind: Any, value: object) -> None:
    try:
        found = kind.parse(value)
    except ValueError:
        return
    assert kind.parse(found.document) == found


@given(st.sampled_from(sorted(field.name for field in fields(Policies))), json_values)
def test_any_other_field_is_refused_or_read(name: str, value: object) -> None:
    try:
        found = Policies.parse({name: value})
    except ValueError:
        return
    assert Policies.parse(found.document) == found


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (RetentionPolicy, {"retentionTimeInMinutes": -2, "retentionSizeInMB": 1}),
        (RetentionPolicy, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 1}),
        (RetentionPolicy, {"retentionTimeInMinutes": True, "retentionSizeInMB": 1}),
        (Quota, {"limitSize": 1, "policy": "other"}),
        (InactiveTopics, {"maxInactiveDurationSeconds": "soon"}),
        (InactiveTopics, {"inactiveTopicDeleteMode": "never"}),
        (AutoTopicCreation, {"allowAutoTopicCreation": True}),
        (AutoTopicCreation, ALLOWED | {"topicType": "partitioned", "defaultNumPartitions": 0}),
        (AutoTopicCreation, ALLOWED | {"topicType": "partitioned"}),
        (AutoTopicCreation, ALLOWED | {"topicType": "non-partitioned", "defaultNumPartitions": 3}),
        (AutoTopicCreation, ALLOWED | {"topicType": "other"}),
        (AutoTopicCreation, {"allowAutoTopicCreation": "yes"}),
    ],
)
def test_what_cannot_be_is_refused(kind: Any, value: object) -> None:
    with pytest.raises(ValueError):
        kind.parse(value)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (
            InactiveTopics,
            {
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                "maxInactiveDurationSeconds": 0,
                "deleteWhileInactive": False,
            },
        ),
        (
            AutoTopicCreation,
            {"allowAutoTopicCreation": False, "topicType": "non-partitioned"},
        ),
        (DelayedDelivery, {"tickTime": 0, "active": False, "maxDeliveryDelayInMillis": 0}),
    ],
)
def test_what_is_left_out_is_false_or_nothing(kind: Any, shown: object) -> None:
    """As Jackson leaves it: a topic is not removed, or made, because nobody said that it is not."""
    assert kind.parse({}).document == shown
