"""What policies say becomes true: how long messages live and stay, how many there may be, which
topics go, and which end."""

from typing import Any

import pytest
import trio
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.client import RawClient, connected
from tests.pulsar_frontend.conftest import OpenBroker, Running

from arneb_core.api.clock import wall_clock_ms
from arneb_core.api.topics import Topic
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseProducer,
    CommandGetLastMessageId,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
)

pytestmark = pytest.mark.real_time

JAVA = "Pulsar-Java-v4.0.7"
"""Others are not told of the end of a topic."""

NAMESPACE = "/admin/v2/namespaces/public/default"


def topic_of(running: Running, local: str = "t") -> Topic:
    return running.core.topics[f"persistent://public/default/{local}"]


def backlog(running: Running, subscription: str = "s") -> int:
    return topic_of(running).subscriptions[subscription].statistics().backlog_entries


async def publish(client: RawClient, *payloads: bytes, first: int = 0) -> None:
    await client.publish(*payloads, first=first)
    for _ in payloads:
        await client.expect(CommandSendReceipt)


async def test_policies_are_set_asked_for_and_taken_back(open_broker: OpenBroker) -> None:
    values: dict[str, tuple[str, Any]] = {
        "retention": ("POST", {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}),
        "messageTTL": ("POST", 30),
        "compactionThreshold": ("PUT", 100),
        "deduplication": ("POST", True),
        "schemaCompatibilityStrategy": ("PUT", "FORWARD"),
        "autoSubscriptionCreation": ("POST", {"allowAutoSubscriptionCreation": False}),
        "autoTopicCreation": (
            "POST",
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2},
        ),
        "inactiveTopicPolicies": (
            "POST",
            {
                "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
                "maxInactiveDurationSeconds": 5,
                "deleteWhileInactive": True,
            },
        ),
        "publishRate": (
            "POST",
            {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1},
        ),
        "properties": ("PUT", {"a": "b"}),
    }
    async with open_broker() as running:
        admin = Admin(running)
        for name, (method, value) in values.items():
            assert await admin(method, f"{NAMESPACE}/{name}", value) == (204, b"")
            status, document = await admin(method, f"{NAMESPACE}/{name}", ["wrong"])
            expected = 400 if name in ("retention", "publishRate") else 412
            assert (status, bool(document["reason"])) == (expected, True)
    async with open_broker() as running:
        admin = Admin(running)
        for name, (_, value) in values.items():
            assert await admin("GET", f"{NAMESPACE}/{name}") == (200, value)
            assert (await admin("DELETE", f"{NAMESPACE}/{name}"))[0] == 204
        assert await admin("GET", f"{NAMESPACE}/retention") == (200, b"")
        assert await admin("GET", f"{NAMESPACE}/schemaCompatibilityStrategy") == (200, "UNDEFINED")
        assert (await admin("GET", "/t/retention"))[0] == 404
        await admin("PUT", "/t")
        await admin("POST", f"{NAMESPACE}/messageTTL", 30)
        assert await admin("GET", "/t/messageTTL") == (200, b"")
        assert await admin("GET", "/t/messageTTL", applied="true") == (200, 30)
        assert (await admin("POST", "/t/messageTTL", messageTTL="7"))[0] == 204
        assert await admin("GET", "/t/messageTTL", applied="true") == (200, 7)


async def test_permissions_are_kept_by_role(open_broker: OpenBroker) -> None:
    """Nobody asks for them: there is no authorization."""
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        for place in (NAMESPACE, "/t"):
            assert await admin("GET", f"{place}/permissions") == (200, {})
            made = await admin("POST", f"{place}/permissions/anonymous", ["produce", "consume"])
            assert made == (204, b"")
            assert (await admin("POST", f"{place}/permissions/b", ["consume"]))[0] == 204
            assert (await admin("POST", f"{place}/permissions/b", ["fly"]))[0] == 400
            assert (await admin("POST", f"{place}/permissions/b", "consume"))[0] == 400
            assert (await admin("DELETE", f"{place}/permissions/b"))[0] == 204
    async with open_broker() as running:
        for place in (NAMESPACE, "/t"):
            found = await Admin(running)("GET", f"{place}/permissions")
            assert found == (200, {"anonymous": ["produce", "consume"]})


