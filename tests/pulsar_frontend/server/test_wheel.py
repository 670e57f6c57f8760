"""The official client against the server in this process; ``conformance/pulsar`` goes further."""

from collections.abc import Callable

import pulsar
import pytest
import trio
from tests.pulsar_frontend.conftest import OpenBroker

from arneb_pulsar.server.listener import PulsarServer

pytestmark = pytest.mark.real_time

COMPRESSIONS = [
    pulsar.CompressionType.NONE,
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]
SHARED = pulsar.ConsumerType.Shared
WITHIN_MS = 5000

Scenario = Callable[[pulsar.Client], None]


async def play(open_broker: OpenBroker, scenario: Scenario) -> None:
    """Play a scenario with a client that is connected to a server of its own."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    async with open_broker() as running, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(PulsarServer(running.context).serve, listeners)
        host, port = listeners[0].socket.getsockname()

        def run() -> None:
            client = pulsar.Client(
                f"pulsar://{host}:{port}", operation_timeout_seconds=5, logger=quiet
            )
            try:
                scenario(client)
            finally:
                client.close()

        await trio.to_thread.run_sync(run)
        nursery.cancel_scope.cancel()


def sent(producer: pulsar.Producer, count: int) -> list[pulsar.MessageId]:
    return [producer.send(b"%d" % number) for number in range(count)]


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
async def test_every_compression_comes_back(open_broker: OpenBroker, batching: bool) -> None:
    def scenario(client: pulsar.Client) -> None:
        consumer = client.subscribe("t", "s", SHARED)
        for compression in COMPRESSIONS:
            producer = client.create_producer(
                "t", compression_type=compression, batching_enabled=batching
            )
            producer.send_async(b"x" * 5000, None, partition_key="k", properties={"a": "b"})
            producer.flush()
            message = consumer.receive(WITHIN_MS)
            assert message.data() == b"x" * 5000
            assert (message.partition_key(), message.properties()) == ("k", {"a": "b"})
            consumer.acknowledge(message)

    await play(open_broker, scenario)


async def test_acks_inside_batches_and_seeking(open_broker: OpenBroker) -> None:
    def scenario(client: pulsar.Client) -> None:
        consumer = client.subscribe("t", "s", batch_index_ack_enabled=True)
        producer = client.create_producer(
            "t", batching_enabled=True, batching_max_publish_delay_ms=200
        )
        for number in range(10):
            producer.send_async(b"%d" % number, None)
        producer.flush()
        messages = [consumer.receive(WITHIN_MS) for _ in range(10)]
        for message in messages[1::2]:
            consumer.acknowledge(message)
        consumer.close()
        consumer = client.subscribe("t", "s", batch_index_ack_enabled=True)
        again = [consumer.receive(WITHIN_MS).data() for _ in range(5)]
        assert again == [b"0", b"2", b"4", b"6", b"8"]
        consumer.seek(messages[6].message_id())
        assert [consumer.receive(WITHIN_MS).data() for _ in range(3)] == [b"7", b"8", b"9"]
        consumer.unsubscribe()

    await play(open_broker, scenario)


async def test_redelivery_and_readers(open_broker: OpenBroker) -> None:
    def scenario(client: pulsar.Client) -> None:
        consumer = client.subscribe("t", "s", SHARED, negative_ack_redelivery_delay_ms=100)
        ids = sent(client.create_producer("t"), 5)
        messages = [consumer.receive(WITHIN_MS) for _ in range(5)]
        consumer.negative_acknowledge(messages[2])
        again = consumer.receive(WITHIN_MS)
        assert (again.data(), again.redelivery_count()) == (b"2", 1)
        reader = client.create_reader("t", ids[1])
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(WITHIN_MS).data())
        assert found == [b"2", b"3", b"4"]

    await play(open_broker, scenario)
