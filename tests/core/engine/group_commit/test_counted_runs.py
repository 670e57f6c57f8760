"""Counted runs: any number of entries in one commit, with little work for the event loop."""

from pathlib import Path

import pytest
import trio

from arneb_core.api.core import CountedRun, Unit
from arneb_core.api.entries.position import position_at
from arneb_core.api.errors import StoreFailed, TopicFenced
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.log.planning import LEDGER_ENTRIES_MAX
from arneb_core.log.stamps import stamp_of
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import (
    Outcome,
    append,
    attach,
    body_of,
    make_entry,
    publish,
    quiet,
)
from arneb_core.testing.faults import FaultyStore

EARLIEST = InitialPosition.EARLIEST


def run_of(engine: Engine, name: str, entries: list[bytes]) -> CountedRun:
    return CountedRun(engine.topic(name), entries, len(entries), sum(map(len, entries)))


async def bodies(engine: Engine, name: str) -> list[bytes]:
    topic, found = engine.topic(name), list[bytes]()
    for info in topic.ledgers():
        position = position_at(info.id, 0)
        while position < position_at(info.id, info.entries):
            for _, entries in await topic.read(position, 1 << 20):
                found += map(body_of, entries)
                position = position + len(entries)  # type: ignore[assignment]
    return found


async def test_runs_come_after_what_is_appended_across_topics_in_one_commit(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        a, _ = await engine.create_topic("a"), await engine.create_topic("b")
        subscription = await a.subscribe("s", initial=EARLIEST)
        _, sink = attach(subscription, permits=100)
        before = engine.statistics().commits_total
        unit = Unit([(a, [make_entry(b"first")])], metadata=[("mark", b"1")])
        unit.runs = [
            run_of(engine, "a", [make_entry(b"1"), make_entry(b"2")]),
            run_of(engine, "b", [make_entry(b"x")]),
            run_of(engine, "a", [make_entry(b"3")]),
        ]
        await engine.committed(unit)
        await quiet(engine)
        assert engine.statistics().commits_total - before < 4
        assert sink.bodies == [b"first", b"1", b"2", b"3"]
        assert await bodies(engine, "b") == [b"x"]
        assert engine.metadata("mark") == {"mark": b"1"}
    async with open_engine(tmp_path) as engine:
        assert await bodies(engine, "a") == [b"first", b"1", b"2", b"3"]
        assert engine.topic("a").statistics().messages == 4


async def test_many_runs_fill_ledgers_as_ledgers_are_to_be(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("a")
        # Somebody who has not read them: nothing is trimmed, however far the clock jumps meanwhile.
        await topic.subscribe("s", initial=EARLIEST)
        entry, count = make_entry(b"x"), 10_000
        unit = Unit(runs=[run_of(engine, "a", [entry] * count) for _ in range(12)])
        await engine.committed(unit)
        found = topic.ledgers()
        assert [each.entries for each in found] == [LEDGER_ENTRIES_MAX, LEDGER_ENTRIES_MAX, 20_000]


async def test_runs_that_fail_leave_nothing_and_may_come_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            await engine.create_topic("a")
            await engine.create_topic("b")
            await publish(engine, "a", [b"0"])
            faulty.fail_until_healed()
            outcome = Outcome()
            engine.commit(
                Unit(
                    runs=[
                        run_of(engine, "a", [make_entry(b"1")]),
                        run_of(engine, "b", [make_entry(b"1")]),
                        run_of(engine, "a", [make_entry(b"2")]),
                    ],
                    metadata=[("mark", b"1")],
                ),
                outcome,
            )
            assert isinstance(await outcome.wait(), StoreFailed)
            faulty.heal()
            assert await bodies(engine, "a") == [b"0"]
            assert not engine.metadata("mark")
            await engine.committed(Unit(runs=[run_of(engine, "a", [make_entry(b"1")])]))
            assert await bodies(engine, "a") == [b"0", b"1"]


async def test_runs_for_a_topic_that_goes_fail_the_unit(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await engine.create_topic("a")
        await engine.create_topic("b")
        unit = Unit(
            runs=[
                run_of(engine, "b", [make_entry(b"1")]),
                run_of(engine, "a", [make_entry(b"1")]),
            ]
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.delete_topic, "a")
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(TopicFenced):
                await engine.committed(unit)
        assert await bodies(engine, "b") == []


async def test_publish_times_never_go_back_whatever_runs_say(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("a")
        await append(engine, "a", [make_entry(b"0", publish_time_ms=1_000)])
        early = [make_entry(b"1", publish_time_ms=500), make_entry(b"2", publish_time_ms=500)]
        await engine.committed(Unit(runs=[run_of(engine, "a", early)]))
        await append(engine, "a", [make_entry(b"3", publish_time_ms=700)])
        found = [e for _, entries in await topic.read(position_at(1, 0), 1 << 20) for e in entries]
        assert [stamp_of(each) for each in found] == [1_000] * 4


async def test_a_topic_has_something_coming_while_a_run_of_it_is_on_its_way(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("a", TopicSettings())
        outcome = Outcome()
        engine.commit(Unit(runs=[run_of(engine, "a", [make_entry(b"1")])]), outcome)
        assert topic.has_incoming
        assert await outcome.wait() is None
        assert not topic.has_incoming
