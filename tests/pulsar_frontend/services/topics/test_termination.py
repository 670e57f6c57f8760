"""Terminated topics: nothing is added, and consumers that have read everything are told."""

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, connected

from arneb_core.api.topics.topic import Topic
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseProducer,
    CommandGetLastMessageId,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
)

pytestmark = pytest.mark.real_time


JAVA = "Pulsar-Java-v4.0.7"
"""Others are not told of the end of a topic."""


def topic_of(running: Running, local: str = "t") -> Topic:
    return running.core.topics[f"persistent://public/default/{local}"]


async def publish(client: RawClient, *payloads: bytes, first: int = 0) -> None:
    await client.publish(*payloads, first=first)
    for _ in payloads:
        await client.expect(CommandSendReceipt)


async def test_a_terminated_topic_ends(open_broker: OpenBroker) -> None:
    async with (
        open_broker() as running,
        connected(running.context, 2, name=JAVA) as (client, reader),
    ):
        admin = Admin(running)
        await reader.subscribe("t", initialPosition=CommandSubscribe.Earliest)
        await client.producer("t")
        await publish(client, b"a", b"b")
        last = {
            "ledgerId": 1,
            "entryId": 1,
            "partitionIndex": -1,
            "batchIndex": -1,
            "batchSize": 0,
        }
        assert await admin("POST", "/t/terminate") == (200, last)
        await client.expect(CommandCloseProducer)
        assert (await client.producer("t", 2)).error == pb.TopicTerminatedError
        await reader.flow(10)
        ids = [command.message_id for command, _ in await reader.take(2)]
        await reader.acknowledge(ids[0])
        assert await reader.silent()
        await reader.acknowledge(ids[1])
        await reader.expect(CommandReachedEndOfTopic)
    async with open_broker() as running, connected(running.context, name=JAVA) as (client,):
        assert (await client.producer("t")).error == pb.TopicTerminatedError
        assert isinstance(await client.subscribe("t"), CommandSuccess)
        await client.expect(CommandReachedEndOfTopic)
        await client.send(CommandGetLastMessageId(consumer_id=1, request_id=5))
        assert (await client.reply())[0].last_message_id.entryId == 1
        await Admin(running)("DELETE", "/t", force="true")
        await client.reply()
        assert isinstance(await client.producer("t", 3), CommandProducerSuccess)


async def test_nothing_is_added_while_the_end_becomes_durable(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t")
        await publish(client, b"a")
        running.context.namespaces.ended.add(topic_of(running).id)
        await client.publish(b"b", first=1)
        await client.expect(CommandCloseProducer)
        assert await client.silent()
        assert (await client.producer("t", 2)).error == pb.TopicTerminatedError
        running.context.namespaces.ended.clear()
        running.store.fail_until_healed()
        assert (await Admin(running)("POST", "/t/terminate"))[0] == 500
        running.store.heal()
        assert isinstance(await client.producer("t", 3), CommandProducerSuccess)
        await client.publish(b"c", producer_id=3, first=2)
        await client.expect(CommandSendReceipt)


async def test_partitions_end_together(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/p/partitions", 2)
        assert (await admin("POST", "/p/terminate"))[0] == 405
        status, ended = await admin("POST", "/p/terminate/partitions")
        assert (status, set(ended)) == (200, {"0", "1"})
        assert (await client.producer("p-partition-1")).error == pb.TopicTerminatedError


async def test_another_topic_of_the_same_name_is_not_terminated(open_broker: OpenBroker) -> None:
    name = "persistent://public/default/t"
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t")
        await admin("POST", "/t/messageTTL", 7)
        await admin("POST", "/t/terminate")
        await running.core.delete_topic(name)  # another context does that
        await running.core.create_topic(name)
        assert isinstance(await client.producer("t"), CommandProducerSuccess)
        await running.core.delete_topic(name)
    async with open_broker() as running:
        await running.core.create_topic(name)
        assert await Admin(running)("GET", "/t/messageTTL") == (200, b"")
