"""Limits of namespaces and topics, over a real core: what exceeds them is refused."""

from typing import Any

import pytest
import trio
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

NAMESPACE = "/admin/v2/namespaces/public/default"


async def refused(answer: Any) -> int:
    assert isinstance(answer, pb.CommandError), f"expected a refusal, got {answer}"
    return answer.error


@pytest.mark.parametrize("where", ["/t/maxProducers", f"{NAMESPACE}/maxProducersPerTopic"])
async def test_one_producer_too_many(open_broker: OpenBroker, where: str) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t", 1)
        assert await Admin(running)("POST", where, 1) == (204, b"")
        assert await refused(await client.producer("t", 2)) == pb.ProducerBusy
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t", 1)
        assert await refused(await client.producer("t", 2)) == pb.ProducerBusy, "after a restart"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/t/maxConsumers", pb.ConsumerBusy),
        ("/t/maxConsumersPerSubscription", pb.ConsumerBusy),
        (f"{NAMESPACE}/maxConsumersPerTopic", pb.ConsumerBusy),
    ],
)
async def test_one_consumer_too_many(open_broker: OpenBroker, path: str, code: int) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe("t", 1)
        await Admin(running)("POST", path, 1)
        assert await refused(await client.subscribe("t", 2)) == code


async def test_a_system_topic_has_no_such_limits(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin, topic = Admin(running), "__change_events"
        for limit in ("maxProducersPerTopic", "maxConsumersPerTopic", "maxSubscriptionsPerTopic"):
            assert await admin("POST", f"{NAMESPACE}/{limit}", 1) == (204, b"")
        for number in (1, 2):
            made = await client.producer(topic, number)
            assert isinstance(made, pb.CommandProducerSuccess)
            made = await client.subscribe(topic, number, subscription=f"s{number}")
            assert isinstance(made, pb.CommandSuccess)


async def test_the_setting_holds_where_no_policy_says_otherwise(open_broker: OpenBroker) -> None:
    async with (
        open_broker(max_consumers_per_topic=1, max_topics_per_namespace=2) as running,
        connected(running.context) as (client,),
    ):
        admin = Admin(running)
        await client.subscribe("t", 1)
        assert await refused(await client.subscribe("t", 2)) == pb.ConsumerBusy
        assert await admin("GET", "/t/maxConsumers", applied="true") == (200, 1)
        await admin("POST", "/t/maxConsumers", 0)
        assert isinstance(await client.subscribe("t", 2), pb.CommandSuccess)
        assert (await admin("PUT", "/u"))[0] == 204
        assert (await admin("PUT", "/v"))[0] == 409
        assert (await admin("PUT", "/p/partitions", 1))[0] == 412


async def test_of_many_topics_at_once_no_more_are_made_than_may_be(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(max_topics_per_namespace=3) as running, trio.open_nursery() as nursery:
        admin = Admin(running)
        for number in range(10):
            nursery.start_soon(admin, "PUT", f"/t{number}")
        while running.context.topics._coming["public/default"] or not running.core.topics:
            await trio.lowlevel.checkpoint()
        nursery.start_soon(admin, "PUT", "/last")
    # All of them are answered now.
    assert len(running.core.topics) == 3


async def publish(client: RawClient, number: int, payload: bytes, **fields: Any) -> bytes:
    command = pb.CommandSend(producer_id=1, sequence_id=number)
    return received(command, body=body_of(payload, sequence_id=number, **fields)).data


async def test_of_a_run_only_what_is_too_large_is_refused(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t", 1)
        await Admin(running)("POST", "/t/maxMessageSize", 200)
        sizes = [10, 500, 20, 30, 500, 500, 40]
        run = [await publish(client, index, bytes(size)) for index, size in enumerate(sizes)]
        await client.stream.send_all(b"".join(run))
        answers = [(await client.reply())[0] for _ in sizes]
        assert [each.sequence_id for each in answers] == list(range(len(sizes)))
        good = [isinstance(each, pb.CommandSendReceipt) for each in answers]
        assert good == [size < 200 for size in sizes]
        assert {each.error for each in answers if isinstance(each, pb.CommandSendError)} == {
            pb.NotAllowedError
        }
        assert running.core.topics["persistent://public/default/t"].messages == 4


async def test_delays_are_bounded_or_left_out(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, reader):
        admin, clock = Admin(running), running.context.clock
        await client.producer("t", 1)
        await reader.subscribe("t")
        await reader.flow(10)
        policy = {"active": True, "tickTime": 1, "maxDeliveryDelayInMillis": 60_000}
        await admin("POST", "/t/delayedDelivery", policy)
        for number, delay_ms in enumerate((30_000, 90_000)):
            at = clock.wall_ms() + delay_ms
            await client.stream.send_all(await publish(client, number, b"late", deliver_at_time=at))
        await client.expect(pb.CommandSendReceipt)
        assert (await client.expect(pb.CommandSendError)).error == pb.NotAllowedError
        assert await reader.silent()
        unbounded = {"active": True, "maxDeliveryDelayInMillis": -1}
        await admin("POST", "/t/delayedDelivery", unbounded)
        at = clock.wall_ms() + 90_000
        await client.stream.send_all(await publish(client, 2, b"late", deliver_at_time=at))
        await client.expect(pb.CommandSendReceipt)
        await admin("POST", "/t/delayedDelivery", {"active": False})
        at = clock.wall_ms() + 30_000
        await client.stream.send_all(await publish(client, 3, b"now", deliver_at_time=at))
        assert (await reader.reply())[1].endswith(b"now")


async def test_limits_of_unacknowledged_messages_reach_attached_consumers(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, reader):
        admin = Admin(running)
        await client.producer("t", 1)
        await reader.subscribe("t")
        await reader.flow(100)
        await admin("POST", "/t/maxUnackedMessagesOnConsumer", 4)
        await client.publish(*[b"x"] * 10)
        got = await reader.take(4)
        assert await reader.silent()
        await admin("DELETE", "/t/maxUnackedMessagesOnConsumer")
        got += await reader.take(6)
        await admin("POST", "/t/maxUnackedMessagesOnSubscription", 6)
        found = (await admin("GET", "/t/stats"))[1]["subscriptions"]["s"]
        assert found["blockedSubscriptionOnUnackedMsgs"]
        await client.publish(b"y", first=10)
        assert await reader.silent()
        await reader.acknowledge(*[message.message_id for message, _ in got])
        await reader.take(1)


async def test_an_unused_subscription_expires(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin, enforcer = Admin(running), running.policy_enforcer
        await client.subscribe("t", 1, subscription="used")
        for name in ("unused", "amqp"):
            await running.core.topics["persistent://public/default/t"].subscribe(name)
        await admin("POST", f"{NAMESPACE}/subscriptionExpirationTime", 2)
        for now, left in ((0.0, 3), (119.0, 3), (120.0, 2), (1000.0, 2)):
            await enforcer.check_subscriptions(now)
            assert len((await admin("GET", "/t/subscriptions"))[1]) == left


async def test_the_same_consumer_comes_so_often(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        rate = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 30}
        await client.producer("t", 1)
        await Admin(running)("POST", "/t/subscribeRate", rate)

        async def come(consumer_id: int) -> Any:
            answer = await client.subscribe("t", consumer_id, consumer_name="me")
            if isinstance(answer, pb.CommandSuccess):
                await client.send(pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=9))
                await client.expect(pb.CommandSuccess)
            return answer

        for _ in range(2):
            assert isinstance(await come(1), pb.CommandSuccess)
        assert await refused(await come(1)) == pb.NotAllowedError
        assert isinstance(await come(2), pb.CommandSuccess), (
            "the limit of another topic must not apply"
        )
        await Admin(running)("PUT", "/t/unload")
        await client.expect(pb.CommandCloseProducer)
        assert isinstance(await come(1), pb.CommandSuccess), "whoever is sent away may come again"
