"""Compaction: readers of the compacted topic get the last message of each key."""

import time
from collections.abc import Iterable

import pulsar
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Connect, arneb_only
from conformance.pulsar.helpers import assert_gets, numbers, send, take

EARLIEST = pulsar.InitialPosition.Earliest
WITHIN_S = 60.0

Pair = tuple[str | None, bytes]


def publish(
    client: pulsar.Client, topic: str, pairs: Iterable[Pair], *, batching: bool = False
) -> None:
    """Send messages with keys."""
    producer = client.create_producer(
        topic, batching_enabled=batching, batching_max_publish_delay_ms=100
    )
    for key, value in pairs:
        producer.send_async(value, None, partition_key=key)
    producer.flush()
    producer.close()


def compact(admin: Admin, topic: str) -> None:
    """Compact the topic and wait until that is finished."""
    admin.put(f"{local(topic)}/compaction")
    end = time.monotonic() + WITHIN_S
    while (status := admin.get(f"{local(topic)}/compaction")["status"]) != "SUCCESS":
        assert status == "RUNNING"
        assert time.monotonic() < end
        time.sleep(0.05)


def read(client: pulsar.Client, topic: str, name: str, *, compacted: bool = True) -> list[Pair]:
    """Everything that a new subscription receives."""
    consumer = client.subscribe(topic, name, initial_position=EARLIEST, is_read_compacted=compacted)
    found: list[Pair] = []
    while True:
        try:
            message = consumer.receive(1_000)
        except pulsar.Timeout:
            consumer.close()
            return found
        found.append((message.partition_key(), message.data()))
        consumer.acknowledge(message)


BATCHING = pytest.mark.parametrize("batching", [False, arneb_only(True)], ids=["single", "batch"])
"""The C++ client delivers even what Apache Pulsar has removed from a batch, without a value."""


@BATCHING
def test_the_last_of_each_key_stays(
    client: pulsar.Client, admin: Admin, topic: str, batching: bool
) -> None:
    assert admin.get_if_there(f"{local(topic)}/compaction") is None
    pairs: list[Pair] = [(f"k{number % 5}", b"%d" % number) for number in range(23)]
    publish(client, topic, pairs, batching=batching)
    assert admin.get(f"{local(topic)}/compaction")["status"] == "NOT_RUN"
    compact(admin, topic)
    assert read(client, topic, "compacted") == pairs[-5:]
    assert read(client, topic, "whole", compacted=False) == pairs
    publish(client, topic, [("k0", b"new"), ("k0", b"newer")], batching=batching)
    # Everything published after the compaction is delivered.
    assert read(client, topic, "later") == [*pairs[-5:], ("k0", b"new"), ("k0", b"newer")]
    compact(admin, topic)
    left = [pair for pair in pairs[-5:] if pair[0] != "k0"]
    assert read(client, topic, "again") == [*left, ("k0", b"newer")]


def test_a_message_superseded_after_its_delivery_does_not_come_again(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    before = client.subscribe(topic, "s", initial_position=EARLIEST, is_read_compacted=True)
    publish(client, topic, [("a", b"1"), ("b", b"2"), ("b", b"3")])
    assert [each.data() for each in take(before, 3)] == [b"1", b"2", b"3"]
    before.close()
    compact(admin, topic)
    assert read(client, topic, "s") == [("a", b"1"), ("b", b"3")]


@pytest.mark.arneb_only
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_a_message_without_a_value_takes_its_key_away(
    client: pulsar.Client, admin: Admin, topic: str, batching: bool
) -> None:
    publish(client, topic, [("a", b"1"), ("b", b"2"), ("b", b""), ("c", b"3")], batching=batching)
    compact(admin, topic)
    assert read(client, topic, "one") == [("a", b"1"), ("c", b"3")]
    publish(client, topic, [("a", b""), ("b", b"4")], batching=batching)
    compact(admin, topic)
    assert read(client, topic, "two") == [("c", b"3"), ("b", b"4")]


def test_what_has_no_key(client: pulsar.Client, admin: Admin, topic: str) -> None:
    publish(client, topic, [("a", b"1"), (None, b"2"), ("a", b"3"), (None, b"4")])
    compact(admin, topic)
    assert [value for _, value in read(client, topic, "one")] == [b"3"]


def test_a_reader_of_a_compacted_topic_finds_its_end(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    publish(client, topic, [("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", b"4"), ("b", b"5")])
    compact(admin, topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    found: list[bytes] = []
    while reader.has_message_available():
        found.append(reader.read_next(5_000).data())
    assert found == [b"3", b"5"]


@pytest.mark.arneb_only
def test_nothing_is_left_of_a_key_whose_end_is_the_last_message(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    publish(client, topic, [("a", b"1"), ("b", b"2"), ("b", b"")])
    compact(admin, topic)
    assert read(client, topic, "one") == [("a", b"1")]


def test_a_table_view_has_the_last_values(client: pulsar.Client, admin: Admin, topic: str) -> None:
    publish(client, topic, [("a", b"1"), ("b", b"2"), ("a", b"3")])
    compact(admin, topic)
    publish(client, topic, [("c", b"4")])
    view = client.create_table_view(topic)
    end = time.monotonic() + WITHIN_S
    while len(view) < 3:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert {key: view.get(key) for key in "abc"} == {"a": b"3", "b": b"2", "c": b"4"}


def test_only_an_exclusive_consumer_reads_compacted(connect: Connect, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        connect().subscribe(topic, "s", pulsar.ConsumerType.Shared, is_read_compacted=True)
    connect().subscribe(topic, "f", pulsar.ConsumerType.Failover, is_read_compacted=True)


def test_a_topic_that_was_never_compacted_is_read_whole(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", is_read_compacted=True)
    send(client.create_producer(topic), numbers(5))
    assert_gets(consumer, numbers(5))
