"""Delayed delivery, against a model that is a table of times: whatever happens, each subscription
gets each entry at its time, not before, and none twice, although the clock is set."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.settings import DelayedSettings, TopicSettings, TrackerKind
from arneb_core.delayed import index
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.log import planning
from arneb_core.store.checking.check import check
from arneb_core.subscription.sources import due
from arneb_core.testing.engine_kit import append, attach, quiet

START_MS: Final = 1_000_000
NAMES: Final = ("a", "b")
SHARED, EXCLUSIVE = SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE

OPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.integers(-2, 40), min_size=1, max_size=8)),
        st.tuples(st.just("wait"), st.integers(1, 25)),
        st.tuples(st.just("flow"), st.sampled_from(NAMES), st.integers(1, 6)),
        st.tuples(
            st.sampled_from(["ack", "release", "ack unseen"]),
            st.sampled_from(NAMES),
            st.integers(0, 3),
            st.integers(1, 6),
        ),
        st.tuples(
            st.sampled_from(["leave", "switch", "purge", "seek"]),
            st.sampled_from(NAMES),
        ),
        st.tuples(st.just("set clock"), st.integers(-60, 20)),
        st.tuples(st.sampled_from(["restart", "kill"])),
    ),
    max_size=25,
)

KINDS: Final = {
    "bucket": (True, DelayedSettings(tick_ms=1, seal_entries=4, segment_entries=2, segment_ms=9,
                                     buckets_max=2)),
    "memory": (True, DelayedSettings(TrackerKind.MEMORY, tick_ms=1)),
    "transient": (False, DelayedSettings(tick_ms=1)),
}  # fmt: skip


def entry(at_ms: int) -> bytes:
    return EntryHeader(Origin.PULSAR, deliver_at_ms=at_ms).pack()


@dataclass
class Side:
    """One subscription: what the model knows of it, and its consumer."""

    ready: set[Position] = field(default_factory=set)
    came_due: set[Position] = field(default_factory=set)
    """By the clock as it was then: these may come although it was set back."""
    held: list[Position] = field(default_factory=list)
    type: SubscriptionType = SHARED
    permits: int = 0
    consumer: Any = None
    sink: Any = None
    seen: int = 0


def play(kind: str, ops: Sequence[tuple[Any, ...]]) -> None:
    async def scenario() -> None:
        with TemporaryDirectory() as position:
            world = World(Path(position), *KINDS[kind])
            await world.play(list(ops))
            assert check(world.path) == []

    with (
        patch.object(planning, "LEDGER_ENTRIES_MAX", 6),
        # What is due at once is several batches, and each of them several turns' work.
        patch.multiple(index, BATCH_STEP=2, BATCH_MIN=3, BATCH_FIRST=4, BATCH_MAX=8, QUICK_MS=9),
        patch.multiple(due, READ_ENTRIES_MAX=2, DUE_RUN_MAX=3),
    ):
        trio.run(scenario, clock=trio.testing.MockClock())


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_at_its_time(kind: str) -> None:
    @given(ops=OPS)
    @settings(max_examples=40)
    def played(ops: Sequence[tuple[Any, ...]]) -> None:
        play(kind, ops)

    played()


FOUND: Final = {
    "what was read for all is out of the index when one seeks back": [
        ("flow", "a", 1), ("flow", "b", 1), ("publish", [1]), ("wait", 1), ("seek", "a"),
    ],
    "the reader is past what is due when nothing is held back any more": [
        ("flow", "a", 1), ("flow", "b", 1), ("publish", [1, 1]), ("wait", 1), ("switch", "a"),
    ],
    "what was not delayed is among it": [
        ("flow", "a", 1), ("flow", "b", 2), ("publish", [0, 1]), ("wait", 1), ("flow", "a", 1),
        ("seek", "a"), ("flow", "a", 1),
    ],
    "the clock is set forward": [
        ("flow", "a", 1), ("flow", "b", 1), ("publish", [5_000]), ("set clock", 4_500),
    ],
    "the clock is set back behind what came due": [
        ("flow", "a", 9), ("flow", "b", 1), ("publish", [5]), ("wait", 9), ("set clock", -50),
        ("publish", [20]), ("wait", 9), ("release", "a", 0, 1), ("wait", 20),
    ],
}  # fmt: skip
"""Once broke the promise."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ops", FOUND.values(), ids=FOUND.keys())
def test_it_comes_at_its_time_also_if(kind: str, ops: list[tuple[Any, ...]]) -> None:
    play(kind, ops)


