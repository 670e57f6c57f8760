"""Backlogs over their quota: producers wait, or subscriptions skip what is too much."""

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, connected

from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseProducer,
    CommandProducerSuccess,
    CommandSendReceipt,
)

pytestmark = pytest.mark.real_time


NAMESPACE = "/admin/v2/namespaces/public/default"


def topic_of(running: Running, local: str = "t") -> Topic:
    return running.core.topics[f"persistent://public/default/{local}"]


def backlog(running: Running, subscription: str = "s") -> int:
    return topic_of(running).subscriptions[subscription].statistics().backlog_entries


async def publish(client: RawClient, *payloads: bytes, first: int = 0) -> None:
    await client.publish(*payloads, first=first)
    for _ in payloads:
        await client.expect(CommandSendReceipt)


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
