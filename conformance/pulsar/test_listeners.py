"""Message listeners: callbacks, pauses, and messages not acknowledged in time."""

import queue
from typing import Any

import pulsar
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import SILENCE_MS, WITHIN_MS, numbers, send, take

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared

ACK_TIMEOUT_MS = 10_000
"""The minimum that the wheel accepts."""


class Heard:
    """Records everything that a listener is called with."""

    def __init__(self, *, acknowledges: bool = True) -> None:
        self._acknowledges = acknowledges
        self._queue: queue.Queue[tuple[Any, pulsar.Message]] = queue.Queue()

    def __call__(self, who: Any, message: pulsar.Message) -> None:
        self._queue.put((who, message))

    def next(self, within_ms: int = WITHIN_MS) -> bytes:
        """The next message's payload."""
        who, message = self._queue.get(timeout=within_ms / 1000)
        if self._acknowledges:
            who.acknowledge(message)
        found: bytes = message.data()
        return found

    def rest(self) -> list[bytes]:
        """The payloads that come until nothing more does."""
        found: list[bytes] = []
        while True:
            try:
                found.append(self.next(SILENCE_MS))
            except queue.Empty:
                return found


def test_a_listener_hears_everything_in_order(connect: Connect, topic: str) -> None:
    client = connect(message_listener_threads=2)
    one, two = Heard(), Heard()
    client.subscribe(topic, "one", message_listener=one)
    client.subscribe(topic, "two", message_listener=two)
    send(client.create_producer(topic), numbers(200))
    for heard in (one, two):
        assert [heard.next() for _ in range(200)] == numbers(200)
    assert one.rest() == two.rest() == []


def test_a_listener_that_pauses_misses_nothing(client: pulsar.Client, topic: str) -> None:
    heard = Heard()
    consumer = client.subscribe(topic, "s", message_listener=heard, receiver_queue_size=10)
    producer = client.create_producer(topic)
    send(producer, numbers(20))
    assert [heard.next() for _ in range(20)] == numbers(20)
    consumer.pause_message_listener()
    send(producer, numbers(50, first=20))
    # Messages that were already in the listener's queue are still delivered.
    early = heard.rest()
    assert early == numbers(len(early), first=20)
    assert len(early) <= 10
    consumer.resume_message_listener()
    rest = 50 - len(early)
    assert [heard.next() for _ in range(rest)] == numbers(rest, first=20 + len(early))
    assert heard.rest() == []


def test_a_reader_may_listen_too(client: pulsar.Client, topic: str) -> None:
    ids = send(client.create_producer(topic), numbers(10))
    heard = Heard(acknowledges=False)
    reader = client.create_reader(topic, ids[3], reader_listener=heard)
    assert [heard.next() for _ in range(6)] == numbers(6, first=4)
    assert reader.is_connected()
    reader.close()
    assert not reader.is_connected()


def test_what_is_not_acknowledged_in_time_comes_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", SHARED, unacked_messages_timeout_ms=ACK_TIMEOUT_MS)
    send(client.create_producer(topic), numbers(3))
    first = take(consumer, 3)
    consumer.acknowledge(first[1])
    again = [consumer.receive(4 * ACK_TIMEOUT_MS) for _ in range(2)]
    assert sorted(each.data() for each in again) == [b"0", b"2"]
    for message in again:
        assert message.redelivery_count() == 1
        consumer.acknowledge(message)


def test_what_comes_again_may_be_of_several_topics(client: pulsar.Client, topic: str) -> None:
    # The timer tells the messages of its consumer apart by their ids, and nothing else.
    topics = [f"{topic}-{number}" for number in range(3)]
    consumer = client.subscribe(topics, "s", SHARED, unacked_messages_timeout_ms=ACK_TIMEOUT_MS)
    expected = sorted(send_each(client, topics))
    assert sorted(each.data() for each in take(consumer, 6)) == expected
    again = [consumer.receive(4 * ACK_TIMEOUT_MS) for _ in range(6)]
    assert sorted(each.data() for each in again) == expected
    assert {each.redelivery_count() for each in again} == {1}
    for message in again:
        consumer.acknowledge(message)


def send_each(client: pulsar.Client, topics: list[str]) -> list[bytes]:
    """Send two messages to each topic, and return them."""
    sent = []
    for topic in topics:
        payloads = [f"{topic} {number}".encode() for number in range(2)]
        ids = send(client.create_producer(topic, batching_enabled=False), payloads)
        assert len(ids) == 2
        sent += payloads
    return sent


def test_clients_identify_themselves(client: pulsar.Client, admin: Admin, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_name="me", properties={"shop": "Oslo"})
    producer = client.create_producer(topic, producer_name="you", properties={"line": "7"})
    assert (consumer.consumer_name(), consumer.subscription_name()) == ("me", "s")
    assert (consumer.topic(), producer.topic()) == (topic, topic)
    assert consumer.is_connected()
    assert producer.is_connected()
    stats = admin.get(f"{local(topic)}/stats")
    (publisher,) = stats["publishers"]
    assert (publisher["producerName"], publisher["metadata"]) == ("you", {"line": "7"})
    (subscriber,) = stats["subscriptions"]["s"]["consumers"]
    assert (subscriber["consumerName"], subscriber["metadata"]) == ("me", {"shop": "Oslo"})
    consumer.close()
    producer.close()
    assert not consumer.is_connected()
    assert not producer.is_connected()


def test_a_client_that_shuts_down_is_gone(connect: Connect, admin: Admin, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    client.shutdown()
    assert not consumer.is_connected()
    assert not producer.is_connected()
    # The broker has released the exclusive subscription and the producer's name.
    other = connect()
    other.create_producer(topic, producer_name="x").send(b"x")
    assert other.subscribe(topic, "s").receive(WITHIN_MS).data() == b"x"
