"""What is checked from time to time: idle topics are removed."""

from collections.abc import Container

import pytest
import trio
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import WITHIN_S, connected

from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.topics.settings import WITHOUT_END, Retention
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.namespaces.defaults import DefaultPolicies
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.limits.rates import expired_of
from arneb_pulsar.services.operations.policy_enforcer import PolicyEnforcer
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandMessage, CommandSendReceipt

pytestmark = pytest.mark.real_time


KEPT = Retention(WITHOUT_END, WITHOUT_END)
NAMESPACE = "/admin/v2/namespaces/public/default"


def topic_of(running: Running, local: str = "t") -> Topic:
    return running.core.topics[f"persistent://public/default/{local}"]


async def store_one(running: Running, name: str) -> None:
    """Store a message, and leave no producer."""
    async with connected(running.context) as (client,):
        await client.producer(name)
        await client.publish(b"x")
        await client.expect(CommandSendReceipt)


async def test_idle_topics_go(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin, policy_enforcer = Admin(running), running.policy_enforcer
        value = {"retentionTimeInMinutes": 2, "retentionSizeInMB": -1}
        for name in ("idle", "kept", "empty", "read", "written", "adopted"):
            await admin("PUT", f"/{name}")
            await admin("POST", f"/{name}/retention", value if name in ("kept", "empty") else None)
        # An AMQP client named it, so it is a queue, which never goes by itself.
        await topic_of(running, "adopted").subscribe("amqp")
        await running.core.create_topic("persistent://public/default/queue")
        await admin("PUT", "/read/subscription/s")
        await client.producer("written")
        await store_one(running, "kept")

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
        caught_up = {
            "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
            "maxInactiveDurationSeconds": 60,
            "deleteWhileInactive": True,
        }
        await admin("POST", f"{NAMESPACE}/inactiveTopicPolicies", caught_up)
        await policy_enforcer.check_idle(200)
        await policy_enforcer.check_idle(260)
        assert names() == {"written", "queue", "adopted"}


async def test_what_a_consumer_holds_for_longer_than_it_lives_is_kept_no_longer(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin, check = Admin(running), running.policy_enforcer.check_expiry

        async def publish(sequence: int) -> None:
            await client.publish(b"x", first=sequence)
            kinds = {type((await client.reply())[0]) for _ in range(2)}
            assert kinds == {CommandSendReceipt, CommandMessage}

        await client.producer("t")
        topic = topic_of(running)
        await topic.subscribe("amqp")
        await client.subscribe("t")
        await client.flow(10)
        await publish(0)
        consumer = topic.subscriptions["s"]
        over_an_hour_ms = 3_600_001
        await check(wall_clock_ms() + over_an_hour_ms)
        assert consumer.lengths == (0, 1)
        await admin("POST", f"{NAMESPACE}/messageTTL", 3600)
        await check(wall_clock_ms())
        assert consumer.lengths == (0, 1)
        await check(wall_clock_ms() + over_an_hour_ms)
        assert consumer.mark_delete == topic.last
        assert consumer.lengths == (0, 0)
        assert topic.subscriptions["amqp"].lengths == (1, 0)
        assert (expired_of(topic, consumer), expired_of(topic, topic.subscriptions["amqp"])) == (
            1,
            0,
        )
        await publish(1)
        assert consumer.lengths == (0, 1)


async def test_a_policy_by_which_messages_live_shorter_holds_at_once_for_what_is_held(
    open_broker: OpenBroker,
) -> None:
    on_ms = 0
    async with (
        open_broker(clock=Clock(wall_ms=lambda: wall_clock_ms() + on_ms)) as running,
        connected(running.context) as (client,),
    ):
        admin, looks = Admin(running), 0

        async def look(now_ms: int, only: Container[int] | None = None) -> None:
            nonlocal looks
            await PolicyEnforcer.check_expiry(running.policy_enforcer, now_ms, only)
            looks += 1

        await client.producer("t")
        await client.subscribe("t")
        await client.flow(10)
        await client.publish(b"x")
        await client.reply()
        on_ms = 60_000
        consumer = topic_of(running).subscriptions["s"]
        async with trio.open_nursery() as nursery:
            running.policy_enforcer.check_expiry = look  # type: ignore[method-assign]
            nursery.start_soon(running.policy_enforcer.expire_where_shortened)
            for place, seconds, seen in ((NAMESPACE, 3600, 1), ("/t", 1800, 2), ("/t", 3600, 2)):
                await admin("POST", f"{place}/messageTTL", seconds)
                with trio.fail_after(WITHIN_S):
                    while looks < seen:
                        await trio.lowlevel.checkpoint()
                assert consumer.lengths == (0, 1)
            await admin("POST", "/t/messageTTL", 30)
            with trio.fail_after(WITHIN_S):
                while looks < 3:
                    await trio.lowlevel.checkpoint()
            assert (consumer.lengths, looks) == ((0, 0), 3)
            nursery.cancel_scope.cancel()


async def test_topics_keep_what_the_broker_says_since_its_start(open_broker: OpenBroker) -> None:
    def kept(running: Running) -> dict[str, int]:
        return {
            local: topic_of(running, local).retention.ms // 60_000
            for local in ("t", "own", "queue")
        }

    async with open_broker() as running:
        admin = Admin(running)
        for name in ("t", "own"):
            await admin("PUT", f"/{name}")
        await running.core.create_topic("persistent://public/default/queue")
        value = {"retentionTimeInMinutes": 2, "retentionSizeInMB": -1}
        await admin("POST", "/own/retention", value)
        assert kept(running) == {"t": 0, "own": 2, "queue": 0}
    for minutes in (7, 0):
        size = -1 if minutes else 0
        defaults = DefaultPolicies(retention_min=minutes, retention_mb=size)
        async with open_broker(defaults=defaults) as running:
            await running.policy_enforcer.keep_as_configured()
            assert kept(running) == {"t": minutes, "own": 2, "queue": 0}


async def test_what_the_broker_keeps_of_every_topic_keeps_idle_topics_too(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        admin, policy_enforcer = Admin(running), running.policy_enforcer
        for retention, stays_s in ((Retention(120_000, WITHOUT_END), 119), (KEPT, 1_000_000)):
            running.core.retention = retention
            await admin("PUT", "/idle")
            await store_one(running, "idle")
            await policy_enforcer.check_idle(0)
            await policy_enforcer.check_idle(stays_s)
            assert "persistent://public/default/idle" in running.core.topics
        running.core.retention = Retention()
        await policy_enforcer.check_idle(stays_s)
        assert "persistent://public/default/idle" not in running.core.topics


@pytest.mark.parametrize("goes", [True, False])
async def test_a_partitioned_topic_goes_with_its_last_partition_if_configured(
    open_broker: OpenBroker, goes: bool
) -> None:
    async with open_broker(delete_inactive_partitioned_topics=goes) as running:
        admin, policy_enforcer = Admin(running), running.policy_enforcer
        await admin("PUT", "/p/partitions", 2)
        await admin("PUT", "/p-partition-1/subscription/s")
        for now in (0, 60):
            await policy_enforcer.check_idle(now)
        whole = ["persistent://public/default/p"]
        assert list(running.core.topics) == ["persistent://public/default/p-partition-1"]
        assert await admin("GET", "/partitioned") == (200, whole)
        await admin("DELETE", "/p-partition-1/subscription/s")
        for now in (100, 160):
            await policy_enforcer.check_idle(now)
        assert not running.core.topics
        assert await admin("GET", "/partitioned") == (200, [] if goes else whole)
