"""Topics that go while somebody comes to them: nothing that was confirmed goes with them."""

import pytest
import trio
import trio.testing
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import connected

from arneb_core.api.core import Unit
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import parse_topic
from arneb_pulsar.schemas.schema import Schema, SchemaType
from arneb_pulsar.services.operations.topic_lifecycle import drop
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseProducer,
    CommandError,
    CommandProducerSuccess,
    CommandSendReceipt,
    CommandUnsubscribe,
)

pytestmark = pytest.mark.real_time


def name_of(local: str) -> str:
    return f"persistent://public/default/{local}"


def topic_of(running: Running, local: str = "t") -> Topic:
    return running.core.topics[name_of(local)]


async def occupy(topic: Topic, nursery: trio.Nursery) -> None:
    """Have a change of the topic be under way, so that others wait for their turn."""
    nursery.start_soon(topic.retain, 1, 1)
    await trio.testing.wait_all_tasks_blocked()


async def test_a_topic_that_is_used_again_while_its_removal_waits_stays(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await Admin(running)("PUT", "/t")
        topic, policy_enforcer = topic_of(running), running.policy_enforcer
        await policy_enforcer.check_idle(0)
        running.store.hold()
        async with trio.open_nursery() as nursery:
            await occupy(topic, nursery)
            nursery.start_soon(policy_enforcer.check_idle, 60)
            await trio.testing.wait_all_tasks_blocked()
            assert isinstance(await client.producer("t"), CommandProducerSuccess)
            await client.publish(b"a")
            await trio.testing.wait_all_tasks_blocked()
            running.store.release()
        receipt = await client.expect(CommandSendReceipt)
        assert (receipt.message_id.ledgerId, receipt.message_id.entryId) == (1, 0)
        assert topic_of(running) is topic and topic.messages == 1


async def test_another_topic_of_an_idle_ones_name_stays(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        await Admin(running)("PUT", "/t")
        topic, policy_enforcer = topic_of(running), running.policy_enforcer
        await policy_enforcer.check_idle(0)
        running.store.hold()
        async with trio.open_nursery() as nursery:
            await occupy(topic, nursery)
            nursery.start_soon(running.core.delete_topic, topic.name)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(running.core.create_topic, topic.name)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(policy_enforcer.check_idle, 60)
            await trio.testing.wait_all_tasks_blocked()
            running.store.release()
        assert topic_of(running) is not topic


async def test_clients_of_a_topic_that_is_being_removed_reconnect(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await Admin(running)("PUT", "/t")
        running.store.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.core.delete_topic, name_of("t"))
            await trio.testing.wait_all_tasks_blocked()
            refused = await client.producer("t")
            assert isinstance(refused, CommandError) and refused.error == pb.ServiceNotReady
            running.store.release()
        assert isinstance(await client.producer("t"), CommandProducerSuccess)
        await client.publish(b"a")
        await client.expect(CommandSendReceipt)
        assert topic_of(running).messages == 1


@pytest.mark.parametrize("deduplicated", [False, True])
async def test_what_is_sent_to_a_topic_that_is_going_is_never_confirmed(
    open_broker: OpenBroker, *, deduplicated: bool
) -> None:
    """In the commit of the deletion itself, and behind it; its client sends it again."""
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t")
        if deduplicated:
            await admin("POST", "/t/deduplicationEnabled", True)
        await client.producer("t")
        running.store.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.core.committed, Unit(metadata=[("under way", b"")]))
            await trio.testing.wait_all_tasks_blocked()
            await client.publish(b"a")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(running.core.delete_topic, name_of("t"))
            await trio.testing.wait_all_tasks_blocked()
            await client.publish(b"b", first=1)
            await trio.testing.wait_all_tasks_blocked()
            running.store.release()
        await client.expect(CommandCloseProducer)
        assert await client.silent(), "no receipt"
        assert isinstance(await client.producer("t"), CommandProducerSuccess)
        await client.publish(b"a", b"b")
        for _ in range(2):
            await client.expect(CommandSendReceipt)
        assert topic_of(running).messages == 2


async def test_a_topic_is_looked_at_when_it_goes_not_when_that_was_asked_for(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t")
        running.store.hold()
        answers: list[object] = []

        async def delete() -> None:
            answers.append((await admin("DELETE", "/t"))[0])

        async with trio.open_nursery() as nursery:
            await occupy(topic_of(running), nursery)
            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked()
            assert isinstance(await client.producer("t"), CommandProducerSuccess)
            running.store.release()
        assert answers == [412]
        assert (await admin("DELETE", "/t", force="true"))[0] == 204


async def test_a_schema_goes_with_its_topic_and_not_with_the_next_one(
    open_broker: OpenBroker,
) -> None:
    """It goes in the same commit: a topic that is recreated has its own."""
    name, schema = parse_topic(name_of("t")), Schema(SchemaType.STRING)
    async with open_broker() as running:
        await Admin(running)("PUT", "/t")
        await running.context.schemas.attach(name, schema)
        running.store.fail_next()
        with pytest.raises(Exception, match="told to fail"):
            await drop(running.context, name)
        assert running.context.schemas.find(name) is not None, "the topic is still there"
        commits = running.store.commits_total
        await drop(running.context, name)
        assert running.store.commits_total == commits + 1
        assert running.context.schemas.find(name) is None
    async with open_broker() as running:
        assert running.context.schemas.find(name) is None


async def test_a_consumer_that_came_meanwhile_is_not_put_out_by_an_unsubscribe(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (first, second):
        await first.subscribe("t")
        running.store.hold()
        async with trio.open_nursery() as nursery:
            await occupy(topic_of(running), nursery)
            nursery.start_soon(second.subscribe, "t")
            await trio.testing.wait_all_tasks_blocked()
            await first.send(CommandUnsubscribe(consumer_id=1, request_id=9))
            await trio.testing.wait_all_tasks_blocked()
            running.store.release()
        refused = await first.expect(CommandError)
        assert refused.error == pb.MetadataError
        assert len(topic_of(running).subscriptions["s"].consumers) == 2


async def test_no_partition_comes_back_while_its_topic_goes(open_broker: OpenBroker) -> None:
    """Its clients ask for it as soon as they are told that it has gone."""
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t/partitions", 2)
        answers: list[object] = []

        async def delete() -> None:
            answers.append((await admin("DELETE", "/t/partitions", force="true"))[0])

        running.store.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked()
            changes: list[tuple[str, bool]] = []

            def watch(name: str, came: bool) -> None:
                running.store.hold()  # so that the rest is still to be removed
                changes.append((name, came))

            running.core.watch_topics(watch)
            running.store.release()
            while not changes:
                await trio.lowlevel.checkpoint()
            gone, came = changes[0]
            assert gone.startswith(name_of("t-partition-")) and not came
            answer = await client.producer(gone.rpartition("/")[2])
            assert isinstance(answer, CommandError) and answer.error == pb.TopicNotFound
            running.store.release()
        assert answers == [204] and not running.core.topics
