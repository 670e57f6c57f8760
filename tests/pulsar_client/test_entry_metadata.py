"""What a broker says of each entry where it is told to: when it was stored, and which message of
the topic it is."""

import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from conformance.brokers.pulsar_standalone import PulsarStandalone
from tests.pulsar_client.conftest import Broker, OwnArneb

from arneb_pulsar.client import (
    EARLIEST,
    Client,
    ConsumerOptions,
    InitialPosition,
    Message,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.consumer.consuming import Consuming

INTERCEPTORS = "org.apache.pulsar.common.intercept.Append"
SHARED = ConsumerOptions(
    type=SubscriptionType.SHARED,
    initial_position=InitialPosition.EARLIEST,
    negative_ack_delay_s=0.1,
)
CLOCKS_MS = 2_000


@pytest.fixture(scope="session")
def telling(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    place = tmp_path_factory.mktemp("telling")
    made: OwnArneb | PulsarStandalone
    if request.param == "arneb":
        settings = "[pulsar]\nexpose_broker_entry_metadata = true\n"
        made = OwnArneb(place, listeners=("pulsar", "http-pulsar"), settings=settings)
    else:
        kinds = ("BrokerTimestamp", "Index")
        made = PulsarStandalone(
            place,
            exposingBrokerEntryMetadataToClientEnabled="true",
            brokerEntryMetadataInterceptors=",".join(
                f"{INTERCEPTORS}{kind}MetadataInterceptor" for kind in kinds
            ),
        )
    made.start()
    yield made
    made.stop()


async def filled(client: Client, topic: str) -> None:
    """Twelve messages: three alone, two batches of three, three alone."""
    producer = await client.create_producer(topic, ProducerOptions(batching=None))
    for number in range(3):
        await producer.send(b"%d" % number)
    for first in (3, 6):
        await producer.send_batch([b"%d" % number for number in range(first, first + 3)])
    for number in range(9, 12):
        await producer.send(b"%d" % number)


async def got(consumer: Consuming[bytes], count: int) -> list[Message[bytes]]:
    found = [await consumer.receive(10) for _ in range(count)]
    for each in found:
        assert each.index == int(each.data), each
        assert each.broker_time_ms is not None
        assert abs(each.broker_time_ms - time.time() * 1000) < 60_000
        assert abs(each.broker_time_ms - each.publish_time_ms) < CLOCKS_MS
    return found


async def test_a_message_has_its_number_however_it_arrives(telling: Broker, topic: str) -> None:
    async with connect(telling.pulsar_url) as client:
        await filled(client, topic)
        consumer = await client.subscribe(topic, "s", SHARED)
        first = await got(consumer, 12)
        for message in first:
            if int(message.data) in (1, 9) or message.id.batch_index == 1:
                consumer.negative_acknowledge(message)
        await got(consumer, 1 + 3 + 3 + 1)
        for message in (first[0], *first[3:6]):
            await consumer.acknowledge_stored(message)
        await consumer.close()
        consumer = await client.subscribe(topic, "s", SHARED)
        left = await got(consumer, 8)
        assert sorted(int(each.data) for each in left) == [1, 2, *range(6, 12)]
        reader = await client.create_reader(topic, EARLIEST)
        for number in range(12):
            message = await reader.read(10)
            assert (message.index, message.data) == (number, b"%d" % number)
        await reader.seek(left[3].id)
        assert (await reader.read(10)).index is not None


async def test_all_that_is_asked_for_again_comes_again_with_its_number(
    telling: Broker, topic: str
) -> None:
    options = ConsumerOptions(initial_position=InitialPosition.EARLIEST, queue_size=5)
    async with connect(telling.pulsar_url) as client:
        await filled(client, topic)
        consumer = await client.subscribe(topic, "s", options)
        for _ in range(5):
            await got(consumer, 4)
            consumer.redeliver_unacknowledged()
        assert [int(each.data) for each in await got(consumer, 12)] == list(range(12))


def test_over_http_an_entry_shows_the_number_of_its_last_message(
    telling: Broker, topic: str
) -> None:
    async def fill() -> None:
        async with connect(telling.pulsar_url) as client:
            await filled(client, topic)

    anyio.run(fill)
    place = topic.replace("://", "/")
    found = []
    for count in range(1, 9):
        url = f"{telling.http_url}/admin/v2/{place}/examinemessage?initialPosition=earliest"
        with urllib.request.urlopen(f"{url}&messagePosition={count}", timeout=10) as answer:
            found.append(int(answer.headers["X-Pulsar-Broker-Entry-METADATA-index"]))
            stored = answer.headers["X-Pulsar-Broker-Entry-METADATA-timestamp"]
            age = datetime.now(UTC) - datetime.fromisoformat(stored)
            assert abs(age) < timedelta(minutes=1)
    assert found == [0, 1, 2, 5, 8, 9, 10, 11]


async def test_only_connections_that_asked_are_notified(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        await filled(client, topic)
        consumer = await client.subscribe(topic, "s", SHARED)
        message = await consumer.receive(10)
        assert (message.index, message.broker_time_ms) == (None, None)
