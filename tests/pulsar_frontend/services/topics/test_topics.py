"""What has nothing to do with one another is made at the same time, and shares commits."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from tests.pulsar_frontend.conftest import OpenBroker, Running

from arneb_core.api.errors import StoreFailed
from arneb_pulsar.names import parse_topic
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.services.namespaces.registry import Partitioned

PARTITIONS = 50
WHOLE = parse_topic("persistent://public/default/whole")


async def commits_of(running: Running, change: Callable[[], Awaitable[object]]) -> int:
    """How many commits it takes when each begins once everybody waits for one: with a slow disk."""
    before = running.store.commits_total
    over = trio.Event()

    async def changed() -> None:
        await change()
        over.set()

    running.store.hold_each()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(changed)
        while not over.is_set():
            await trio.testing.wait_all_tasks_blocked()
            if running.store.holds_one:
                running.store.release()
    running.store.stop_holding()
    return running.store.commits_total - before


async def test_partitions_come_and_go_with_few_commits(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        topics = running.context.topics
        made = partial(topics.make_partitioned, WHOLE, Partitioned(PARTITIONS))
        assert await commits_of(running, made) <= 4
        assert len(topics.parts(WHOLE)) == PARTITIONS
        await running.core.topic(WHOLE.part(0).core_name).subscribe("s")
        assert await commits_of(running, partial(topics.add_partitions, WHOLE, 2 * PARTITIONS)) <= 6
        for each in topics.parts(WHOLE)[PARTITIONS:]:
            assert "s" in running.core.topic(each.core_name).subscriptions
        assert await commits_of(running, partial(topics.drop_partitioned, WHOLE)) <= 5
        assert not topics.parts(WHOLE)


async def test_subscriptions_of_one_topic_and_topics_share_commits(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        topic = await running.core.create_topic(WHOLE.core_name)

        async def everybody() -> None:
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(topic.subscribe, f"s{number}")
                    part = parse_topic(f"persistent://public/default/t{number}")
                    nursery.start_soon(running.context.topics.make, part)
                    nursery.start_soon(
                        running.context.namespaces.change_namespace, f"public/n{number}", same
                    )

        assert await commits_of(running, everybody) <= 2
        assert len(topic.subscriptions) == 20
        assert len({each.id for each in topic.subscriptions.values()}) == 20  # type: ignore[attr-defined]


def same(policies: Policies) -> Policies:
    return policies


async def test_the_first_failure_is_raised_when_all_are_done(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        topics = running.context.topics
        await running.context.namespaces.put_partitioned(WHOLE, Partitioned(PARTITIONS))
        running.store.fail_until_healed()
        with pytest.raises(StoreFailed):
            await topics.make_missing(WHOLE)
        running.store.heal()
        await topics.make_missing(WHOLE)
        assert len(topics.parts(WHOLE)) == PARTITIONS
