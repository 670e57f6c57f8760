"""The client of the admin API, and what becomes of a client whose topic is dealt with."""

import anyio
import pytest
from tests.pulsar_client.conftest import CHECK_INTERVAL_S, Broker

from arneb_pulsar.client import ConsumerOptions, InitialPosition, SubscriptionType, connect
from arneb_pulsar.client.admin import CompactionState, administer
from arneb_pulsar.client.codec.schemas.schema import StringSchema
from arneb_pulsar.client.connecting import wall_ms
from arneb_pulsar.client.errors import AdminError, TopicTerminated
from arneb_pulsar.names import parse_topic

OPTIONS = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)


@pytest.mark.in_peace("looks at what a topic has at the moment")
async def test_a_topic_is_made_looked_at_and_removed(broker: Broker, topic: str) -> None:
    async with administer(broker.http_url) as admin, connect(broker.pulsar_url) as client:
        assert await admin.health()
        await admin.create_topic(topic, 2)
        assert await admin.partitions(topic) == 2
        await admin.add_partitions(topic, 3)
        assert set(await client.partitions_of(topic)) <= set(await admin.topics("public/default"))
        part = f"{topic}-partition-0"
        await admin.create_subscription(part, "s", at="earliest")
        assert "s" in await admin.subscriptions(part)
        producer = await client.create_producer(part, schema=StringSchema())
        await producer.send("x")
        found = (await admin.statistics(part)).subscriptions["s"]
        assert found.messages_backlog == 1
        assert (await admin.schema(topic)).type == StringSchema.info.type
        assert (await admin.lookup(part)).startswith("pulsar://")
        await admin.skip_all(part, "s")
        assert (await admin.statistics(part)).subscriptions["s"].messages_backlog == 0
        await producer.close()
        await admin.delete_topic(topic, force=True)
        with pytest.raises(AdminError) as raised:
            await admin.statistics(part)
        assert raised.value.status == 404


@pytest.mark.in_peace("unloads by itself")
async def test_clients_come_back_to_a_topic_that_was_unloaded(broker: Broker, topic: str) -> None:
    async with administer(broker.http_url) as admin, connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", OPTIONS)
        producer = await client.create_producer(topic)
        for number in range(3):
            await producer.send(b"%d" % number)
            await admin.unload(topic)
            message = await consumer.receive(20)
            while int(message.data) < number:  # it came again before its acknowledgement was told
                message = await consumer.receive(20)
            assert message.data == b"%d" % number
            await consumer.acknowledge_stored(message)


@pytest.mark.in_peace("asks for a topic's end once")
async def test_a_terminated_topic_takes_no_more(broker: Broker, topic: str) -> None:
    async with administer(broker.http_url) as admin, connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        sent = await producer.send(b"last")
        assert (await admin.terminate(topic)).entry == sent.entry
        with pytest.raises(TopicTerminated, match=parse_topic(topic).local):
            await producer.send(b"more")


@pytest.mark.in_peace("looks at what a topic has at the moment")
async def test_a_namespace_has_policies_topics_subscriptions_and_schemas_that_go_again(
    broker: Broker, topic: str
) -> None:
    namespace = f"public/{parse_topic(topic).local}"
    name = f"persistent://{namespace}/orders"
    async with administer(broker.http_url) as admin, connect(broker.pulsar_url) as client:
        await admin.create_namespace(namespace)
        assert namespace in await admin.namespaces("public")
        await admin.set_policy(namespace, "messageTTL", 3_600)
        assert (await admin.policies(namespace))["message_ttl_in_seconds"] == 3_600
        producer = await client.create_producer(name, schema=StringSchema())
        consumer = await client.subscribe(name, "s", OPTIONS, schema=StringSchema())
        before_ms = wall_ms()
        sent = await producer.send("one")
        assert (await consumer.receive(20)).value == "one"
        found = await admin.statistics(name)
        assert (found.messages_in_total, found.producers) == (1, 1)
        assert found.bytes_in_total > 0
        assert found.storage_bytes > 0
        assert found.subscriptions["s"].consumers == 1
        assert found.subscriptions["s"].messages_unacked == 1
        await consumer.close()
        await admin.skip_all(name, "s")
        await admin.reset(name, "s", before_ms)
        async with await client.subscribe(name, "s", OPTIONS) as again:
            assert (await again.receive(20)).id == sent
        await admin.compact(name)
        for _ in range(200):
            if await admin.compaction(name) is not CompactionState.RUNNING:
                break
            await anyio.sleep(CHECK_INTERVAL_S)
        assert await admin.compaction(name) is CompactionState.SUCCESS
        await admin.delete_subscription(name, "s")
        assert "s" not in await admin.subscriptions(name)
        await producer.close()
        await admin.delete_schema(name)
        with pytest.raises(AdminError):
            await admin.schema(name)
        with pytest.raises(AdminError):
            await admin.delete_namespace(namespace)
        await admin.delete_topic(name, force=True)
        await admin.delete_namespace(namespace)
        assert namespace not in await admin.namespaces("public")
