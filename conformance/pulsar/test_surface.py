"""What the official wheel offers besides producing and consuming: detecting the end, receiving in
batches, discarding incomplete chunks, deduplication by policy."""

import pulsar
import pytest
from conformance.pulsar.admin import NAMESPACE, Admin
from conformance.pulsar.conftest import Connect, Named
from conformance.pulsar.helpers import WITHIN_MS, assert_gets, numbers, payloads, send, take

LONG_MS = 60_000


def test_a_reader_knows_whether_there_is_more(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert not reader.has_message_available()
    ids = send(producer, numbers(3))
    for number in range(3):
        assert reader.has_message_available()
        assert reader.read_next(WITHIN_MS).data() == b"%d" % number
    assert not reader.has_message_available()
    reader.seek(ids[1])
    assert reader.has_message_available()
    at_end = client.create_reader(topic, pulsar.MessageId.latest)
    assert not at_end.has_message_available()
    inclusive = client.create_reader(topic, ids[2], start_message_id_inclusive=True)
    assert inclusive.has_message_available()
    assert inclusive.read_next(WITHIN_MS).data() == b"2"
    exclusive = client.create_reader(topic, ids[2])
    assert not exclusive.has_message_available()
    last = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    assert last.has_message_available()
    assert last.read_next(WITHIN_MS).data() == b"2"


def test_a_reader_that_goes_to_the_end_has_what_comes_next(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    send(producer, [b"before"])
    assert reader.has_message_available()
    reader.seek(pulsar.MessageId.latest)
    assert not reader.has_message_available()
    send(producer, [b"after"])
    assert reader.has_message_available()
    assert reader.read_next(WITHIN_MS).data() == b"after"


def test_a_reader_recognises_the_end_of_a_batch(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True)
    ids = send(producer, numbers(10))
    reader = client.create_reader(topic, ids[4])
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(WITHIN_MS).data())
    assert found == numbers(5, first=5)


@pytest.mark.parametrize(
    ("messages", "size", "within_ms", "expected"),
    [(5, -1, LONG_MS, [5] * 4), (-1, 40, LONG_MS, [4] * 5), (100, -1, 1_000, [20])],
    ids=["number", "size", "time"],
)
def test_messages_are_received_in_batches(
    client: pulsar.Client,
    topic: str,
    messages: int,
    size: int,
    within_ms: int,
    expected: list[int],
) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(messages, size, within_ms)
    consumer = client.subscribe(topic, "s", batch_receive_policy=policy)
    bodies = [b"%010d" % number for number in range(20)]
    send(client.create_producer(topic), bodies)
    found = [payloads(consumer.batch_receive()) for _ in expected]
    assert [len(each) for each in found] == expected
    assert [body for each in found for body in each] == bodies


def test_messages_of_two_producers_in_chunks_between_one_another(
    connect: Connect, topic: str
) -> None:
    consumer = connect().subscribe(
        topic,
        "s",
        max_pending_chunked_message=2,
        auto_ack_oldest_chunked_message_on_queue_full=True,
    )
    producers = [connect().create_producer(topic, chunking_enabled=True) for _ in range(2)]
    large = [bytes([65 + number]) * (11 << 20) for number in range(4)]
    for number, body in enumerate(large):
        producers[number % 2].send_async(body, lambda *_: None)
    for producer in producers:
        producer.flush()
    found = payloads(take(consumer, 4))
    assert {(each[:1], len(each)) for each in found} == {(each[:1], len(each)) for each in large}


def test_a_namespace_may_want_deduplication(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    namespace = f"public/{name('namespace')}"
    path = NAMESPACE.replace("public/default", namespace)
    admin.put(path)
    admin.post(f"{path}/deduplication", True)
    topic = f"persistent://{namespace}/t"
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic, producer_name="me")
    ids = [producer.send(b"%d" % number, sequence_id=number) for number in (3, 3, 4)]
    assert [each.ledger_id() == -1 for each in ids] == [False, True, False]
    producer.close()
    assert client.create_producer(topic, producer_name="me").last_sequence_id() == 4
    assert_gets(client.subscribe(topic, "s"), [b"3", b"4"])