class World:
    """One topic with two subscriptions."""

    def __init__(self, position: Path, durable: bool, delays: DelayedSettings) -> None:
        self.path = position / "0"
        self.durable = durable
        self.delays = delays
        self.times: dict[Position, int] = {}
        self.sides = {name: Side() for name in NAMES}
        self.set_ms = 0

    @property
    def now_ms(self) -> int:
        return START_MS + self.set_ms + round(trio.current_time() * 1000)

    async def play(self, ops: list[tuple[Any, ...]]) -> None:
        begun, clock = False, trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        self.clock = clock
        while ops or not begun:
            killed = False
            async with open_engine(self.path, now_ms=lambda: self.now_ms, delays=self.delays) as e:
                self.engine: Engine = e
                await self.begin(fresh=not begun)
                begun = True
                await self.agree()
                while ops:
                    op = ops.pop(0)
                    if op[0] in ("restart", "kill"):
                        if not self.durable:
                            continue
                        if op[0] == "kill":
                            self.clock.jump(0.1)  # acks are durable by then
                            await self.agree()
                            following = self.path.with_name(str(int(self.path.name) + 1))
                            shutil.copytree(self.path, following)
                            killed = True
                        break
                    await self.do(op)
                    await self.agree()
                else:
                    await self.finish()
            if killed:
                self.path = following
            for side in self.sides.values():
                side.ready.update(side.held)
                side.held = []

    async def begin(self, *, fresh: bool) -> None:
        if fresh:
            await self.engine.create_topic("t", TopicSettings(durable=self.durable))
        for name, side in self.sides.items():
            await self.engine.topic("t").subscribe(name, initial=InitialPosition.EARLIEST)
            self.attach(name, side.type)

    async def finish(self) -> None:
        """With time and permits enough, everything comes."""
        for side in self.sides.values():
            side.consumer.flow(1000)
            side.permits += 1000
        await self.agree()
        self.clock.jump(0.1 + max(0, -self.set_ms) / 1000)
        await self.agree()
        assert not any(side.ready for side in self.sides.values())

    def attach(self, name: str, kind: SubscriptionType) -> None:
        side = self.sides[name]
        side.consumer, side.sink = attach(self.subscription(name), type=kind)
        side.seen = side.permits = 0
        side.type = kind

    def subscription(self, name: str) -> Any:
        return self.engine.topic("t").subscriptions[name]

    async def agree(self) -> None:
        await quiet(self.engine)
        for name, side in self.sides.items():
            due = {
                position
                for position in side.ready
                if side.type is not SHARED or self.times[position] <= self.now_ms
            }
            side.came_due |= due
            allowed = side.came_due & side.ready
            got = side.sink.positions[side.seen :]
            side.seen += len(got)
            early = [position for position in got if position not in allowed]
            assert not early, f"{name} got {early} too early or twice"
            assert len(set(got)) == len(got), f"{name} got something twice"
            assert len(got) >= min(side.permits, len(due)), f"{name} waits in vain"
            assert len(got) <= side.permits, f"{name} got more than it asked for"
            side.permits -= len(got)
            side.ready.difference_update(got)
            side.held += got

    async def do(self, op: tuple[Any, ...]) -> None:
        match op:
            case ("publish", delays):
                topic = self.engine.topic("t")
                times = [self.now_ms + delay if delay else 0 for delay in delays]
                if any(times):
                    self.engine.expect_delays(topic)
                first = await append(self.engine, "t", [entry(each) for each in times])
                for index, at_ms in enumerate(times):
                    self.times[Position(first + index)] = at_ms
                    for side in self.sides.values():
                        side.ready.add(Position(first + index))
            case ("wait", ms):
                self.clock.jump(ms / 1000 + 1e-6)  # a sleep may end a rounding later
            case ("set clock", ms):
                self.set_ms += ms
                if ms > 0:
                    self.clock.jump(1.001)  # that it was set forward is noticed within a second
            case ("flow", name, count):
                self.sides[name].permits += count
                self.sides[name].consumer.flow(count)
            case ("leave" | "switch", name):
                side = self.sides[name]
                side.consumer.detach()
                side.ready.update(side.held)
                side.held = []
                other = EXCLUSIVE if side.type is SHARED else SHARED
                self.attach(name, other if op[0] == "switch" else side.type)
            case ("purge", name):
                await self.subscription(name).purge()
                self.sides[name].ready.clear()
            case ("seek", name):
                await self.seek_back(name)
            case (answer, name, at, count):
                self.answer(answer, self.sides[name], at, count)

    def answer(self, answer: str, side: Side, at: int, count: int) -> None:
        if answer == "ack unseen":
            chosen = sorted(side.ready)[at : at + count]
            side.consumer.acknowledge(chosen)
            side.ready.difference_update(chosen)
            return
        chosen = side.held[at : at + count]
        if answer == "ack":
            side.consumer.acknowledge(chosen)
        else:
            side.consumer.release(chosen, count=True)
            side.ready.update(chosen)
        side.held = [each for each in side.held if each not in chosen]

    async def seek_back(self, name: str) -> None:
        """What the log still has is ready again."""
        side, topic = self.sides[name], self.engine.topic("t")
        await self.subscription(name).seek(Position(0))
        first = topic.first
        positions = [] if first is None else [each for each in self.times if each >= first]
        missing = {each for gap in topic.log.missing(Position(first or 0)) for each in gap}
        side.ready, side.held = set(positions) - missing, []
        self.attach(name, side.type)
