"""Message ids: serialized, parsed, compared, and used in place of messages."""

from itertools import pairwise

import pulsar
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import WITHIN_MS, assert_gets, numbers, payloads, send, take

SHARED = pulsar.ConsumerType.Shared


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_an_id_that_was_written_down_is_the_same(
    client: pulsar.Client, topic: str, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    ids = send(client.create_producer(topic, batching_enabled=batching), numbers(10))
    for message, receipt in zip(take(consumer, 10), ids, strict=True):
        read = pulsar.MessageId.deserialize(message.message_id().serialize())
        assert read == message.message_id() == receipt
        made = pulsar.MessageId(
            read.partition(), read.ledger_id(), read.entry_id(), read.batch_index()
        )
        assert made == pulsar.MessageId.wrap(receipt)
    assert all(one < other and other >= one and one != other for one, other in pairwise(ids))


def test_reading_goes_on_at_an_id_that_was_written_down(connect: Connect, topic: str) -> None:
    client = connect()
    send(client.create_producer(topic, batching_enabled=True), numbers(20))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    seen = [reader.read_next(WITHIN_MS) for _ in range(8)]
    written = seen[-1].message_id().serialize()
    client.close()
    read = pulsar.MessageId.deserialize(written, topic)
    reader = connect().create_reader(topic, read)
    found = [reader.read_next(WITHIN_MS).data() for _ in range(12)]
    assert found == numbers(12, first=8)


def test_no_two_topics_have_an_id_in_common(client: pulsar.Client, topic: str) -> None:
    ids = [
        each
        for number in range(4)
        for each in send(client.create_producer(f"{topic}-{number}"), numbers(5))
    ]
    assert len({(each.ledger_id(), each.entry_id(), each.batch_index()) for each in ids}) == 20


def test_an_id_of_another_topic_acknowledges_nothing(client: pulsar.Client, topic: str) -> None:
    # Arneb's very first topic has ids that mean something in others, too (decision 0026).
    send(client.create_producer(f"{topic}-before"), numbers(1))
    topics = [f"{topic}-{number}" for number in range(2)]
    consumers = [client.subscribe(each, "s", SHARED) for each in topics]
    ids = [send(client.create_producer(each), numbers(1))[0] for each in topics]
    for consumer, of_another in zip(consumers, reversed(ids), strict=True):
        assert payloads(take(consumer, 1)) == [b"0"]
        consumer.acknowledge(of_another)
        consumer.close()
    for each in topics:
        assert_gets(client.subscribe(each, "s", SHARED), [b"0"])


def test_the_ends_are_ids_too() -> None:
    for end in (pulsar.MessageId.earliest, pulsar.MessageId.latest):
        assert pulsar.MessageId.deserialize(end.serialize()) == end


def test_messages_are_answered_by_their_ids(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    send(client.create_producer(topic), numbers(4))
    ids = [message.message_id() for message in take(consumer, 4)]
    consumer.acknowledge(ids[0])
    consumer.acknowledge(pulsar.MessageId.wrap(ids[2]))
    consumer.negative_acknowledge(ids[1])
    again = consumer.receive(WITHIN_MS)
    assert (again.data(), again.redelivery_count()) == (b"1", 1)
    client.close()
    assert_gets(connect().subscribe(topic, "s", SHARED), [b"1", b"3"])


def test_an_id_answers_for_all_before_it(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(6))
    consumer.acknowledge_cumulative(take(consumer, 6)[3].message_id())
    client.close()
    assert_gets(connect().subscribe(topic, "s"), [b"4", b"5"])


def test_ids_know_their_partitions(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{local(topic)}/partitions", 3)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    sent = {each.serialize() for each in send(producer, numbers(9))}
    messages = take(consumer, 9)
    assert {each.message_id().serialize() for each in messages} == sent
    for message in messages:
        read = pulsar.MessageId.deserialize(message.message_id().serialize())
        assert message.topic_name() == f"{topic}-partition-{read.partition()}"


def test_a_chunked_message_is_found_by_its_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    producer = client.create_producer(topic, chunking_enabled=True)
    large = bytes(range(256)) * (48 * 1024)
    ids = send(producer, [b"before", large, b"after"])
    found = take(consumer, 3)
    assert [each.message_id() for each in found] == ids
    consumer.acknowledge(found[1])
    consumer.seek(pulsar.MessageId.deserialize(ids[1].serialize()))
    assert payloads(take(consumer, 2)) == [large, b"after"]
    reader = client.create_reader(topic, ids[1], start_message_id_inclusive=True)
    assert reader.read_next(WITHIN_MS).data() == large
    behind = client.create_reader(topic, ids[1])
    assert behind.read_next(WITHIN_MS).data() == b"after"
