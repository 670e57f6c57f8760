"""Rates: what came and went in the last whole interval, by topic, subscription and client."""

from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.packing.counts import NEVER, ConsumerCounts, Meter
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.limits.rates import Rates
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandCloseConsumer, CommandSuccess

real_time = pytest.mark.real_time


@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.floats(0.5, 100.0)),
        min_size=1,
    )
)
def test_a_rate_is_what_the_last_interval_brought(grown: list[tuple[int, int, float]]) -> None:
    meter, messages, size = Meter(2), 0, 0
    for more, bigger, elapsed_s in grown:
        messages, size = messages + more, size + bigger
        meter.tick((messages, size), elapsed_s)
        assert meter.rates == (more / elapsed_s, bigger / elapsed_s)


def test_a_counter_that_was_reset_has_no_rate() -> None:
    meter = Meter(1)
    meter.tick((10,), 1.0)
    meter.tick((3,), 1.0)
    assert meter.rates == (0.0,)


def test_what_left_stays_sent() -> None:
    left, total = ConsumerCounts(bytes=5, acks=2, acked_at=7.0), ConsumerCounts(bytes=1)
    total.take_over(left)
    assert (total.bytes, total.acks, total.acked_at) == (6, 2, 7.0)


@real_time
async def test_rates_and_counters_belong_to_each_producer_and_consumer(
    open_broker: OpenBroker,
) -> None:
    ahead = [0.0]
    clock = Clock(now=lambda: trio.current_time() + ahead[0])
    async with open_broker(clock) as running, connected(running.context, 3) as (one, two, reader):
        rates, admin = running.context.rates, Admin(running)
        rates._sampled_at = began = clock.now()

        async def sample_after(seconds: float) -> float:
            nonlocal began
            ahead[0] += seconds
            elapsed_s, began = clock.now() - began, clock.now()
            await rates.sample()
            return elapsed_s

        await one.producer("t", 7)
        await two.producer("t", 8)
        await reader.subscribe("t")
        await reader.flow(10)
        await one.publish(b"x" * 60, b"y" * 60, b"z" * 60, producer_id=7)
        await two.publish(b"x" * 60, producer_id=8)
        await reader.take(4)
        took_s = await sample_after(1000.0)
        found = (await admin("GET", "/t/stats"))[1]
        about = partial(pytest.approx, rel=0.01)
        assert found["msgRateIn"] == found["msgRateOut"] == about(4 / took_s)
        assert found["msgThroughputIn"] == about(found["bytesInCounter"] / took_s)
        assert found["bytesOutCounter"] == found["bytesInCounter"] == found["storageSize"] > 240
        assert found["averageMsgSize"] == about(found["bytesInCounter"] / 4)
        sent = {each["producerId"]: each["msgRateIn"] for each in found["publishers"]}
        assert sent == {7: about(3 / took_s), 8: about(1 / took_s)}
        (consumer,) = found["subscriptions"]["s"]["consumers"]
        assert (consumer["msgRateOut"], consumer["msgOutCounter"]) == (about(4 / took_s), 4)
        assert consumer["bytesOutCounter"] == found["bytesOutCounter"]
        assert consumer["lastConsumedTimestamp"] >= consumer["lastConsumedFlowTimestamp"] > 0
        assert consumer["lastAckedTimestamp"] == 0
        await reader.send(CommandCloseConsumer(consumer_id=1, request_id=99))
        await reader.expect(CommandSuccess)
        await sample_after(1000.0)
        found = (await admin("GET", "/t/stats", getEarliestTimeInBacklog="true"))[1]
        assert (found["msgRateIn"], found["averageMsgSize"]) == (0.0, 0.0)
        subscription = found["subscriptions"]["s"]
        assert subscription["bytesOutCounter"] == found["bytesInCounter"], (
            "a consumer that leaves must not lower the counter"
        )
        assert subscription["earliestMsgPublishTimeInBacklog"] > 0
        assert found["earliestMsgPublishTimeInBacklogs"] > 0
        assert (await admin("POST", "/t/subscription/s/skip_all"))[0] == 204
        found = (await admin("GET", "/t/stats", getEarliestTimeInBacklog="true"))[1]
        assert found["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] == -1
        assert found["earliestMsgPublishTimeInBacklogs"] == 0
        sent = found["bytesInCounter"]
        assert (await admin("DELETE", "/t/subscription/s"))[0] == 204
        for _ in range(2):
            found = (await admin("GET", "/t/stats"))[1]
            assert (found["msgOutCounter"], found["bytesOutCounter"]) == (4, sent)
            await sample_after(1000.0)


@real_time
async def test_what_was_sent_of_a_subscription_is_forgotten_with_it(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (reader,):
        context, admin = running.context, Admin(running)
        await reader.subscribe("t")
        await reader.send(CommandCloseConsumer(consumer_id=1, request_id=99))
        await reader.expect(CommandSuccess)
        topic = running.core.topics["persistent://public/default/t"]
        assert context.consumers._left[topic.id]
        await admin("GET", "/t/stats")
        assert (await admin("DELETE", "/t/subscription/s"))[0] == 204
        await context.rates.sample()
        assert not context.consumers._left[topic.id]
        assert not context.rates._subscriptions[topic.id]
        context.consumers.forget_except(())
        assert not context.consumers._departed_bytes


@real_time
async def test_what_happened_once_happened_at_one_time(open_broker: OpenBroker) -> None:
    """The two clocks are read one after the other; only a clock that was set changes the answer."""
    walls = [10_000, 10_001, 9_999, 10_019, 3_610_000, 3_610_001]
    clock = Clock(now=lambda: 7.0, wall_ms=lambda: walls.pop(0))
    async with open_broker() as running:
        context = running.context
        rates = Rates(running.core, context.producers, context.consumers, clock)
        assert rates.wall_ms(NEVER) == 0
        assert [rates.wall_ms(5.0) for _ in range(4)] == [8_000] * 4
        assert [rates.wall_ms(5.0) for _ in range(2)] == [3_608_000] * 2
