"""Giving back: a consumer that leaves with very much in flight takes turns for it."""

from pathlib import Path

import pytest
import trio

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.engine.engine import open_engine
from arneb_core.engine.subscriptions.consumer import PLACES_PER_TURN
from arneb_core.testing.engine_kit import RecordingSink, append, make_entry, quiet

pytestmark = pytest.mark.real_time


class Steps(trio.abc.Instrument):
    """Counts the turns of one task."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self._task


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.FAILOVER])
async def test_others_have_their_turn_and_get_everything_in_order(
    tmp_path: Path, kind: SubscriptionType
) -> None:
    count = 5 * PLACES_PER_TURN + 1
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        first, second = RecordingSink(), RecordingSink()
        spec = ConsumerSpec("first", type=kind)
        leaving = subscription.attach(spec, first)
        leaving.flow(count)
        await append(engine, "t", [make_entry(b"x")] * count)
        await quiet(engine)
        assert leaving.in_flight == count
        staying = subscription.attach(ConsumerSpec("second", type=kind), second)
        staying.flow(count)
        await quiet(engine)
        steps = Steps(trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(steps)
        await leaving.give_back(count=False)
        trio.lowlevel.remove_instrument(steps)
        assert steps.count >= 10, "returned entries must be sorted and released in pieces"
        assert leaving.in_flight == 0
        assert leaving.attached
        leaving.detach()
        await quiet(engine)
        got = [position for run in second.runs for position in run.positions]
        assert got == sorted(got)
        assert len(got) == count


async def test_little_goes_back_with_the_consumer(tmp_path: Path) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        leaving = subscription.attach(ConsumerSpec("c"), RecordingSink())
        leaving.flow(10)
        await append(engine, "t", [make_entry(b"x")] * 10)
        await quiet(engine)
        await leaving.give_back(count=True)
        assert leaving.in_flight == 10
        leaving.detach()
        assert leaving.in_flight == 0
