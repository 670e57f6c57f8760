"""Grouped entries: the chunks of a message go to one consumer, and others get on meanwhile."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
import trio
from hypothesis import given, note, settings
from hypothesis import strategies as st

from arneb_core.api.entries.entry import EntryFlag, EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.dispatch.groups import hints_of
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.testing.engine_kit import RecordingSink, append, attach, make_entry, quiet


def chunk(group: int, body: bytes = b"x", priority: int = 0) -> bytes:
    flags = EntryFlag.GROUPED
    return EntryHeader(Origin.PULSAR, flags=flags, hint=group, priority=priority).pack() + body


def test_only_grouped_entries_have_a_group() -> None:
    hint = EntryHeader(Origin.AMQP, hint=7).pack()
    assert hints_of([chunk(3), hint, chunk(1), make_entry(b"")]) == [3, 0, 1, 0]


async def begin(engine: Engine, *permits: int):  # type: ignore[no-untyped-def]
    topic = await engine.create_topic("t")
    topic.expect_groups()
    subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
    made = [
        attach(subscription, permits=each, entries_per_turn_max=1, name=f"c{index}")
        for index, each in enumerate(permits)
    ]
    return subscription, [consumer for consumer, _ in made], [sink for _, sink in made]


def bodies(sinks: Sequence[RecordingSink]) -> list[list[bytes]]:
    return [sink.bodies for sink in sinks]


async def test_a_group_goes_to_one_consumer(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        _, consumers, sinks = await begin(engine, 10, 10)
        entries = [chunk(1, b"a1"), chunk(2, b"b1"), chunk(1, b"a2"), chunk(1, b"a3")]
        await append(engine, "t", [*entries, chunk(2, b"b2"), make_entry(b"alone")])
        await quiet(engine)
        assert [each[:3] for each in bodies(sinks)] in (
            [[b"a1", b"a2", b"a3"], [b"b1", b"b2"]],
            [[b"a1", b"a2", b"a3"], [b"b1", b"b2", b"alone"]],
        )
        for consumer, sink in zip(consumers, sinks, strict=True):
            consumer.acknowledge(sink.positions)
            assert consumer.in_flight == 0


async def test_others_get_on_while_a_group_waits_for_its_consumer(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, consumers, sinks = await begin(engine, 1, 10)
        entries = [chunk(1, b"a1"), chunk(1, b"a2"), make_entry(b"1"), chunk(1, b"a3")]
        await append(engine, "t", [*entries, make_entry(b"2")])
        await quiet(engine)
        await append(engine, "t", [make_entry(b"3")])
        await quiet(engine)
        assert bodies(sinks) == [[b"a1"], [b"1", b"2", b"3"]]
        consumers[0].flow(1)
        await quiet(engine)
        assert bodies(sinks) == [[b"a1", b"a2"], [b"1", b"2", b"3"]]
        consumers[0].detach()
        await quiet(engine)
        assert sinks[1].bodies == [b"1", b"2", b"3", b"a1", b"a2", b"a3"]
        consumers[1].acknowledge(sinks[1].positions)
        await quiet(engine)
        assert consumers[1].keys is None, "nobody looks for groups any more"
        assert subscription.ready_messages == 0


async def test_groups_are_found_in_a_log_that_is_opened(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        await append(engine, "t", [chunk(1, b"%d" % number) for number in range(6)])
    async with open_engine(data_dir) as engine:
        subscription = engine.topic("t").subscriptions["s"]
        sinks = [
            attach(subscription, permits=10, entries_per_turn_max=1, name=name)[1] for name in "ab"
        ]
        await quiet(engine)
        assert sorted(bodies(sinks)) == [[], [b"%d" % number for number in range(6)]]


@pytest.mark.real_time
@pytest.mark.parametrize("cold", [False, True])
async def test_a_returned_message_does_not_wait_for_a_group_that_waits(
    data_dir: Path, *, cold: bool
) -> None:
    """However much the consumer of a group has no room for."""
    async with open_engine(data_dir) as engine:
        subscription, consumers, sinks = await begin(engine, 1, 20)
        chunks = [chunk(1, b"a%d" % number) for number in range(30)]
        await append(engine, "t", [*chunks, *(make_entry(b"%d" % each) for each in range(20))])
        await quiet(engine)
        others = [b"%d" % number for number in range(20)]
        assert bodies(sinks) == [[b"a0"], others]
        if cold:
            engine.topic("t").log.tail.clear()
        consumers[1].release(sinks[1].positions, count=True)
        consumers[1].flow(25)
        with trio.fail_after(10):
            await quiet(engine)
        assert subscription.turn() == 0, "there is nothing to do"
        assert sinks[1].bodies == [*others, *others]
        consumers[0].flow(2)
        await quiet(engine)
        assert sinks[0].bodies == [b"a0", b"a1", b"a2"]
        consumers[0].detach()
        await quiet(engine)
        assert sinks[1].bodies[40:] == [b"a%d" % number for number in range(5)]
        consumers[1].flow(100)
        await quiet(engine)
        assert sinks[1].bodies[40:] == [b"a%d" % number for number in range(30)]


@pytest.mark.real_time
async def test_what_waits_for_its_group_expires_in_time(data_dir: Path) -> None:
    now_ms = 1_000_000
    async with open_engine(data_dir, now_ms=lambda: now_ms) as engine:
        subscription, _, sinks = await begin(engine, 1, 20)
        subscription.limit(Limits(message_ttl_ms=1_000), None)
        stamped = EntryHeader(
            Origin.PULSAR, publish_time_ms=now_ms, flags=EntryFlag.GROUPED, hint=1
        )
        await append(engine, "t", [stamped.pack() + b"a%d" % number for number in range(12)])
        await quiet(engine)
        assert bodies(sinks) == [[b"a0"], []] and subscription.ready_messages == 11
        now_ms += 1_000
        subscription.machine.tick()
        with trio.fail_after(10):
            await quiet(engine)
        assert subscription.ready_messages == 0


@pytest.mark.real_time
async def test_a_group_that_waits_does_not_keep_a_queue_with_priorities_busy(
    data_dir: Path,
) -> None:
    """What its consumer has no room for is set aside, and others get on."""
    async with open_engine(data_dir) as engine:
        subscription, consumers, sinks = await begin(engine, 1, 10)
        subscription.prioritise(5)
        await quiet(engine)
        entries = [chunk(1, b"a1", 1), chunk(1, b"a2", 1), make_entry(b"1"), chunk(1, b"a3", 1)]
        await append(engine, "t", [*entries, make_entry(b"2")])
        with trio.fail_after(10):
            await quiet(engine)
        assert subscription.turn() == 0, "there is nothing to do"
        assert bodies(sinks) == [[b"a1"], [b"1", b"2"]]
        assert subscription.ready_messages == 2
        urgent = EntryHeader(Origin.PULSAR, priority=5).pack() + b"urgent"
        await append(engine, "t", [urgent])
        await quiet(engine)
        assert sinks[1].bodies == [b"1", b"2", b"urgent"]
        consumers[0].flow(1)
        await quiet(engine)
        assert sinks[0].bodies == [b"a1", b"a2"]
        consumers[0].detach()
        await quiet(engine)
        assert sinks[1].bodies == [b"1", b"2", b"urgent", b"a1", b"a2", b"a3"]
        consumers[1].acknowledge(sinks[1].positions)
        await quiet(engine)
        assert subscription.ready_messages == 0


@pytest.mark.real_time
async def test_what_is_set_aside_is_delivered_to_the_next_consumer(data_dir: Path) -> None:
    """All consumers leave at once; it was acknowledged by a stranger meanwhile, or was not."""
    async with open_engine(data_dir) as engine:
        subscription, consumers, sinks = await begin(engine, 1, 1)
        subscription.prioritise(5)
        first = await append(engine, "t", [chunk(1, b"%d" % each) for each in range(5)])
        with trio.fail_after(10):
            await quiet(engine)
        assert bodies(sinks) == [[b"0"], []]
        consumers[1].acknowledge([Position(first + 2)])
        await quiet(engine)
        assert subscription.ready_messages == 3
        for consumer in consumers:
            consumer.detach()
        _, sink = attach(subscription, unlimited=True, message_level=True)
        await quiet(engine)
        assert sink.bodies == [b"0", b"1", b"3", b"4"]


async def test_a_replay_that_the_log_has_no_more_takes_no_lower_one_along(data_dir: Path) -> None:
    """A gap in the middle of a log: what is set aside before it is still there."""
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        first = await append(engine, "t", [make_entry(b"a")])
        fetch = Fetch(topic.log, topic.log.read_cold, lambda: None, lambda fetch: None)
        replay = ReplaySet(topic.log, fetch)
        missing = Position(first + 5)
        replay.add([first, missing])
        replay.set_aside([first])
        assert replay.peek() is None and replay.has_ready is False
        assert list(replay.positions) == [first]
        replay.bring_back([first])
        if replay.peek() is None:
            await quiet(engine)  # it is being read
        assert replay.peek() == ([first], [make_entry(b"a")])


class Machine:
    """A Shared subscription, and who holds what of which group."""

    def __init__(self, engine: Engine, subscription: LogSubscription) -> None:
        self.engine = engine
        self.subscription = subscription
        self.groups: dict[Position, int] = {}
        self.unacked: set[Position] = set()
        self.held: dict[int, set[Position]] = {}
        self.consumers: dict[int, object] = {}
        self.wrong: list[str] = []
        self.next_number = 0

    def publish(self, groups: Sequence[int]) -> None:
        for group in groups:
            entry = chunk(group, priority=group) if group else make_entry(b"")

            def done(error: Exception | None, position: Position, group: int = group) -> None:
                self.groups[position] = group
                self.unacked.add(position)

            self.engine.append(self.engine.topic("t"), [entry], done)

    def attach(self, permits: int) -> None:
        number, self.next_number = self.next_number, self.next_number + 1
        self.held[number] = set()
        spec = ConsumerSpec(f"c{number}", SubscriptionType.SHARED, entries_per_turn_max=2)
        self.consumers[number] = consumer = self.subscription.attach(spec, Sink(self, number))
        consumer.flow(permits)

    def took(self, number: int, run: Deliveries) -> None:
        for position in run.positions:
            if position not in self.unacked or any(position in each for each in self.held.values()):
                self.wrong.append(f"{position} is not ready")
            group = self.groups[position]
            holders = {n for n, each in self.held.items() for p in each if self.groups[p] == group}
            if group and holders - {number}:
                self.wrong.append(f"{position} of {group} went to {number}, not {holders}")
            out = {p for each in self.held.values() for p in each}
            before = [p for p in self.unacked - out if p < position and self.groups[p] == group]
            if group and before:
                self.wrong.append(f"{position} overtakes {before}")
            self.held[number].add(position)

    def check(self) -> None:
        assert not self.wrong, self.wrong
        free = {n for n, each in self.consumers.items() if each.receiver.room > 0}  # type: ignore[attr-defined]
        out = {p for each in self.held.values() for p in each}
        replay = self.subscription.machine.state.replay
        # What came back is looked at in any case, what is new only if few wait for their consumers.
        looked_at = self.unacked - out
        if not isinstance(replay, PrioritySource) and replay.aside >= 4:
            looked_at &= {Position(each) for each in replay.positions}
        if not isinstance(replay, PrioritySource) or replay.aside < 4:
            for position in looked_at:
                holders = {
                    n for n, each in self.held.items() for p in each
                    if self.groups[p] and self.groups[p] == self.groups[position]
                }  # fmt: skip
                assert not ((holders or free) & free), f"{position} waits for nothing"


class Sink:
    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number

    def deliver(self, run: Deliveries) -> None:
        self.machine.took(self.number, run)

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        """Nobody asks."""


CHOICE = st.integers(0, 100)
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.integers(0, 3), max_size=8)),
    st.tuples(st.just("attach"), st.integers(0, 5)),
    st.tuples(st.just("detach"), CHOICE),
    st.tuples(st.just("flow"), CHOICE, st.integers(1, 5)),
    st.tuples(st.just("ack"), CHOICE, st.sets(st.integers(0, 8), max_size=5)),
    st.tuples(st.just("release"), CHOICE, st.sets(st.integers(0, 8), max_size=5)),
    st.tuples(st.just("quiet")),
)


async def take_step(machine: Machine, step: tuple) -> None:
    match step:
        case ("publish", groups):
            machine.publish(groups)
        case ("attach", permits):
            machine.attach(permits)
        case ("quiet",):
            await quiet(machine.engine)
            machine.check()
        case (what, chosen, *arguments) if machine.consumers:
            number = sorted(machine.consumers)[chosen % len(machine.consumers)]
            act(machine, what, number, *arguments)


def act(machine: Machine, what: str, number: int, *arguments: object) -> None:
    consumer = machine.consumers[number]
    held = sorted(machine.held[number])
    match what, *arguments:
        case "detach", *_:
            del machine.held[number], machine.consumers[number]
            consumer.detach()  # type: ignore[attr-defined]
        case "flow", int(permits):
            consumer.flow(permits)  # type: ignore[attr-defined]
        case ("ack" | "release") as answer, set(chosen):
            positions = [held[each] for each in chosen if each < len(held)]
            machine.held[number].difference_update(positions)
            if answer == "ack":
                machine.unacked.difference_update(positions)
                consumer.acknowledge(positions)  # type: ignore[attr-defined]
            else:
                consumer.release(positions, count=True)  # type: ignore[attr-defined]


async def run_program(directory: Path, program: list[tuple], highest: int) -> None:
    async with open_engine(directory) as engine:
        topic = await engine.create_topic("t")
        topic.expect_groups()
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        subscription.prioritise(highest)
        machine = Machine(engine, subscription)
        for step in [*program, ("quiet",)]:
            await take_step(machine, step)
        machine.attach(0)
        while True:
            for number, consumer in machine.consumers.items():
                act(machine, "ack", number, set(range(1000)))
                consumer.flow(max(0, 50 - consumer.receiver.permits))
            await quiet(engine)
            machine.check()
            if not any(machine.held.values()):
                break
        assert not machine.unacked


@pytest.mark.real_time
@settings(max_examples=80, deadline=None)
@given(st.lists(STEPS, max_size=30), st.sampled_from([0, 2]))
def test_groups_agree_with_their_model(program: list[tuple], highest: int) -> None:
    note(f"{program}")
    with (
        TemporaryDirectory() as directory,
        patch("arneb_core.subscription.dispatching.grouped.LOOK_AHEAD_MAX", 4),
        patch("arneb_core.subscription.sources.replay.REPLAY_RUN_MIN", 2),
        patch("arneb_core.subscription.sources.replay.REPLAY_RUN_MAX", 3),
    ):
        trio.run(run_program, Path(directory, "data"), program, highest)
