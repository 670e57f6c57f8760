"""Impossible requests are refused with the error that says why."""

import socket
import threading
from collections.abc import Callable

import pulsar
import pytest
from conformance.brokers.process import free_port
from conformance.pulsar.conftest import Connect, Mortal
from conformance.pulsar.helpers import SILENCE_MS, WITHIN_MS, numbers, payloads, send, take

SHARED = pulsar.ConsumerType.Shared
WITHIN_S = WITHIN_MS / 1000
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_a_message_that_is_too_large(client: pulsar.Client, topic: str, batching: bool) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=batching)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(6 << 20))
    producer.send(b"small")
    assert consumer.receive(WITHIN_MS).data() == b"small"


@pytest.mark.parametrize(
    "address",
    [
        "persistent://public/default",
        "unheard://public/default/t",
        "persistent://public/default/",
        "persistent:///default/t",
    ],
)
def test_a_name_that_none_can_have(client: pulsar.Client, address: str) -> None:
    for ask in (client.create_producer, lambda name: client.subscribe(name, "s")):
        with pytest.raises((pulsar.InvalidTopicName, pulsar.LookupError)):
            ask(address)


def test_a_consumer_with_a_listener_cannot_receive(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", message_listener=lambda *_: None)
    with pytest.raises(pulsar.InvalidConfiguration):
        consumer.receive(SILENCE_MS)


def test_what_is_closed_is_closed(connect: Connect, topic: str) -> None:
    client = connect()
    consumer, producer = client.subscribe(topic, "s"), client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    producer.send(b"x")
    message = consumer.receive(WITHIN_MS)
    for each in (consumer, producer, reader):
        each.close()
    closed: list[Callable[[], object]] = [
        lambda: producer.send(b"y"),
        lambda: consumer.receive(SILENCE_MS),
        lambda: consumer.acknowledge(message),
        lambda: consumer.seek(pulsar.MessageId.earliest),
        lambda: reader.read_next(SILENCE_MS),
    ]
    for call in closed:
        with pytest.raises(pulsar.AlreadyClosed):
            call()
    client.close()
    for call in (lambda: client.create_producer(topic), lambda: client.subscribe(topic, "s")):
        with pytest.raises(pulsar.AlreadyClosed):
            call()


def test_a_port_without_a_listener_is_reported() -> None:
    client = pulsar.Client(
        f"pulsar://127.0.0.1:{free_port()}", operation_timeout_seconds=2, logger=QUIET
    )
    with pytest.raises((pulsar.ConnectError, pulsar.Timeout)):
        client.create_producer("t")
    client.close()


def test_a_server_that_never_answers_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"pulsar://127.0.0.1:{mute.getsockname()[1]}"
        client = pulsar.Client(
            address, operation_timeout_seconds=2, connection_timeout_ms=1_000, logger=QUIET
        )
        with pytest.raises((pulsar.ConnectError, pulsar.Timeout)):
            client.create_producer("t")
        client.close()


def test_a_full_queue_takes_no_more(client: pulsar.Client, topic: str) -> None:
    """Messages that wait for their batch to fill up occupy the queue."""
    producer = client.create_producer(
        topic,
        max_pending_messages=5,
        batching_enabled=True,
        batching_max_publish_delay_ms=60_000,
    )
    results: list[pulsar.Result] = []
    for number in range(6):
        producer.send_async(b"%d" % number, lambda result, _: results.append(result))
    assert results == [pulsar.Result.ProducerQueueIsFull]
    producer.flush()
    assert results[1:] == [pulsar.Result.Ok] * 5


def test_a_full_queue_may_wait(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, max_pending_messages=5, block_if_queue_full=True)
    results: list[pulsar.Result] = []
    for number in range(200):
        producer.send_async(b"%d" % number, lambda result, _: results.append(result))
    producer.flush()
    assert results == [pulsar.Result.Ok] * 200
    assert payloads(take(consumer, 200)) == numbers(200)


def test_what_is_not_answered_in_time_fails(mortal: Mortal) -> None:
    broker = mortal(all_go=True)
    client = pulsar.Client(broker.pulsar_url, logger=QUIET)
    producer = client.create_producer("t", send_timeout_millis=1_000)
    producer.send(b"answered")
    broker.kill()
    with pytest.raises(pulsar.Timeout):
        producer.send(b"lost")
    broker.start()
    consumer = client.subscribe("t", "s", initial_position=pulsar.InitialPosition.Earliest)
    while True:  # the producer reconnects after a delay of its own
        try:
            producer.send(b"later")
        except pulsar.Timeout:
            continue
        break
    found = [consumer.receive(WITHIN_MS).data()]
    while found[-1] != b"later":
        found.append(consumer.receive(WITHIN_MS).data())
    assert found[0] == b"answered"
    client.close()


def test_numbers_go_on_where_they_should(connect: Connect, topic: str) -> None:
    producer = connect().create_producer(topic, initial_sequence_id=41)
    assert producer.last_sequence_id() == 41
    producer.send(b"x")
    assert producer.last_sequence_id() == 42
    producer.send(b"y", sequence_id=100)
    assert producer.last_sequence_id() == 100


def test_receipts_call_back(client: pulsar.Client, topic: str) -> None:
    over = threading.Event()
    found: list[tuple[pulsar.Result, pulsar.MessageId]] = []

    def receipt(result: pulsar.Result, place: pulsar.MessageId) -> None:
        found.append((result, place))
        if len(found) == 100:
            over.set()

    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic, batching_enabled=True)
    for body in numbers(100):
        producer.send_async(body, receipt)
    assert over.wait(WITHIN_S)
    assert {result for result, _ in found} == {pulsar.Result.Ok}
    assert [place for _, place in found] == [each.message_id() for each in take(consumer, 100)]


def test_replication_is_not_asked_for(client: pulsar.Client, topic: str) -> None:
    """There is only one cluster: options about others are accepted and have no effect."""
    consumer = client.subscribe(topic, "s", replicate_subscription_state_enabled=True)
    producer = client.create_producer(topic)
    producer.send(b"0", disable_replication=True)
    producer.send(b"1", replication_clusters=["standalone"])
    send(producer, [b"2"])
    assert payloads(take(consumer, 3)) == numbers(3)
