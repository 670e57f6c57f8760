"""Consumers of all topics whose names match a pattern: which match, which are added later, which
go."""

import re

import pulsar
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import WITHIN_MS, assert_silent, payloads, take

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
MODES = pulsar.RegexSubscriptionMode

LOOKS_AGAIN_MS = 90_000
"""The wheel checks for new topics once a minute, whatever it is configured to."""


@pytest.fixture
def prefix(name: Named) -> str:
    """A prefix for the names of a scenario's topics."""
    return name("pattern")


def full(kind: str, short: str) -> str:
    return f"{kind}://public/default/{short}"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (MODES.PersistentOnly, [b"persistent"]),
        (MODES.NonPersistentOnly, [b"non-persistent"]),
        (MODES.AllTopics, [b"non-persistent", b"persistent"]),
    ],
    ids=["persistent", "non-persistent", "all"],
)
def test_a_pattern_is_about_one_kind_of_topics_or_both(
    client: pulsar.Client, prefix: str, mode: pulsar.RegexSubscriptionMode, expected: list[bytes]
) -> None:
    kinds = ["persistent", "non-persistent"]
    producers = [client.create_producer(full(kind, f"{prefix}-{kind}")) for kind in kinds]
    consumer = client.subscribe(
        re.compile(full("persistent", f"{prefix}-.*")), "s", SHARED, regex_subscription_mode=mode
    )
    for kind, producer in zip(kinds, producers, strict=True):
        producer.send(kind.encode())
    assert sorted(payloads(take(consumer, len(expected)))) == expected
    assert_silent(consumer)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("{}-[ab]", "ab"),
        ("{}-(a|long)", "al"),
        ("{}-[^a]+", "bl"),
        (r"{}-\w", "ab"),
        ("{}-a.*|nothing", "a"),
        ("{}-.", "ab"),
    ],
)
def test_patterns_mean_what_they_mean_elsewhere(
    client: pulsar.Client, prefix: str, pattern: str, expected: str
) -> None:
    for suffix in ("a", "b", "long"):
        client.create_producer(f"{prefix}-{suffix}").send(suffix[0].encode())
    client.create_producer(f"before-{prefix}-a").send(b"no")
    wanted = re.compile(full("persistent", pattern.format(prefix)))
    consumer = client.subscribe(wanted, "s", SHARED, initial_position=EARLIEST)
    found = sorted(payloads(take(consumer, len(expected))))
    assert found == sorted(each.encode() for each in expected)
    assert_silent(consumer)


def test_partitions_match_as_one_topic(client: pulsar.Client, admin: Admin, prefix: str) -> None:
    admin.put(f"{prefix}-parted/partitions", 3)
    producer = client.create_producer(
        full("persistent", f"{prefix}-parted"), batching_enabled=False
    )
    for number in range(9):
        producer.send(b"%d" % number)
    pattern = re.compile(full("persistent", f"{prefix}-[a-z]*"))
    consumer = client.subscribe(pattern, "s", SHARED, initial_position=EARLIEST)
    found = take(consumer, 9)
    assert {each.message_id().partition() for each in found} == {0, 1, 2}
    for message in found:
        consumer.acknowledge(message)
    assert_silent(consumer)


def test_a_pattern_without_a_topic_waits_for_one(
    client: pulsar.Client, admin: Admin, prefix: str
) -> None:
    pattern = re.compile(full("persistent", f"{prefix}-.*"))
    consumer = client.subscribe(pattern, "s", SHARED, initial_position=EARLIEST)
    assert_silent(consumer)
    # While these producers are open, their topics are not considered inactive.
    producers = [client.create_producer(full("persistent", f"{prefix}-{each}")) for each in "ab"]
    for producer, suffix in zip(producers, "ab", strict=True):
        producer.send(suffix.encode())
    found = [consumer.receive(LOOKS_AGAIN_MS), consumer.receive(WITHIN_MS)]
    assert sorted(payloads(found)) == [b"a", b"b"]
    for message in found:
        consumer.acknowledge(message)
    consumer.close()
    assert admin.get(f"{local(prefix)}-a/subscriptions") == ["s"]
    consumer = client.subscribe(pattern, "s", SHARED)
    producers[1].send(b"again")
    assert consumer.receive(WITHIN_MS).data() == b"again"
    consumer.unsubscribe()
    assert [admin.get(f"{prefix}-{suffix}/subscriptions") for suffix in "ab"] == [[], []]


def test_one_pattern_is_of_one_namespace(client: pulsar.Client) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(re.compile("persistent://public/no-such-namespace/.*/x"), "s", SHARED)
