"""One log, two protocols: an AMQP queue is a Pulsar topic with the subscription ``amqp``."""

import pika
import pulsar
import pytest
from conformance.pulsar.admin import Admin, Refused
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import (
    WITHIN_MS,
    assert_gets,
    assert_silent,
    numbers,
    payloads,
    send,
    take,
)
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared


@pytest.fixture
def queue(channel: BlockingChannel, name: Named) -> str:
    """An empty durable queue, which is also a topic."""
    made = name("queue")
    channel.queue_declare(made, durable=True)
    return made


def publish(channel: BlockingChannel, queue: str, *bodies: bytes, **properties: object) -> None:
    for body in bodies:
        channel.basic_publish(
            "", queue, body, pika.BasicProperties(**{"delivery_mode": 2} | properties)
        )


def get(channel: BlockingChannel, queue: str) -> list[tuple[object, pika.BasicProperties, bytes]]:
    """Get and acknowledge every ready message."""
    found = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(message)
    return found


def test_pulsar_consumes_what_amqp_publishes(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    publish(channel, queue, *numbers(50))
    consumer = client.subscribe(queue, "mine", initial_position=EARLIEST)
    assert_gets(consumer, numbers(50))
    assert_silent(consumer)


def test_key_properties_and_time_of_amqp_come_through(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    channel.exchange_declare(f"{queue}-x", "topic", durable=False, auto_delete=True)
    channel.queue_bind(queue, f"{queue}-x", "orders.#")
    consumer = client.subscribe(f"persistent://public/default/{queue}", "mine")
    properties = pika.BasicProperties(timestamp=1_700_000_000, headers={"colour": "red"})
    channel.basic_publish(f"{queue}-x", "orders.new", b"x", properties)
    message = consumer.receive(WITHIN_MS)
    assert message.partition_key() == "orders.new"
    assert message.properties()["colour"] == "red"
    assert message.event_timestamp() == 1_700_000_000_000
    assert message.publish_timestamp() > 1_700_000_000_000


def test_amqp_consumes_what_pulsar_produces_message_by_message(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    producer = client.create_producer(
        queue, batching_enabled=True, compression_type=pulsar.CompressionType.LZ4
    )
    for number in range(30):
        producer.send_async(
            b"%d" % number,
            None,
            partition_key=f"key{number % 3}",
            properties={"number": str(number)},
            event_timestamp=1_700_000_000_000,
        )
    producer.flush()
    found = get(channel, queue)
    assert [body for _, _, body in found] == numbers(30)
    assert [method.routing_key for method, _, _ in found] == [f"key{n % 3}" for n in range(30)]
    assert [properties.headers["number"] for _, properties, _ in found] == [
        str(number) for number in range(30)
    ]
    assert {properties.timestamp for _, properties, _ in found} == {1_700_000_000}


def test_the_subscription_amqp_competes_with_amqp_consumers(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    publish(channel, queue, *numbers(10))
    consumer = client.subscribe(queue, "amqp", SHARED, receiver_queue_size=4)
    held = take(consumer, 4)
    for message in held:
        consumer.acknowledge(message)
    consumer.close()
    left = [body for _, _, body in get(channel, queue)]
    assert sorted(payloads(held) + left) == sorted(numbers(10))


def test_what_pulsar_leaves_unacknowledged_comes_redelivered(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    publish(channel, queue, *numbers(3))
    consumer = client.subscribe(queue, "amqp", SHARED)
    take(consumer, 3)
    consumer.close()
    found = get(channel, queue)
    assert [(method.redelivered, body) for method, _, body in found] == [
        (True, body) for body in numbers(3)
    ]


def test_a_batch_half_taken_by_pulsar_is_finished_by_amqp(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    consumer = client.subscribe(queue, "amqp", SHARED, batch_index_ack_enabled=True)
    producer = client.create_producer(
        queue, batching_enabled=True, batching_max_publish_delay_ms=100
    )
    send(producer, numbers(10))
    for message in take(consumer, 10)[:4]:
        consumer.acknowledge(message)
    consumer.close()
    assert [body for _, _, body in get(channel, queue)] == numbers(6, first=4)


def test_a_batch_half_taken_by_amqp_is_finished_by_pulsar(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    producer = client.create_producer(
        queue, batching_enabled=True, batching_max_publish_delay_ms=100
    )
    send(producer, numbers(10))
    for expected in numbers(4):
        assert channel.basic_get(queue, auto_ack=True)[2] == expected
    consumer = client.subscribe(queue, "amqp", SHARED)
    assert payloads(take(consumer, 6)) == numbers(6, first=4)
    assert_silent(consumer)


def test_a_topic_made_by_pulsar_is_a_queue(
    channel: BlockingChannel, name: Named, client: pulsar.Client
) -> None:
    topic = name("made-by-pulsar")
    client.create_producer(topic).send(b"x")
    assert channel.queue_declare(topic, passive=True).method.message_count == 1
    assert [body for _, _, body in get(channel, topic)] == [b"x"]


def test_a_queue_with_a_strange_name_has_a_topic(
    channel: BlockingChannel, name: Named, client: pulsar.Client
) -> None:
    strange = name("a/b%c")
    channel.queue_declare(strange, durable=True)
    publish(channel, strange, b"x")
    topic = strange.replace("%", "%25").replace("/", "%2F")
    consumer = client.subscribe(topic, "mine", initial_position=EARLIEST)
    assert_gets(consumer, [b"x"])


def test_the_last_message_and_seeking_work_on_a_queue(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    publish(channel, queue, *numbers(5))
    reader = client.create_reader(queue, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(WITHIN_MS).data())
    assert found == numbers(5)
    reader.seek(pulsar.MessageId.earliest)
    assert reader.read_next(WITHIN_MS).data() == b"0"


def test_a_queue_cannot_lose_its_place_through_pulsar(
    channel: BlockingChannel, queue: str, client: pulsar.Client
) -> None:
    publish(channel, queue, b"x")
    consumer = client.subscribe(queue, "amqp", SHARED)
    with pytest.raises(pulsar.PulsarException):
        consumer.unsubscribe()
    consumer.close()
    assert [body for _, _, body in get(channel, queue)] == [b"x"]


def test_a_queue_whose_topic_is_deleted_through_pulsar_is_deleted(
    channel: BlockingChannel, queue: str, admin: Admin
) -> None:
    """The admin API refuses to delete a topic with consumers unless the deletion is forced."""
    channel.queue_bind(queue, "amq.topic", f"{queue}.#")
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    with pytest.raises(Refused) as refused:
        admin.delete(queue)
    assert refused.value.status == 412
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", f"{queue}.1", b"x", mandatory=True)
    admin.delete(queue, force="true")
    while not cancelled:
        channel.connection.process_data_events(1)
    assert cancelled == [tag]
    for exchange, key in (("", queue), ("amq.topic", f"{queue}.1")):
        with pytest.raises(UnroutableError):
            channel.basic_publish(exchange, key, b"x", mandatory=True)
    assert channel.queue_declare(queue, durable=True).method.message_count == 0
    with pytest.raises(UnroutableError):
        channel.basic_publish("amq.topic", f"{queue}.1", b"x", mandatory=True)
    channel.basic_publish("", queue, b"anew", mandatory=True)
    assert [body for _, _, body in get(channel, queue)] == [b"anew"]


def test_an_exclusive_queue_is_its_connections_own(
    channel: BlockingChannel, name: Named, client: pulsar.Client
) -> None:
    """Until its connection closes, others can neither publish to it nor subscribe."""
    queue = name("exclusive")
    channel.queue_declare(queue, exclusive=True)
    with pytest.raises(pulsar.NotAllowedError):
        client.create_producer(queue)
    for subscription in ("amqp", "mine"):
        with pytest.raises(pulsar.NotAllowedError):
            client.subscribe(queue, subscription, consumer_type=SHARED)
    publish(channel, queue, b"private")
    assert [body for _, _, body in get(channel, queue)] == [b"private"]
