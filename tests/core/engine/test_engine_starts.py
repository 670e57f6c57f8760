"""Where subscriptions start, and what the log keeps for the slowest of them."""

from pathlib import Path

import pytest

from arneb_core.api.subscriptions import InitialPosition
from arneb_core.engine.engine import open_engine
from arneb_core.log import planning
from arneb_core.testing.engine_kit import Outcome, attach, publish, quiet


@pytest.mark.parametrize(
    ("initial", "expected"),
    [(InitialPosition.EARLIEST, [b"old", b"new"]), (InitialPosition.LATEST, [b"new"])],
)
async def test_a_new_subscription_starts_where_it_says(
    data_dir: Path, initial: InitialPosition, expected: list[bytes]
) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        await publish(engine, "t", [b"old"])
        subscription = await topic.subscribe("s", initial=initial)
        assert subscription.ready_messages == len(expected) - 1
        _, sink = attach(subscription, permits=10)
        await publish(engine, "t", [b"new"])
        await quiet(engine)
        assert sink.bodies == expected


async def test_a_ledger_stays_for_the_slowest_subscription(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "LEDGER_ENTRIES_MAX", 2)
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        slow = await topic.subscribe("slow", initial=InitialPosition.EARLIEST)
        fast = await topic.subscribe("fast", initial=InitialPosition.EARLIEST)
        for index in range(6):
            await publish(engine, "t", [b"%d" % index])
        await fast.purge()
        await quiet(engine)
        assert slow.ready_messages == 6
        consumer, sink = attach(slow, permits=10)
        await quiet(engine)
        assert sink.bodies == [b"%d" % index for index in range(6)]
        told = Outcome()
        consumer.acknowledge(sink.positions, told)
        assert await told.wait() is None
        await quiet(engine)
        assert topic.statistics().ledgers <= 2
