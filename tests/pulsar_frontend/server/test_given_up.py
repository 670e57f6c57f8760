"""A connection that is over is given up at once: it leaves no cycle that a collection must find.

What has survived a full collection is frozen, so that only a collection of everything finds such
cycles, and everybody has to wait for that.
"""

import gc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_core.api.subscriptions.subscription import Subscription
from arneb_pulsar.packing.deliveries import MessageFrames
from arneb_pulsar.server.connection import Connection
from arneb_pulsar.server.effects import RELEASED_PER_TURN, EffectRunner
from arneb_pulsar.server.publishing import Publishing
from arneb_pulsar.server.writer import Writer
from arneb_pulsar.session.connection.connection import ConnectionSession

pytestmark = pytest.mark.real_time

PARTS = (Connection, ConnectionSession, EffectRunner, Writer, Publishing, MessageFrames)


@pytest.fixture
def earlier() -> Iterator[list[Any]]:
    """What other tests in this process have left and still hold, as in the traceback of a failure.
    There are no collections during the test."""
    gc.collect()
    gc.disable()
    yield [each for each in gc.get_objects() if isinstance(each, PARTS)]
    gc.enable()


def parts(earlier: list[Any]) -> list[Any]:
    known = set(map(id, earlier))
    return [each for each in gc.get_objects() if isinstance(each, PARTS) and id(each) not in known]


async def test_a_connection_that_is_over_is_given_up(
    open_broker: OpenBroker, earlier: list[Any]
) -> None:
    async with open_broker() as running:
        async with connected(running.context, 2) as (one, other):
            await one.subscribe()
            await one.flow(10)
            await one.producer()
            await one.publish(b"a", b"b")
            await one.take(4)
            await other.subscribe(consumer_id=7)
            assert parts(earlier)
        await trio.testing.wait_all_tasks_blocked()
        assert parts(earlier) == []


async def test_a_connection_that_ends_before_its_messages_are_on_disk_is_given_up_then(
    open_broker: OpenBroker, earlier: list[Any]
) -> None:
    async with open_broker() as running:
        async with connected(running.context) as (one,):
            await one.producer()
            running.store.hold()
            await one.publish(b"a", b"b")
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        running.store.release()
        await running.core.create_topic("another")
        await trio.testing.wait_all_tasks_blocked()
        assert parts(earlier) == []


class Steps(trio.abc.Instrument):
    """How many consumers of a subscription there were after each turn of any task."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self.left = [len(subscription.consumers)]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left.append(len(self._subscription.consumers))


async def test_thousands_of_consumers_leave_a_few_in_each_turn(open_broker: OpenBroker) -> None:
    count = 5 * RELEASED_PER_TURN
    async with open_broker() as running, connected(running.context) as (one,):
        for number in range(count):
            await one.subscribe(consumer_id=number)
            await one.producer(producer_id=number)
        topic = running.core.topics["persistent://public/default/t"]
        steps = Steps(topic.subscriptions["s"])
        trio.lowlevel.add_instrument(steps)
        await one.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(steps)
        assert (steps.left[0], steps.left[-1]) == (count, 0)
        assert max(one - two for one, two in pairwise(steps.left)) <= RELEASED_PER_TURN
