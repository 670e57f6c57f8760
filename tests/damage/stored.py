"""A data directory with contents of every kind, as a killed broker leaves it.

The rule: real clients created it through both protocols, so that what is damaged is what real disks
contain.
"""

from pathlib import Path
from typing import Final

import pika
import pulsar

from arneb.demo.process import BrokerProcess

QUEUES: Final = 30
CONFIRMED: Final = 150
"""How many messages were published one by one, each confirmed: they make small blocks, and finally
journal records."""
LARGE: Final = 40
FAR_MS: Final = 3_600_000
BATCH: Final = 10

PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)


def make_everything(directory: Path) -> None:
    """Create topics with closed and open ledgers, small and large blocks, shared bodies, delayed
    entries, holes, a partly acknowledged batch, exchanges and bindings with long names, schemas,
    free pages, and a journal."""
    with BrokerProcess(directory, listeners=("amqp", "pulsar")) as broker:
        _through_pulsar(broker.pulsar_url)
        _through_amqp(broker.amqp_port)
        broker.kill()


def _through_amqp(port: int) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("fan", "fanout", durable=True)
        channel.exchange_declare("topic" + "t" * 200, "topic", durable=True)
        delayed = {"x-delayed-type": "fanout"}
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=delayed)
        channel.queue_declare("late", durable=True)
        channel.queue_bind("late", "later")
        for number in range(QUEUES):
            queue = f"q{number}-" + "n" * (number * 6)
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "topic" + "t" * 200, f"key.{'k' * 150}.{number}.#")
            if number < 4:
                channel.queue_bind(queue, "fan")
        for number in range(10):
            channel.basic_publish("fan", "", bytes([number]) * 12_000, PERSISTENT)
        for number in range(200):
            properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": FAR_MS + number})
            channel.basic_publish("later", "", b"later %d" % number, properties)
        for number in range(LARGE):
            channel.basic_publish("", "q5-" + "n" * 30, bytes([number]) * 20_000, PERSISTENT)
        for number in range(20, QUEUES):
            channel.queue_delete(f"q{number}-" + "n" * (number * 6))
        _acknowledge_every_other(channel, "q5-" + "n" * 30)
        for number in range(CONFIRMED):
            channel.basic_publish("", "q1-" + "n" * 6, b"small %d" % number, PERSISTENT)


def _acknowledge_every_other(
    channel: "pika.adapters.blocking_connection.BlockingChannel", queue: str
) -> None:
    for number in range(LARGE):
        method, _, _ = channel.basic_get(queue)
        if number % 2:
            channel.basic_ack(method.delivery_tag)


def _through_pulsar(url: str) -> None:
    client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))
    try:
        schema = pulsar.schema.StringSchema()
        named = client.create_producer("persistent://public/default/named", schema=schema)
        named.send("with a schema")
        consumer = client.subscribe(
            "persistent://public/default/batches", "half",
            consumer_type=pulsar.ConsumerType.Shared, batch_index_ack_enabled=True,
        )  # fmt: skip
        producer = client.create_producer(
            "persistent://public/default/batches", batching_enabled=True,
            batching_max_messages=BATCH, batching_max_publish_delay_ms=1000,
        )  # fmt: skip
        for number in range(10 * BATCH):
            producer.send_async(b"batched %d" % number, lambda result, place: None)
        producer.flush()
        for number in range(5 * BATCH):
            message = consumer.receive(5000)
            if number % 3:
                consumer.acknowledge(message)
        consumer.close()
    finally:
        client.close()
