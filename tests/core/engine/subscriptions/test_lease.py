"""Without the lease nothing is delivered, pulled, or said of who is active; commits go on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.testing.engine_kit import attach, publish, quiet
from arneb_core.testing.leases import GivenLease


@asynccontextmanager
async def engine_with(tmp_path: Path) -> AsyncIterator[tuple[Engine, GivenLease]]:
    lease = GivenLease()
    async with open_engine(tmp_path, lease=lease) as engine:
        await engine.create_topic("q", subscriptions=["amqp"])
        yield engine, lease
        lease.say(holds=True)


async def test_without_a_lease_nothing_is_delivered_and_with_it_everything(tmp_path: Path) -> None:
    async with engine_with(tmp_path) as (engine, lease):
        subscription = await engine.topic("q").subscribe("amqp")
        _, sink = attach(subscription, permits=10)
        await publish(engine, "q", [b"a"])
        await quiet(engine)
        assert sink.bodies == [b"a"]
        lease.say(holds=False)
        await publish(engine, "q", [b"b"])  # what is stored is told of
        await quiet(engine)
        assert sink.bodies == [b"a"]
        lease.say(holds=True)
        await quiet(engine)
        assert sink.bodies == [b"a", b"b"]


async def test_a_pull_is_answered_when_the_lease_is_back(tmp_path: Path) -> None:
    async with engine_with(tmp_path) as (engine, lease):
        subscription = await engine.topic("q").subscribe("amqp")
        consumer, _ = attach(subscription, pulls=True)
        await publish(engine, "q", [b"a"])
        lease.say(holds=False)
        found = []

        async def pull() -> None:
            found.append(await consumer.pull())  # type: ignore[attr-defined]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await trio.testing.wait_all_tasks_blocked()
            assert not found
            lease.say(holds=True)
        assert found[0] is not None


async def test_a_pull_ends_with_the_last_lease(tmp_path: Path) -> None:
    async with engine_with(tmp_path) as (engine, lease):
        subscription = await engine.topic("q").subscribe("amqp")
        consumer, _ = attach(subscription, pulls=True)
        lease.say(holds=False, over=True)
        with pytest.raises(SubscriptionFenced):
            await consumer.pull()  # type: ignore[attr-defined]


async def test_nobody_becomes_the_active_consumer_without_a_lease(tmp_path: Path) -> None:
    async with engine_with(tmp_path) as (engine, lease):
        topic = engine.topic("q")
        subscription = await topic.subscribe("failover")
        first, _ = attach(subscription, name="a", type=SubscriptionType.FAILOVER)
        _, second = attach(subscription, name="b", type=SubscriptionType.FAILOVER)
        before = list(second.active)
        lease.say(holds=False)
        first.detach()  # type: ignore[attr-defined]
        await quiet(engine)
        assert second.active == before
        lease.say(holds=True)
        await quiet(engine)
        assert second.active[-1] is True


async def test_nobody_waits_for_deliveries_that_a_lease_holds_up(tmp_path: Path) -> None:
    async with engine_with(tmp_path) as (engine, lease):
        subscription = await engine.topic("q").subscribe("amqp")
        _, sink = attach(subscription, permits=10)
        called: list[str] = []

        def done(error: object, first: object) -> None:
            # It is ready, and would be behind its deliveries; then the lease ends.
            assert engine.after_dispatch(lambda: called.append("behind"))
            lease.say(holds=False)

        engine.append(engine.topic("q"), [bytes(40)], done)
        await quiet(engine)
        assert (called, sink.bodies) == (["behind"], [])
        assert not engine.after_dispatch(lambda: called.append("never"))