async def test_messages_live_as_long_as_the_nearest_policy_says(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t/subscription/s")
        topic = topic_of(running)
        limits = lambda name: topic.subscriptions[name].machine.state.limits.message_ttl_ms  # type: ignore[attr-defined]  # noqa: E731
        assert limits("s") is None
        await admin("POST", f"{NAMESPACE}/messageTTL", 9)
        assert limits("s") == 9000
        await admin("POST", "/t/messageTTL", 5)
        assert limits("s") == 5000
        await client.subscribe("t", subscription="late")
        assert limits("late") == 5000
        await topic.subscribe("amqp")
        await admin("POST", "/t/messageTTL", 6)
        assert limits("amqp") is None
    async with open_broker() as running:
        topic = topic_of(running)
        assert limits("s") == 6000
        admin = Admin(running)
        await admin("DELETE", "/t/messageTTL")
        assert limits("s") == 9000
        await admin("DELETE", f"{NAMESPACE}/messageTTL")
        assert limits("s") is None


async def test_retention_is_kept_by_the_core(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        value = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5}
        await admin("POST", f"{NAMESPACE}/retention", value)
        await admin("PUT", "/later")
        await admin("POST", "/t/retention", value | {"retentionSizeInMB": -1})
    async with open_broker() as running:
        later, topic = topic_of(running, "later"), topic_of(running)
        assert (later.retention.ms, later.retention.bytes) == (600_000, 5 << 20)  # type: ignore[attr-defined]
        assert (topic.retention.ms, topic.retention.bytes) == (600_000, -1)  # type: ignore[attr-defined]
        await Admin(running)("DELETE", "/t/retention")
        assert topic.retention.bytes == 5 << 20  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("producer_request_hold", pb.ProducerBlockedQuotaExceededError),
        ("producer_exception", pb.ProducerBlockedQuotaExceededException),
    ],
)
@pytest.mark.parametrize("kind", ["destination_storage", "message_age"])
async def test_producers_wait_while_the_backlog_is_too_large(
    open_broker: OpenBroker, action: str, code: int, kind: str
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        quota = {"limitSize": 300, "limitTime": 60, "policy": action}
        await admin("POST", f"{NAMESPACE}/backlogQuota", quota, backlogQuotaType=kind)
        await admin("PUT", "/t/subscription/s")
        await client.producer("t")
        await publish(client, b"x")
        await running.policy_enforcer.check_quotas(wall_clock_ms())
        assert await client.silent()
        later_ms = wall_clock_ms() + (61_000 if kind == "message_age" else 0)
        await publish(client, b"x" * 300, first=1)
        await running.policy_enforcer.check_quotas(later_ms)
        await client.expect(CommandCloseProducer)
        if kind == "destination_storage":
            assert (await client.producer("t", 2)).error == code
        await admin("POST", "/t/subscription/s/skip_all")
        assert isinstance(await client.producer("t", 3), CommandProducerSuccess)
        await running.policy_enforcer.check_quotas(later_ms)
        assert await client.silent()


@pytest.mark.parametrize("kind", ["destination_storage", "message_age"])
async def test_what_is_too_much_is_evicted(open_broker: OpenBroker, kind: str) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.producer("t")
        topic = topic_of(running)
        await topic.subscribe("amqp")
        await admin("PUT", "/t/subscription/s")
        quota = {"limitTime": 60, "policy": "consumer_backlog_eviction"}
        quota["limitSize"] = 1000 if kind == "destination_storage" else -1
        await admin("POST", "/t/backlogQuota", quota, backlogQuotaType=kind)
        await publish(client, *(b"x" * 30 for _ in range(20)))
        await running.policy_enforcer.check_quotas(wall_clock_ms() + 61_000)
        subscription = topic.subscriptions["s"]
        if kind == "message_age":
            assert backlog(running) == 0
        else:
            assert 0 < subscription.backlog_bytes <= 900
            assert backlog(running) > 5
        assert backlog(running, "amqp") == 20
        assert await client.silent()


async def test_idle_topics_go(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin, policy_enforcer = Admin(running), running.policy_enforcer
        for name in ("idle", "kept", "read", "written", "adopted"):
            await admin("PUT", f"/{name}")
        # An AMQP client named it, so it is a queue, which never goes by itself.
        await topic_of(running, "adopted").subscribe("amqp")
        await running.core.create_topic("persistent://public/default/queue")
        await admin("PUT", "/read/subscription/s")
        await client.producer("written")
        value = {"retentionTimeInMinutes": 2, "retentionSizeInMB": -1}
        await admin("POST", "/kept/retention", value)

        def names() -> set[str]:
            return {name.rpartition("/")[2] for name in running.core.topics}

        await policy_enforcer.check_idle(0)
        await policy_enforcer.check_idle(59)
        assert "idle" in names()
        await policy_enforcer.check_idle(60)
        assert names() == {"kept", "read", "written", "queue", "adopted"}
        await policy_enforcer.check_idle(119)
        assert "kept" in names()
        await policy_enforcer.check_idle(120)
        assert names() == {"read", "written", "queue", "adopted"}
        caught_up = {"inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up"}
        await admin("POST", f"{NAMESPACE}/inactiveTopicPolicies", caught_up)
        await policy_enforcer.check_idle(200)
        await policy_enforcer.check_idle(260)
        assert names() == {"written", "queue", "adopted"}


async def test_a_terminated_topic_ends(open_broker: OpenBroker) -> None:
    async with (
        open_broker() as running,
        connected(running.context, 2, name=JAVA) as (client, reader),
    ):
        admin = Admin(running)
        await reader.subscribe("t", initialPosition=CommandSubscribe.Earliest)
        await client.producer("t")
        await publish(client, b"a", b"b")
        last = {"ledgerId": 1, "entryId": 1, "partitionIndex": -1}
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
        assert (await client.expect(CommandSendError)).error == pb.TopicTerminatedError
        running.context.namespaces.ended.clear()
        running.store.fail_until_healed()
        assert (await Admin(running)("POST", "/t/terminate"))[0] == 500
        running.store.heal()
        await publish(client, b"c", first=2)


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


async def test_policies_set_at_the_same_time_are_all_set(open_broker: OpenBroker) -> None:
    async with open_broker() as running, trio.open_nursery() as nursery:
        admin = Admin(running)
        await admin("PUT", "/t")
        calls = [
            ("/t/messageTTL", 5),
            ("/t/compactionThreshold", 6),
            ("/t/deduplicationEnabled", False),
            (f"{NAMESPACE}/messageTTL", 7),
            (f"{NAMESPACE}/deduplication", False),
        ]
        done: list[int] = []

        async def call(path: str, value: object) -> None:
            done.append((await admin("POST", path, value))[0])

        for path, value in calls:
            nursery.start_soon(call, path, value)
        nursery.start_soon(call, "/t/terminate", None)
        while len(done) < 6:
            await trio.lowlevel.checkpoint()
        for path, value in calls:
            assert await admin("GET", path) == (200, value)
        assert topic_of(running).id in running.context.namespaces.ended
        assert running.context.namespaces.record("persistent://public/default/t").terminated
