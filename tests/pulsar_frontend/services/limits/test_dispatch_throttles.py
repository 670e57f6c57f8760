"""Dispatch throttles: no more goes out than the rate says, whoever consumes."""

import pytest
import trio
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import WITHIN_S, RawClient, connected

from arneb_pulsar.services.clock import Clock
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSubscribe, CommandSuccess, CommandUnsubscribe

pytestmark = pytest.mark.real_time

RATE = {"dispatchThrottlingRateInMsg": 10, "dispatchThrottlingRateInByte": -1}
NAME = "persistent://public/default/t"


async def drained(*readers: RawClient) -> int:
    """How many messages are there for the readers now."""
    count = 0
    for reader in readers:
        while not await reader.silent(0.02):
            await reader.reply()
            count += 1
    return count


@pytest.mark.parametrize("where", ["/t/dispatchRate", "/t/subscriptionDispatchRate"])
@pytest.mark.parametrize("kind", [CommandSubscribe.Shared, CommandSubscribe.Key_Shared])
async def test_consumers_share_what_the_rate_allows(
    open_broker: OpenBroker, where: str, kind: int
) -> None:
    ahead = [0.0]
    clock = Clock(now=lambda: trio.current_time() + ahead[0])
    async with open_broker(clock) as running, connected(running.context, 3) as (client, one, two):
        admin, throttles = Admin(running), running.context.dispatch_throttles
        await client.producer("t")
        for reader in (one, two):
            await reader.subscribe("t", subType=kind)
            await reader.flow(1000)
        assert await admin("POST", where, RATE) == (204, b"")
        await client.publish(*[b"x"] * 60)
        throttle = throttles.by_topic[running.core.topics[NAME].id]
        got = 0
        for second in range(6):
            for _ in range(40):  # what one may not have now the other may have next
                throttles.look(throttle)
                await trio.testing.wait_all_tasks_blocked()
            got += await drained(one, two)
            assert got <= 10 * (second + 1) + 9, "more was delivered than the rate allows"
            ahead[0] += 1.0
        assert got >= 50
        shown = (await admin("GET", "/t/stats"))[1]["subscriptions"]["s"]
        consumers, of_all = shown["consumers"], where == "/t/dispatchRate"
        events = [
            shown[f"dispatchThrottledMsgEventsBy{by}Limit"] for by in ("Topic", "Subscription")
        ]
        assert [each > 0 for each in events] == [of_all, not of_all]
        assert shown["dispatchThrottledBytesEventsByTopicLimit"] == 0
        assert sum(each["availablePermits"] for each in consumers) == 2000 - got
        assert await admin("DELETE", where) == (204, b"")
        assert not throttles.by_topic
        assert got + await drained(one, two) == 60


async def test_the_rate_of_one_subscription_is_no_matter_of_another(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 3) as (client, slow, free):
        admin = Admin(running)
        await client.producer("t")
        assert await admin("POST", "/t/slow/dispatchRate", RATE) == (204, b"")
        for reader, name in ((slow, "slow"), (free, "free")):
            await reader.subscribe("t", subscription=name)
            await reader.flow(1000)
        await client.publish(*[b"x"] * 60)
        await free.take(60)
        assert 10 <= await drained(slow) < 30
        assert await admin("GET", "/t/free/dispatchRate") == (200, b"")
        assert (await admin("GET", "/t/slow/dispatchRate"))[1]["dispatchThrottlingRateInMsg"] == 10


async def test_subscriptions_that_are_gone_are_forgotten(open_broker: OpenBroker) -> None:
    """Each reader has one with a name of its own."""
    async with open_broker() as running, connected(running.context, 2) as (client, reader):
        admin, throttles = Admin(running), running.context.dispatch_throttles
        await client.producer("t")
        await client.subscribe("t", subscription="stays")
        await admin("POST", "/t/subscriptionDispatchRate", RATE)
        (throttle,) = throttles.by_topic.values()
        for each in range(5):
            await reader.subscribe("t", subscription=f"r{each}")
            await reader.flow(1000)
            await client.publish(*[b"x"] * 20, first=20 * each)
            with trio.fail_after(WITHIN_S):  # FLOW has no answer that could be waited for
                while f"r{each}" not in throttle.throttled_by_own:
                    throttles.look(throttle)
                    await trio.testing.wait_all_tasks_blocked()
            await reader.send(CommandUnsubscribe(consumer_id=1, request_id=99))
            while not isinstance((await reader.reply())[0], CommandSuccess):
                pass
        await reader.subscribe("t", subscription="last")
        assert throttle.throttled_by_own.keys() <= {"r4", "last", "stays"}


async def test_a_topic_without_consumers_is_forgotten(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        throttles = running.context.dispatch_throttles
        async with connected(running.context) as (reader,):
            await reader.subscribe("t")
            await Admin(running)("POST", "/t/dispatchRate", RATE)
            (throttle,) = throttles.by_topic.values()
        throttles.look(throttle)
        assert not throttles.by_topic
