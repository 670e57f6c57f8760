"""Subscriptions and readers: types, leaving, seeking, last message ids, refusals."""

import re
import time

import pulsar
import pytest
from conformance.pulsar.conftest import ANSWER_WITHIN_S, Connect, Named, arneb_only
from conformance.pulsar.helpers import (
    ACKS_SENT_S,
    WITHIN_MS,
    assert_gets,
    assert_silent,
    drain,
    numbers,
    payloads,
    send,
    take,
)

EARLIEST = pulsar.InitialPosition.Earliest
EXCLUSIVE = pulsar.ConsumerType.Exclusive
SHARED = pulsar.ConsumerType.Shared


def read_all(reader: pulsar.Reader) -> list[bytes]:
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(WITHIN_MS).data())
    return found


def test_an_exclusive_subscription_has_one_consumer(connect: Connect, topic: str) -> None:
    first = connect().subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        connect().subscribe(topic, "s")
    first.close()
    connect().subscribe(topic, "s")


@pytest.mark.parametrize(("first", "second"), [(EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)])
def test_the_first_consumer_sets_the_type_until_the_last_leaves(
    connect: Connect, topic: str, first: pulsar.ConsumerType, second: pulsar.ConsumerType
) -> None:
    holder = connect().subscribe(topic, "s", first)
    with pytest.raises(pulsar.ConsumerBusy):
        connect().subscribe(topic, "s", second)
    holder.close()
    connect().subscribe(topic, "s", second)


def test_unsubscribing_forgets_the_place(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(3))
    consumer.unsubscribe()
    assert drain(client.subscribe(topic, "s", initial_position=EARLIEST)) in ([], numbers(3))


