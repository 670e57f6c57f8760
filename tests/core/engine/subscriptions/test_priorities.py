"""Priorities: the most urgent ready entry goes first, the oldest of those before the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.subscription.sources import priorities
from arneb_core.testing.engine_kit import Outcome, append, attach, quiet

HIGHEST = 3


def entry(priority: int, body: bytes = b"") -> bytes:
    return EntryHeader(Origin.AMQP, priority=priority).pack() + body


async def queue(engine: Engine, *, durable: bool = True) -> Subscription:
    await engine.create_topic("q", TopicSettings(durable=durable))
    made = await engine.topic("q").subscribe("s", initial=InitialPosition.EARLIEST)
    made.prioritise(HIGHEST)
    return made


@pytest.mark.parametrize("durable", [True, False])
async def test_the_urgent_overtake_and_the_rest_keep_its_order(
    data_dir: Path, durable: bool
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await queue(engine, durable=durable)
        await append(engine, "q", [entry(n, b"%d" % i) for i, n in enumerate([0, 2, 1, 2, 9, 3])])
        _, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert sink.bodies == [b"4", b"5", b"1", b"3", b"2", b"0"], (
            "priority 9 counts as the highest, 3"
        )


async def test_what_came_back_keeps_its_priority(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await queue(engine)
        await append(engine, "q", [entry(1), entry(2), entry(1), entry(2)])
        consumer, sink = attach(subscription, permits=3)
        await quiet(engine)
        first, second, third = sink.positions
        consumer.release([third, second], count=True)  # type: ignore[attr-defined]
        consumer.flow(3)  # type: ignore[attr-defined]
        await quiet(engine)
        assert sink.positions[3:5] == [second, third]
        assert first not in sink.positions[3:]


async def test_a_long_backlog_is_looked_through_in_steps(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "SORT_ENTRIES_MAX", 3)
    async with open_engine(data_dir) as engine:
        subscription = await queue(engine, durable=False)
        for _ in range(20):
            await append(engine, "q", [entry(0)])
        last = await append(engine, "q", [entry(1)])
        _, sink = attach(subscription, permits=1)
        getter, _ = attach(subscription)
        await quiet(engine)
        assert sink.positions == [last]
        run = await getter.pull()  # type: ignore[attr-defined]
        assert run.positions != [last]


async def test_a_get_waits_until_all_is_looked_through(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "SORT_ENTRIES_MAX", 3)
    async with open_engine(data_dir) as engine:
        subscription = await queue(engine, durable=False)
        for _ in range(20):
            await append(engine, "q", [entry(0)])
        last = await append(engine, "q", [entry(1)])
        getter, _ = attach(subscription)
        run = await getter.pull()  # type: ignore[attr-defined]
        assert run.positions == [last]


async def test_a_short_queue_goes_out_in_one_turn(data_dir: Path) -> None:
    """What had to be read to find the most urgent is not read again, one priority at a time."""
    async with open_engine(data_dir) as engine:
        subscription = await queue(engine)
        await append(engine, "q", [entry(n) for n in [1, 3, 0, 2]])
    async with open_engine(data_dir) as engine:
        subscription = engine.topic("q").subscriptions["s"]
        subscription.prioritise(HIGHEST)
        _, sink = attach(subscription, permits=10)
        with trio.fail_after(10):
            while not sink.positions:
                await trio.testing.wait_all_tasks_blocked(0.001)
        assert [position & 0xFF for position in sink.positions] == [1, 3, 0, 2]


async def test_little_of_what_was_looked_at_is_kept(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await queue(engine)
        getter, _ = attach(subscription)
        body = bytes(priorities.KEPT_BYTES_MAX // 10)
        for n in range(60):
            await append(engine, "q", [entry(n % 4, body)])
        await getter.pull()  # type: ignore[attr-defined]
        sets = subscription.machine.state.replay._sets.values()  # type: ignore[attr-defined]
        assert 0 < sum(each.kept_bytes for each in sets) <= priorities.KEPT_BYTES_MAX


async def test_many_priorities_do_not_hold_many_reads(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priorities, "KEPT_BYTES_MAX", 0)
    async with open_engine(data_dir) as engine:
        await engine.create_topic("q")
        subscription = await engine.topic("q").subscribe("s", initial=InitialPosition.EARLIEST)
        subscription.prioritise(255)
        await append(engine, "q", [entry(n % 256, bytes(1000)) for n in range(512)])
    async with open_engine(data_dir) as engine:
        subscription = engine.topic("q").subscriptions["s"]
        subscription.prioritise(255)
        consumer, sink = attach(subscription)
        while len(sink.positions) < 512:
            consumer.flow(15)  # type: ignore[attr-defined]
            await quiet(engine)
            source = subscription.machine.state.replay  # type: ignore[attr-defined]
            holding = [each for each in source._sets.values() if each._fetched]
            assert len(holding) <= priorities.HOLDING_MAX
        assert [each & 0xFF for each in sink.positions] == [
            position & 0xFF for priority in reversed(range(256)) for position in [priority] * 2
        ]


async def test_a_full_queue_drops_the_front_as_rabbitmq_does(data_dir: Path) -> None:
    """Its documentation: a higher priority may be dropped to make way for a lower one."""
    async with open_engine(data_dir) as engine:
        subscription = await queue(engine)
        subscription.limit(Limits(ready_messages_max=2), None)
        await append(engine, "q", [entry(0), entry(2), entry(1)])
        await quiet(engine)
        _, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert [position & 0xFF for position in sink.positions] == [2, 0]


@dataclass
class Model:
    """Positions by what is known of them."""

    priority: dict[Position, int] = field(default_factory=dict)
    ready: set[Position] = field(default_factory=set)

    def next(self, count: int) -> list[Position]:
        """The next ``count`` deliveries, which are not ready any more."""
        order = sorted(
            self.ready, key=lambda position: (-min(self.priority[position], HIGHEST), position)
        )
        self.ready.difference_update(order[:count])
        return order[:count]


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.integers(0, HIGHEST + 2), min_size=1)),
        st.tuples(st.just("flow"), st.integers(1, 6)),
        st.tuples(st.just("pull")),
        st.tuples(
            st.sampled_from(["ack", "release", "ack unseen", "unit"]),
            st.integers(0, 3),
            st.integers(1, 4),
        ),
        st.tuples(st.sampled_from(["leave", "purge", "seek", "restart"])),
    ),
    max_size=20,
)


@given(ops=OPS, in_memory=st.booleans())
@settings(max_examples=25)
def test_deliveries_are_those_of_the_model(ops: Sequence[tuple[Any, ...]], in_memory: bool) -> None:
    async def scenario() -> None:
        with TemporaryDirectory() as position:
            world = World(Path(position, "data"), in_memory)
            await world.play(list(ops))
            with Store.open(world.path) as store, store.snapshot() as snapshot:
                assert check(snapshot) == []

    trio.run(scenario, clock=trio.testing.MockClock(autojump_threshold=0))


class World:
    """One queue with one consumer, beside the model of it."""

    def __init__(self, path: Path, in_memory: bool) -> None:
        self.path = path
        self.in_memory = in_memory
        self.model = Model()
        self.held: list[Position] = []

    async def play(self, ops: list[tuple[Any, ...]]) -> None:
        begun = False
        while ops or not begun:
            async with open_engine(self.path) as engine:
                if not begun:
                    self.subscription = await queue(engine, durable=not self.in_memory)
                    begun = True
                else:
                    self.subscription = engine.topic("q").subscriptions["s"]  # type: ignore[assignment]
                    self.subscription.prioritise(HIGHEST)
                self.engine = engine
                self.attach()
                while ops:
                    op = ops.pop(0)
                    if op == ("restart",):
                        if self.in_memory:
                            continue
                        await quiet(engine)
                        break
                    await self.do(op)
                    await self.agree()
                if not ops:
                    self.consumer.flow(1000)
                    await self.agree(1000)
                    assert not self.model.ready
            self.model.ready.update(self.held)
            self.held = []

    def attach(self) -> None:
        consumer, self.sink = attach(self.subscription)
        self.consumer: Any = consumer
        self.seen = 0
        self.permits = 0

    async def agree(self, more: int = 0) -> None:
        self.permits += more
        await quiet(self.engine)
        got = self.sink.positions[self.seen :]
        self.seen += len(got)
        expected = self.model.next(self.permits)
        assert got == expected
        self.permits -= len(got)
        self.held += got
        assert self.subscription.ready_messages == len(self.model.ready)

    async def do(self, op: tuple[Any, ...]) -> None:
        match op:
            case ("publish", priorities_of):
                first = await append(self.engine, "q", [entry(each) for each in priorities_of])
                for index, priority in enumerate(priorities_of):
                    position = Position(first + index)
                    self.model.priority[position] = priority
                    self.model.ready.add(position)
            case ("flow", count):
                self.permits += count
                self.consumer.flow(count)
            case ("pull",):
                await self.pull()
            case ("leave",):
                self.consumer.detach()
                self.model.ready.update(self.held)
                self.held = []
                self.attach()
            case ("purge",):
                await self.subscription.purge()
                self.model.ready.clear()
            case ("seek",):
                self.seek_back()
                await self.subscription.seek(Position(0))
                self.attach()
            case ("ack unseen", at, count):
                chosen = sorted(self.model.ready)[at : at + count]
                self.consumer.acknowledge(chosen)
                self.model.ready.difference_update(chosen)
            case (answer, at, count):
                self.answer(answer, self.held[at : at + count])

    def answer(self, answer: str, chosen: list[Position]) -> None:
        if answer == "ack":
            self.consumer.acknowledge(chosen)
        elif answer == "unit":
            self.engine.commit(Unit([], [(self.consumer, chosen)]), Outcome())
        else:
            self.consumer.release(chosen, count=True)
            self.model.ready.update(chosen)
        self.held = [each for each in self.held if each not in chosen]

    async def pull(self) -> None:
        await self.agree()
        getter, _ = attach(self.subscription)
        run = await getter.pull()  # type: ignore[attr-defined]
        assert (run.positions if run else []) == self.model.next(1)
        getter.detach()  # type: ignore[attr-defined]
        if run:
            self.model.ready.update(run.positions)

    def seek_back(self) -> None:
        """What the log still has is ready again."""
        topic = self.engine.topic("q")
        first = topic.first
        positions = [] if first is None else [each for each in self.model.priority if each >= first]
        missing = {each for gap in topic.log.missing(Position(first or 0)) for each in gap}
        self.model.ready = set(positions) - missing
        self.held = []


def test_the_model_is_not_trivial() -> None:
    model = Model({Position(1): 0, Position(2): 9, Position(3): 3}, {1, 2, 3})  # type: ignore[arg-type]
    assert model.next(2) == [2, 3]
    assert model.ready == {1}
