"""What a small commit costs, in calls: what each adds is paid some thousand times a second.

The bounds are what is needed today and a little room. Who needs more looks first for what can be
left out.
"""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.counting import calls_of

from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.engine.trimming.slowest_subscription import GONE_MIN
from arneb_core.log.ledgers import LedgerInfo
from arneb_core.log.planning import PlannedRun
from arneb_core.store.commit.commit_log import Ended
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.schema import TopicId
from arneb_core.testing.engine_kit import Outcome, attach, make_entry, publish, quiet

LOOP_CALLS_MAX = 80
"""From a request to the call that tells its publisher: planning, placing, confirming."""

CALLS_MORE_MAX = 16
"""For each request more that goes into the same run of the same commit."""

A_TIMER = 20
"""Calls, where something is due that is looked at now and then."""

THREAD_CALLS_MAX = 76
"""What the store makes of that in LMDB: seven to lend the journal meanwhile, and one to free each
block of ours once LMDB has it."""


class AtOnce:
    """A commit log that has stored everything at once."""

    depth = 1
    beside_bytes_min = 0
    needs_takeover = False

    def __init__(self, *_: object) -> None:
        self.commits = 0

    def prepare(self) -> None:
        pass

    def submit(self, changes: Changes, ended: Ended, *, take_over: bool = False) -> CommitReport:
        self.commits += 1
        return CommitReport(1, 1, 0)

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> None:
        return None

    def close(self) -> None:
        pass


def committed(engine: Engine, name: str, count: int) -> int:
    """The calls in which the loop commits ``count`` requests together."""
    topic, outcomes = engine.topic(name), []
    for _ in range(count):
        entries = [make_entry(b"x", publish_time_ms=1)]
        request = Request(
            lambda error, firsts: outcomes.append((error, *firsts)),
            [(topic, entries, 1)],
            passes_over_gone=True,
            entries=1,
            size=len(entries[0]),
        )
        engine._committer.add(request)
    calls = calls_of(engine._committer.start)
    assert len(outcomes) == count
    assert not any(error for error, _ in outcomes)
    return calls


async def test_the_loop_makes_few_calls_for_a_commit(data_dir: Path) -> None:
    log = AtOnce()
    async with open_engine(data_dir, commit_log=lambda store, call_soon: log) as engine:
        await engine.create_topic("t", subscriptions=["s"])
        committed(engine, "t", 1)  # which opens a ledger
        before = log.commits
        alone = committed(engine, "t", 1)
        assert alone <= LOOP_CALLS_MAX
        assert committed(engine, "t", 101) - alone <= 100 * CALLS_MORE_MAX
        assert log.commits == before + 2


async def test_unused_subscriptions_cost_an_append_nothing(data_dir: Path) -> None:
    log = AtOnce()
    async with open_engine(data_dir, commit_log=lambda store, call_soon: log) as engine:
        calls: dict[str, list[int]] = {}
        for name, idle in (("few", 10), ("many", 300)):
            topic = await engine.create_topic(name)
            await make_idle(topic, idle)
            consumer, sink = attach(topic.subscriptions["s-0"], unlimited=True)
            for _ in range(3):  # the first opens a ledger
                calls.setdefault(name, []).append(committed(engine, name, 1))
                await quiet(engine)
                consumer.acknowledge(sink.positions[-1:], Outcome())
                calls[name].append(calls_of(engine._committer.start))
                await quiet(engine)
        for many, few in zip(calls["many"], calls["few"], strict=True):
            assert many <= few + A_TIMER


async def test_subscriptions_that_have_had_everything_cost_a_cursor_nothing(data_dir: Path) -> None:
    log = AtOnce()
    async with open_engine(data_dir, commit_log=lambda store, call_soon: log) as engine:
        calls = {}
        for name, others in (("few", 10), ("many", 300)):
            topic = await engine.create_topic(name)
            consumers = [attach(await topic.subscribe(f"s-{n}")) for n in range(others)]
            committed(engine, name, 1)
            await quiet(engine)
            for consumer, sink in consumers[1:]:
                consumer.flow(1)
                await quiet(engine)
                consumer.acknowledge(sink.positions, Outcome())
            await quiet(engine)
            consumer, sink = consumers[0]
            consumer.flow(1)
            await quiet(engine)
            await quiet(engine)
            consumer.acknowledge(sink.positions, Outcome())
            engine._committer.start()
            await quiet(engine)
            assert all(
                not each.statistics().backlog_entries for each in topic.subscriptions.values()
            )
            topic.subscriptions["s-0"].receipt(Outcome())
            calls[name] = calls_of(engine._committer.start)
        assert calls["many"] <= calls["few"] + A_TIMER


async def make_idle(topic: LogTopic, count: int) -> None:
    for number in range(count):
        subscription = await topic.subscribe(f"s-{number}")
        attach(subscription)[0].detach()


async def test_subscriptions_that_have_gone_are_not_kept_to_find_the_slowest(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        await topic.subscribe("stays")  # before all others, so that none of them is the first
        gone = [weakref.ref(await topic.subscribe(f"s-{n}")) for n in range(2 * GONE_MIN)]
        for number in range(2 * GONE_MIN):
            await topic.unsubscribe(f"s-{number}")
        await quiet(engine)
        gc.collect()
        left = sum(each() is not None for each in gone)
        assert left <= GONE_MIN + 2, f"{left} that have gone are in memory"


async def test_a_subscription_hears_of_appends_from_its_first_consumer_on(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        await make_idle(topic, 10)
        await publish(engine, "t", [b"1"])
        for name in ("s-3", "s-7"):
            _, sink = attach(topic.subscriptions[name], unlimited=True)
            await quiet(engine)
            await publish(engine, "t", [b"2"])
            await quiet(engine)
            last = topic.last
            assert sink.positions[-1] == last, f"{name} was not told"


async def test_what_has_to_depart_hears_of_appends_without_a_consumer(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        await make_idle(topic, 10)
        topic.subscriptions["s-4"].limit(Limits(ready_messages_max=2), None)
        await publish(engine, "t", [b"1", b"2", b"3"])
        await quiet(engine)
        attach(topic.subscriptions["s-4"])[0].detach()
        await publish(engine, "t", [b"4"])
        await quiet(engine)
        assert topic.subscriptions["s-4"].statistics().backlog_entries == 2
        assert topic.subscriptions["s-5"].statistics().backlog_entries == 4


def test_the_thread_makes_few_calls_for_a_commit(tmp_path: Path) -> None:
    with Store.open(tmp_path / "data") as store:
        store.prepare_tiny()
        for number in range(4):
            run = TopicId(1), position_at(1, number), [b"x" * 300]
            calls = calls_of(lambda run=run: store.commit(Changes([run])))
        assert calls <= THREAD_CALLS_MAX


@pytest.mark.parametrize("kind", [CommitReport, LedgerInfo, PlannedRun])
def test_what_is_made_for_every_commit_is_made_at_once(kind: type) -> None:
    """And not field by field, as what is frozen."""
    assert not kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
