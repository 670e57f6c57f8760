"""Behind a proxy: brokers are reached through it alone, whoever names them."""

import pytest
from tests.pulsar_client.conftest import Broker
from tests.pulsar_client.proxy import proxy_of
from tests.pulsar_client.test_topics import make_partitions

from arneb_pulsar.client import (
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    SubscriptionType,
    TlsOptions,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.connection.dialling import Address, Dial, dialler
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.consumer.multi_topic import MultiTopicConsumer
from arneb_pulsar.client.errors import Disconnected
from arneb_pulsar.client.producer.producer import Producer

OPTIONS = ConsumerOptions(
    type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST, partition_poll_s=0.2
)

pytestmark = pytest.mark.in_peace("the proxy knows one address of one broker")


class Dialled:
    """Dials, and notes whom."""

    def __init__(self) -> None:
        self.addresses: set[str] = set()
        self._dial = dialler(TlsOptions().context, 10.0)

    async def dial(self, address: Address) -> object:
        self.addresses.add(str(address))
        return await self._dial(address)


def options_of(dialled: Dialled) -> ClientOptions:
    dial: Dial = dialled.dial  # type: ignore[assignment]
    return ClientOptions(dial=dial)


async def test_all_goes_through_a_proxy(broker: Broker, topic: str) -> None:
    url, *_ = broker.pulsar_url.split(",")
    dialled = Dialled()
    await make_partitions(broker, f"{topic}-parts", 2)
    async with proxy_of(url) as proxy, connect(proxy.url, options_of(dialled)) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s", OPTIONS)
        sent = await producer.send(b"one")
        message = await consumer.receive(10)
        assert (message.id, message.data) == (sent, b"one")
        await consumer.acknowledge_stored(message)
        parts = await client.create_producer(f"{topic}-parts")
        both = await client.subscribe_pattern(f"{topic.partition('://')[2]}-parts", "s", OPTIONS)
        assert isinstance(both, MultiTopicConsumer)
        assert len(both.topics) == 2
        await parts.send(b"two")
        assert (await both.receive(10)).data == b"two"
        assert dialled.addresses == {proxy.url}
        assert proxy.carried_to


async def test_a_redirected_client_goes_through_the_proxy(broker: Broker, topic: str) -> None:
    """By an unload, and by a broker that names the next one."""
    url, *_ = broker.pulsar_url.split(",")
    dialled = Dialled()
    async with proxy_of(url) as proxy, connect(proxy.url, options_of(dialled)) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s", OPTIONS)
        assert isinstance(producer, Producer)
        assert isinstance(consumer, Consumer)
        async with administer(broker.http_url) as admin:
            await admin.unload(topic)
        await producer.send(b"unloaded")
        assert (await consumer.receive(20)).data == b"unloaded"
        place = await client._context.lookup.broker_of(producer._topic)
        attachments = producer._attachment, consumer._attachment
        for connection in {each.connection for each in attachments}:
            assert connection is not None
            connection.close(Disconnected("the broker says who has the topic now"))
        for each in attachments:
            each.lost(str(place.address))
        await producer.send(b"moved")
        found = await consumer.receive(20)
        while found.data == b"unloaded":  # it was not acknowledged
            found = await consumer.receive(20)
        assert found.data == b"moved"
        assert dialled.addresses == {proxy.url}
        assert set(proxy.carried_to) == {f"{place.address.host}:{place.address.port}"}
