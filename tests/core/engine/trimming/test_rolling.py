"""Ledgers that are closed, and trimmed, on request."""

from pathlib import Path

import pytest
import trio

from arneb_core.api.entries.position import LedgerId, position_at
from arneb_core.api.errors import NotAllowed, StoreFailed
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import Outcome, make_entry, publish, quiet
from arneb_core.testing.faults import FaultyStore

EARLIEST = InitialPosition.EARLIEST
FOR_EVER = TopicSettings(retention_ms=-1, retention_bytes=-1)


def sizes(engine: Engine) -> list[tuple[int, int, bool]]:
    """Ledgers, how many entries they hold, and whether they are closed."""
    return [(e.id, e.entries, bool(e.closed_ms)) for e in engine.topic("t").ledgers()]


async def test_a_ledger_ends_when_that_is_asked_for_and_stays_so(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t", FOR_EVER)
        assert await topic.roll() == position_at(1, 0), "there is nothing that could end"
        await publish(engine, "t", [b"1", b"2"])
        assert await topic.roll() == position_at(2, 0)
        assert sizes(engine) == [(1, 2, True), (2, 0, False)]
        assert await topic.roll() == position_at(2, 0), "an empty one does not end"
        assert sizes(engine) == [(1, 2, True), (2, 0, False)]
        assert await publish(engine, "t", [b"3"]) == position_at(2, 0)
    async with open_engine(tmp_path) as engine:
        assert sizes(engine)[0] == (1, 2, True)
        assert await engine.topic("t").roll() == position_at(3, 0), (
            "the previous process's ledger must end"
        )
        assert sizes(engine) == [(1, 2, True), (2, 1, True), (3, 0, False)]


async def test_a_ledger_ends_beside_publishers_that_never_rest(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t", FOR_EVER)
        await publish(engine, "t", [b"0"])
        ends: list[int] = []
        confirmed = 0

        def again(error: Exception | None, _: object) -> None:
            nonlocal confirmed
            assert error is None
            confirmed += 1
            if len(ends) < 3:
                engine.append(topic, [make_entry(b"x")], again)

        for _ in range(4):
            engine.append(topic, [make_entry(b"x")], again)
        for _ in range(3):
            end = await topic.roll()
            ends.append(end)
            below = [each for each in topic.ledgers() if position_at(each.id, 0) < end]
            assert all(each.closed_ms for each in below)
        await quiet(engine)
        assert ends == sorted(set(ends))
        assert sum(each.entries for each in topic.ledgers()) == confirmed + 1


async def test_a_roll_that_fails_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            topic = await engine.create_topic("t", FOR_EVER)
            await publish(engine, "t", [b"1"])
            await quiet(engine)
            faulty.fail_next()
            with pytest.raises(StoreFailed):
                await topic.roll()
            assert sizes(engine)[0][:2] == (1, 1)
            await publish(engine, "t", [b"2"])
            assert sum(each.entries for each in topic.ledgers()) == 2
            assert await topic.roll() > position_at(1, 0)


async def test_ledgers_go_when_that_is_asked_for_and_every_cursor_has_passed(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t", FOR_EVER)
        for _ in range(3):
            await publish(engine, "t", [b"1", b"2"])
            await topic.roll()
        await topic.trim(position_at(3, 0))
        assert [each.id for each in topic.ledgers()] == [1, 2, 3, 4], (
            "without a subscription nothing is trimmed"
        )
        first = await topic.subscribe("first", initial=EARLIEST)
        second = await topic.subscribe("second", initial=EARLIEST)
        await first.skip_through(position_at(3, 1))
        await topic.trim(position_at(3, 0))
        assert [each.id for each in topic.ledgers()] == [1, 2, 3, 4], "the second has not passed"
        await second.skip_through(position_at(1, 1))
        await quiet(engine)
        assert [each.id for each in topic.ledgers()] == [2, 3, 4], (
            "the request to trim must still hold"
        )
        await second.skip_through(position_at(3, 1))
        await quiet(engine)
        assert [each.id for each in topic.ledgers()] == [3, 4], "ledgers above it must stay"
    async with open_engine(tmp_path) as engine:
        assert engine.topic("t").floor == position_at(3, 0)


async def test_a_topic_in_memory_has_no_ledgers_to_end(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t", TopicSettings(durable=False))
        with pytest.raises(NotAllowed, match="stored"):
            await topic.roll()
        with pytest.raises(NotAllowed, match="stored"):
            await topic.trim(position_at(1, 0))


async def test_a_ledger_that_ends_beside_an_append_under_way_has_that_too(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t", FOR_EVER)
        outcome = Outcome()
        engine.append(topic, [make_entry(b"1")], outcome)
        await trio.testing.wait_all_tasks_blocked()
        end = await topic.roll()
        await outcome.wait()
        assert sizes(engine)[0][1] == 1
        assert end in (position_at(1, 0), position_at(2, 0))


async def test_what_comes_while_a_ledger_is_to_end_opens_another(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t", FOR_EVER)
        assert await publish(engine, "t", [b"1"]) == position_at(1, 0)
        topic.log.ended = LedgerId(1)  # type: ignore[union-attr]
        assert await publish(engine, "t", [b"2"]) == position_at(2, 0)
        assert sizes(engine) == [(1, 1, True), (2, 1, False)]
        assert await publish(engine, "t", [b"3"]) == position_at(2, 1)
