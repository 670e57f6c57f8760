"""The commit path: after an error that may leave memory and disk different, nothing goes on."""

from pathlib import Path
from typing import Any

import pytest
import trio

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import EngineBroken, StoreFailed
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.group_commit.planned_commit import PlannedCommit
from arneb_core.engine.scheduling.maintenance import READ_RETRY_S
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log.durable_log import DurableLog
from arneb_core.store.environment import Store
from arneb_core.store.format.schema import META_CLEAN, Table
from arneb_core.subscription.entries.acknowledgements import Acknowledgements
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.state.byte_counter import ByteCounter
from arneb_core.testing.engine_kit import (
    Outcome,
    append,
    attach,
    make_entry,
    pass_time,
    publish,
    quiet,
)
from arneb_core.testing.faults import FaultyStore


def once(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
    """Have the next call of one function raise, and no other."""
    original = getattr(kind, name)

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(kind, name, original)
        raise KeyError("a defect")

    monkeypatch.setattr(kind, name, broken)


async def bodies_after_a_start(path: Path) -> list[bytes]:
    with Store.open(path) as store, store.snapshot() as snapshot:
        assert snapshot.get(Table.META, META_CLEAN) is None, "marked as stopped in order"
    async with open_engine(path) as engine:
        [subscription] = engine.topic("t").subscriptions.values()
        _, sink = attach(subscription, permits=100)
        await quiet(engine)
        return sink.bodies


async def broken_engine(path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
    """An engine that ends because ``name`` fails while one message is on its way; two waited
    for it, and one more comes when it has broken."""
    calls: list[list[Exception | None]] = []

    async def use(engine: Engine) -> None:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        consumer, sink = attach(subscription, permits=1)
        await publish(engine, "t", [b"before"])
        await quiet(engine)
        once(monkeypatch, kind, name)
        during, after = Outcome(), Outcome()
        unit = Unit([(topic, [make_entry(b"during")])], [(consumer, sink.positions)])  # type: ignore[list-item]
        engine.commit(unit, during)
        await engine.broken()
        engine.commit(Unit([(topic, [make_entry(b"after")])]), after)
        calls.extend([during.calls, after.calls])
        assert not engine.is_quiet or engine.statistics().commits_total
        with trio.CancelScope(shield=True):
            await after.wait()
        assert sink.bodies == [b"before"], "something was delivered afterwards"
        await trio.sleep_forever()

    async with open_engine(path) as engine:
        await use(engine)
    raise AssertionError("the engine did not end")


PARTS: list[tuple[type, str]] = [
    (LogConsumer, "take_for_unit"),
    (PlannedCommit, "plan_cursors"),
    (PlannedCommit, "stored"),
    (LogTopic, "confirm"),
    (DurableLog, "confirm"),
]
"""What may fail on the way into a commit or out of it, and leave memory half-changed."""


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part[0].__name__}.{part[1]}")
async def test_an_error_that_may_leave_memory_other_than_the_disk_ends_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: tuple[type, str]
) -> None:
    path = tmp_path / "data"
    with pytest.RaisesGroup(EngineBroken, flatten_subgroups=True):
        await broken_engine(path, monkeypatch, *part)
    found = await bodies_after_a_start(path)
    # All of what was under way, or nothing; and nothing of what came later.
    reached_the_disk = part[1] in ("stored", "confirm")
    assert found == ([b"during"] if reached_the_disk else [b"before"])


async def test_requests_waiting_when_the_engine_breaks_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    waiting, receipt = Outcome(), Outcome()
    with pytest.RaisesGroup(EngineBroken, flatten_subgroups=True), Store.open(path) as store:
        faulty = FaultyStore(store)
        async with open_engine(path, store=store, committing=faulty) as engine:
            topic = await engine.create_topic("t")
            subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
            consumer, sink = attach(subscription, permits=1)
            await publish(engine, "t", [b"before"])
            await quiet(engine)
            faulty.hold()
            for _ in range(engine.commits_at_once):
                engine.commit(Unit([(topic, [make_entry(b"during")])]), Outcome())
                await trio.testing.wait_all_tasks_blocked()
            engine.commit(Unit([(topic, [make_entry(b"waits")])]), waiting)
            consumer.acknowledge(sink.positions, receipt)  # type: ignore[attr-defined]
            once(monkeypatch, PlannedCommit, "stored")
            faulty.release()
            await trio.sleep_forever()
    for outcome in (waiting, receipt):
        [error] = outcome.calls
        assert isinstance(error, StoreFailed)
    first, *rest = await bodies_after_a_start(path)
    assert first == b"before"
    assert set(rest) == {b"during"}


async def test_an_append_that_cannot_be_placed_costs_its_commit_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        _, sink = attach(subscription, permits=100)
        await publish(engine, "t", [b"one"])
        await quiet(engine)  # or it is planned beside a commit under way, and then once more
        once(monkeypatch, DurableLog, "plan")
        with pytest.raises(StoreFailed):
            await publish(engine, "t", [b"lost"])
        await publish(engine, "t", [b"two"])
        await quiet(engine)
        assert sink.bodies == [b"one", b"two"]


async def test_a_read_that_cannot_be_taken_in_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        bodies = [b"%d" % number for number in range(50)]
        await publish(engine, "t", bodies)
        await quiet(engine)
        once(monkeypatch, Fetch, "_believable")
        _, sink = attach(subscription, permits=100)
        await pass_time(engine, READ_RETRY_S + 1)
        assert sink.bodies == bodies


async def test_a_receipt_fails_when_the_entry_that_was_read_for_it_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        first = await append(engine, "t", [make_entry(b"x", messages=3)])
        await quiet(engine)
        consumer, _ = attach(subscription)
        once(monkeypatch, Acknowledgements, "_acknowledge_messages")
        outcome = Outcome()
        consumer.acknowledge_messages(Position(first), 1, outcome)  # type: ignore[attr-defined]
        assert isinstance(await outcome.wait(), StoreFailed)
        again = Outcome()
        consumer.acknowledge_messages(Position(first), 1, again)  # type: ignore[attr-defined]
        assert await again.wait() is None


async def test_an_entry_that_cannot_be_weighed_stops_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t", TopicSettings())
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        subscription.limit(Limits(ready_bytes_max=10_000), None)
        await publish(engine, "t", [b"one"])
        once(monkeypatch, ByteCounter, "came")
        await publish(engine, "t", [b"two"])
        _, sink = attach(subscription, permits=10)
        await pass_time(engine, READ_RETRY_S + 1)
        assert sink.bodies == [b"one", b"two"]