def test_unsubscribing_with_others_there_is_refused(connect: Connect, topic: str) -> None:
    first = connect(operation_timeout_seconds=2).subscribe(topic, "s", SHARED)
    second = connect().subscribe(topic, "s", SHARED)
    with pytest.raises(pulsar.PulsarException):
        first.unsubscribe()
    second.close()
    first.unsubscribe()


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_after_seeking_to_a_message_the_next_one_comes(
    client: pulsar.Client, topic: str, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    ids = send(client.create_producer(topic, batching_enabled=batching), numbers(20))
    for message in take(consumer, 20):
        consumer.acknowledge(message)
    consumer.seek(ids[5])
    assert_gets(consumer, numbers(14, first=6))
    consumer.seek(ids[12])
    assert_gets(consumer, numbers(7, first=13))


def test_seeking_inclusively_begins_with_the_message(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    ids = send(client.create_producer(topic), numbers(10))
    take(consumer, 10)
    consumer.seek(ids[4])
    assert_gets(consumer, numbers(6, first=4))


def test_seeking_to_the_ends(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbers(5))
    for message in take(consumer, 5):
        consumer.acknowledge(message)
    consumer.seek(pulsar.MessageId.earliest)
    assert_gets(consumer, numbers(5))
    consumer.seek(pulsar.MessageId.earliest)
    consumer.seek(pulsar.MessageId.latest)
    assert_silent(consumer)
    producer.send(b"new")
    assert_gets(consumer, [b"new"])


def test_seeking_to_a_time(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbers(5))
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    send(producer, numbers(5, first=5))
    take(consumer, 10)
    consumer.seek(between)
    assert_gets(consumer, numbers(5, first=5))
    consumer.seek(between - 100_000)
    assert_gets(consumer, numbers(10))


def test_seeking_brings_back_what_was_acknowledged_alone(client: pulsar.Client, topic: str) -> None:
    """Earlier acknowledgements are forgotten, including holes and pending redeliveries."""
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    send(client.create_producer(topic), numbers(10))
    held = take(consumer, 10)
    for message in held[1::2]:
        consumer.acknowledge(message)
    time.sleep(ACKS_SENT_S)
    consumer.negative_acknowledge(held[0])
    consumer.seek(pulsar.MessageId.earliest)
    assert_gets(consumer, numbers(10))
    assert_silent(consumer)


def test_a_reader_starts_where_it_is_told(client: pulsar.Client, topic: str) -> None:
    ids = send(client.create_producer(topic), numbers(10))
    earliest = client.create_reader(topic, pulsar.MessageId.earliest)
    behind = client.create_reader(topic, ids[3])
    at = client.create_reader(topic, ids[3], start_message_id_inclusive=True)
    latest = client.create_reader(topic, pulsar.MessageId.latest)
    assert read_all(earliest) == numbers(10)
    assert read_all(behind) == numbers(6, first=4)
    assert read_all(at) == numbers(7, first=3)
    assert not latest.has_message_available()


def test_a_reader_starts_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=10)
    ids = send(producer, numbers(30))
    assert read_all(client.create_reader(topic, ids[14])) == numbers(15, first=15)
    inclusive = client.create_reader(topic, ids[14], start_message_id_inclusive=True)
    assert read_all(inclusive) == numbers(16, first=14)


def test_a_reader_waits_for_what_is_sent_later(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    producer = client.create_producer(topic)
    producer.send(b"later")
    assert reader.read_next(WITHIN_MS).data() == b"later"
    assert not reader.has_message_available()


def test_a_reader_seeks(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    ids = send(client.create_producer(topic), numbers(10))
    assert read_all(reader) == numbers(10)
    reader.seek(ids[6])
    assert read_all(reader) == numbers(3, first=7)


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_the_last_message_id_is_that_of_the_last_receipt(
    client: pulsar.Client, topic: str, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    empty = consumer.get_last_message_id()
    assert (empty.ledger_id(), empty.entry_id()) == (-1, -1)
    ids = send(client.create_producer(topic, batching_enabled=batching), numbers(7))
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (ids[-1].ledger_id(), ids[-1].entry_id())
    assert last.batch_index() == ids[-1].batch_index()


def test_a_pattern_finds_topics_of_its_namespace(client: pulsar.Client, name: Named) -> None:
    prefix = name("pattern")
    for suffix in ("a", "b"):
        client.create_producer(f"{prefix}-{suffix}").send(suffix.encode())
    client.create_producer(f"other-{prefix}").send(b"no")
    pattern = re.compile(f"persistent://public/default/{prefix}-.*")
    consumer = client.subscribe(pattern, "s", SHARED, initial_position=EARLIEST)
    assert sorted(payloads(take(consumer, 2))) == [b"a", b"b"]
    assert_silent(consumer)


def test_one_consumer_of_several_topics(client: pulsar.Client, name: Named) -> None:
    topics = [name("several") for _ in range(3)]
    consumer = client.subscribe(topics, "s", SHARED)
    for topic in topics:
        client.create_producer(topic).send(topic.encode())
    assert sorted(payloads(take(consumer, 3))) == sorted(topic.encode() for topic in topics)


def test_a_short_name_is_a_topic_of_the_default_namespace(
    client: pulsar.Client, name: Named
) -> None:
    short = name("short")
    consumer = client.subscribe(f"persistent://public/default/{short}", "s")
    client.create_producer(short).send(b"x")
    assert consumer.receive(WITHIN_MS).topic_name() == f"persistent://public/default/{short}"


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("persistent://public/no-such-namespace/t", pulsar.TopicNotFound),
        # Apache Pulsar still knows the topic names of version 1, which contain a cluster.
        arneb_only("persistent://public/cluster/default/t", pulsar.TopicNotFound),
    ],
)
def test_a_topic_that_cannot_be_is_refused_at_once(
    client: pulsar.Client, address: str, error: type[Exception]
) -> None:
    started = time.monotonic()
    with pytest.raises(error):
        client.create_producer(address)
    assert time.monotonic() - started < ANSWER_WITHIN_S / 2


def test_an_unknown_listener_name_is_refused(connect: Connect, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        connect(listener_name="test", operation_timeout_seconds=2).create_producer(topic)
