"""Where subscriptions start, and what the log keeps for the slowest of them."""

from pathlib import Path
from typing import Final

import pytest

from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.engine.trimming import slowest_subscription
from arneb_core.log import planning
from arneb_core.testing.engine_kit import Outcome, attach, publish, quiet

FOR_EVER: Final = TopicSettings(retention_ms=-1, retention_bytes=-1)


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
        outcome = Outcome()
        consumer.acknowledge(sink.positions, outcome)
        assert await outcome.wait() is None
        await quiet(engine)
        assert topic.statistics().ledgers <= 2


async def test_a_ledger_stays_for_a_subscription_moved_back_before_the_slowest(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many subscriptions only the first by their old positions is known to be the slowest."""
    monkeypatch.setattr(planning, "LEDGER_ENTRIES_MAX", 2)
    monkeypatch.setattr(slowest_subscription, "ASKED_ALL_MAX", 0)
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t", FOR_EVER)
        behind = await topic.subscribe("behind", initial=InitialPosition.EARLIEST)
        back = await topic.subscribe("back", initial=InitialPosition.EARLIEST)
        first = await publish(engine, "t", [b"0"])
        for index in range(1, 6):
            await publish(engine, "t", [b"%d" % index])
        await back.purge()
        consumer, sink = attach(behind, permits=4)
        await quiet(engine)
        outcome = Outcome()
        consumer.acknowledge(sink.positions, outcome)
        assert await outcome.wait() is None
        await back.seek(first)
        await topic.retain(0, 0)
        await quiet(engine)
        _, sink = attach(back, permits=10)
        await quiet(engine)
        assert sink.bodies == [b"%d" % index for index in range(6)]
