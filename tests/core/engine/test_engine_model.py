"""Random programs against the engine and the model, with crashes and failing commits.

Two durable subscriptions over a durable topic (Shared, Exclusive), one over a topic that is
not, readers over both; small ledgers, so that trims happen all the time.
"""

import shutil
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import trio
from hypothesis import example, given, note, settings
from hypothesis import strategies as st
from tests.core.engine.engine_model import (
    PUBLISHED_MS,
    Message,
    ModelConsumer,
    ModelSink,
    SubscriptionModel,
    TopicModel,
    follow_trims,
)

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import BEFORE_ALL, Position, ledger_of
from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import Outcome, make_entry, quiet
from arneb_core.testing.faults import FaultyStore
from arneb_core.testing.memory_commit_log import MemoryCommitLog

TARGETS = [("t", "s"), ("t", "s"), ("t", "x"), ("m", "s"), ("t", "reader"), ("m", "reader")]
KINDS = ["batch", "message", "message", "no ack", "shares a window"]

target = st.sampled_from(TARGETS)
bits = st.integers(0, 255)
sizes = st.lists(st.sampled_from([1, 1, 1, 1, 2, 5]), min_size=1, max_size=8)
number = st.integers(0, 3)

PROGRAM_STEPS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from("ttm"), sizes),
    st.tuples(st.just("attach"), target, st.sampled_from(KINDS), st.integers(0, 4)),
    st.tuples(st.just("flow"), target, number, st.integers(1, 6)),
    st.tuples(st.just("ack"), target, number, bits),
    st.tuples(st.just("ack message"), target, number, bits),
    st.tuples(st.just("ack anything"), target, number, bits),
    st.tuples(st.just("ack until"), target, number, bits),
    st.tuples(st.just("release"), target, number, bits, st.booleans()),
    st.tuples(st.just("detach"), target, number),
    st.tuples(st.just("pull"), target, number),
    st.tuples(st.just("unit"), target, number, bits, st.booleans()),
    st.tuples(st.just("writable"), target, number, st.booleans()),
    st.tuples(st.just("purge"), target),
    st.tuples(st.just("seek"), target, bits, st.sampled_from([None, None, 0, 1, 2, 31])),
    st.tuples(st.just("fail")),
    st.tuples(st.just("delete"), st.sampled_from("tmm")),
)


class Machine:
    """One engine, its two topics, and the model of all that."""

    def __init__(self, engine: Engine, faulty: FaultyStore) -> None:
        self.engine = engine
        self.faulty = faulty
        self.topics: dict[str, TopicModel] = {}
        self.models: dict[tuple[str, str], SubscriptionModel] = {}
        self.window = Window(3)
        self.numbered = 0

    def subscription(self, key: tuple[str, str]) -> LogSubscription:
        return self.engine.topic(key[0]).subscriptions[key[1]]

    def over(self, topic: str) -> list[SubscriptionModel]:
        return [model for (name, _), model in self.models.items() if name == topic]

    async def create(self, name: str) -> None:
        """A topic with its lasting subscriptions."""
        topic = await self.engine.create_topic(name, TopicSettings(durable=name == "t"))
        self.topics[name] = TopicModel(name)
        for each in ("s", "x") if name == "t" else ("s",):
            await topic.subscribe(each, initial=InitialPosition.EARLIEST)
            self.models[name, each] = SubscriptionModel(self.topics[name], each, set())

    async def settle_down(self) -> None:
        """Wait until nothing goes on, and compare."""
        await quiet(self.engine)
        for name, model in self.topics.items():
            follow_trims(self.engine.topic(name), model, self.over(name))
        for key, model in list(self.models.items()):
            if key[1] == "reader" and not model.peers:
                assert "reader" not in self.engine.topic(key[0]).subscriptions
                del self.models[key]
                continue
            model.compare(self.subscription(key))
        sharing = [
            len(peer.messages)
            for model in self.models.values()
            for peer in model.peers.values()
            if peer.window is self.window
        ]
        assert self.window.in_flight == sum(sharing)
        assert len(self.window.sharers) == len(sharing)
        readers = [self.subscription(key).machine.state.reader for key in self.models]
        assert self.engine.ahead.bytes == sum(each._bytes for each in readers)
        tails = [topic.log.tail for topic in self.engine.topics.values() if topic.durable]
        assert len(self.engine.budget) == sum(map(len, tails))


async def take_step(machine: Machine, step: tuple) -> None:
    """Do ``step`` to the engine and to the model, and compare."""
    kind, *arguments = step
    if kind == "publish":
        await publish(machine, *arguments)
    elif kind == "fail":
        machine.faulty.fail_until_healed()
        outcome = Outcome()
        machine.engine.append(machine.engine.topic("t"), [make_entry(b"never")], outcome)
        assert isinstance(await outcome.wait(), StoreFailed)
        machine.faulty.heal()
    elif kind == "delete":
        (name,) = arguments
        await machine.engine.delete_topic(name)
        assert not any(model.peers for model in machine.over(name)), "a consumer was not told"
        machine.models = {key: each for key, each in machine.models.items() if key[0] != name}
        await machine.create(name)
    elif kind == "attach":
        await attach(machine, *arguments)
    else:
        key = arguments[0]
        if key in machine.models:
            await step_of_subscription(machine, kind, key, arguments[1:])
    await machine.settle_down()


async def publish(machine: Machine, name: str, sizes: list[int]) -> None:
    """Append one run; the entries name their own places."""
    topic, model = machine.engine.topic(name), machine.topics[name]
    first = topic.log.plan([], 0, machine.engine.now_ms()).first
    positions = [Position(first + index) for index in range(len(sizes))]
    assert first > model.highest, "a position was given out twice"
    model.highest = positions[-1]
    model.sizes.update(zip(positions, sizes, strict=True))
    model.batched |= {ledger_of(position) for position in positions if model.sizes[position] > 1}
    outcome = Outcome()
    machine.engine.append(topic, [model.entry(position) for position in positions], outcome)
    assert await outcome.wait() is None


async def attach(machine: Machine, key: tuple[str, str], kind: str, limit: int) -> None:
    name, subscription_name = key
    topic = machine.engine.topic(name)
    if subscription_name == "reader" and key not in machine.models:
        positions = sorted(machine.topics[name].sizes)
        start = positions[len(positions) * limit // 5] if positions else None
        await topic.subscribe(
            "reader", durable=False, start=start, initial=InitialPosition.EARLIEST
        )
        model = machine.models[key] = SubscriptionModel(machine.topics[name], "reader", set())
        model.acked = model.topic.of(
            position for position in positions if start and position < start
        )
    model, subscription = machine.models[key], machine.subscription(key)
    is_exclusive = subscription_name == "x"
    if is_exclusive and model.peers:
        return
    shares = kind == "shares a window"
    window = machine.window if shares else Window(limit) if kind == "message" else None
    by_permits = kind == "batch"
    spec = ConsumerSpec(
        "c",
        SubscriptionType.EXCLUSIVE if is_exclusive else SubscriptionType.SHARED,
        message_level=not by_permits,
        unlimited=not by_permits,
        windows=(window,) if window is not None else (),
        entries_per_turn_max=20 if by_permits else 1,
        acks=kind != "no ack",
    )
    number = machine.numbered = machine.numbered + 1
    model.peers[number] = ModelConsumer(spec.acks, window, by_permits)
    model.consumers[number] = subscription.attach(spec, ModelSink(model, number))


async def step_of_subscription(
    machine: Machine, kind: str, key: tuple[str, str], arguments: list
) -> None:
    model, subscription = machine.models[key], machine.subscription(key)
    if kind == "purge":
        ready = model.ready
        purged = await subscription.purge()
        if model.topic.is_plain:
            assert purged == len(ready)
        model.settle(ready)
        if not model.topic.is_plain and not model.unsettled:
            assert subscription.ready_messages == 0
    elif kind == "seek":
        await seek(model, subscription, *arguments)
    elif model.peers:
        numbers = sorted(model.peers)
        await step_of_consumer(
            machine, kind, key, numbers[arguments[0] % len(numbers)], arguments[1:]
        )


async def seek(
    model: SubscriptionModel, subscription: LogSubscription, index: int, mask: int | None
) -> None:
    """Seek to some entry that is or was there, or beyond."""
    positions = sorted(model.topic.sizes)
    position = Position(
        (positions[0] if positions else BEFORE_ALL) - 1 + index % (len(positions) + 3)
    )
    if subscription.name == "reader":
        for number in list(model.peers):
            model.consumers.pop(number).detach()
            model.peers.pop(number)
        return
    await subscription.seek(position, mask)
    assert not model.peers, "a consumer is still attached"
    model.acked = model.topic.of(each for each in positions if each < position)
    if mask is not None and position in model.topic.sizes:
        size = model.topic.sizes[position]
        model.acked |= {(position, i) for i in range(size) if not mask >> i & 1}
    model.seen.clear()
    model.counts.clear()
    model.suspect_until = model.last_new = BEFORE_ALL


async def step_of_consumer(
    machine: Machine, kind: str, key: tuple[str, str], number: int, arguments: list
) -> None:
    model = machine.models[key]
    consumer, peer = model.consumers[number], model.peers[number]
    held = peer.messages
    by_place: dict[Position, set[Message]] = defaultdict(set)
    for message in held:
        by_place[message[0]].add(message)
    positions = sorted(by_place)
    chosen = [
        position for i, position in enumerate(positions) if arguments and arguments[0] >> i % 8 & 1
    ]
    in_chosen = {message for position in chosen for message in by_place[position]}
    if kind == "flow":
        peer.permits += arguments[0]
        consumer.flow(arguments[0])
    elif kind == "writable":
        consumer.writable = arguments[0]
        consumer.wake()
    elif kind == "detach":
        model.peers.pop(number)
        model.consumers.pop(number)
        consumer.detach()
    elif kind == "pull":
        ready = model.ready
        run = await consumer.pull()
        assert (run is None) == (not ready), f"ready: {ready}"
        if run is not None:
            assert model.took(number, run) == ready[:1], "expected the first ready message"
    elif kind == "ack":
        model.settle(in_chosen)
        consumer.acknowledge(chosen)
    elif kind == "ack message" and held:
        message = sorted(held)[arguments[0] % len(held)]
        model.settle([message])
        consumer.acknowledge_messages(message[0], 1 << message[1])
    elif kind == "ack anything":
        await acknowledge_anything(machine, key, number, arguments[0])
    elif kind == "ack until" and key[1] == "x" and model.topic.sizes:
        await acknowledge_until(model, number, arguments[0])
    elif kind == "release":
        for position in chosen:
            held -= by_place[position]
            if arguments[1]:
                model.counts[position] = model.counts.get(position, 0) + 1
        consumer.release(chosen, count=arguments[1])
    elif kind == "unit":
        await unit(machine, model, number, chosen, in_chosen, fails=arguments[1])


async def acknowledge_anything(
    machine: Machine, key: tuple[str, str], number: int, mask: int
) -> None:
    """Acknowledge entries wherever they are, and some that are nowhere."""
    model, subscription = machine.models[key], machine.subscription(key)
    positions = sorted(model.topic.sizes)
    chosen = [position for i, position in enumerate(positions) if mask >> i % 8 & 1]
    for position in chosen:
        messages = model.topic.of([position])
        if position in subscription.machine.state.divided:
            own = model.peers[number].messages & messages
            others = {each for peer in model.peers.values() for each in peer.messages}
            messages = own or messages - others
        model.settle(messages)
    beyond = Position((positions[-1] if positions else BEFORE_ALL) + 1)
    model.consumers[number].acknowledge([*reversed(chosen), beyond])


async def acknowledge_until(model: SubscriptionModel, number: int, choice: int) -> None:
    """Acknowledge everything up to some place, perhaps with part of the entry there."""
    positions = sorted(model.topic.sizes)
    position = positions[choice % len(positions)]
    outcome = Outcome()
    if choice & 128:
        mask = choice >> 3 & 3
        done = {(position, i) for i in range(model.topic.sizes[position]) if mask >> i & 1}
        model.settle(model.topic.of(each for each in positions if each < position) | done)
        model.consumers[number].acknowledge_until(position, mask, outcome)
    elif choice & 64:
        model.settle(model.topic.messages)
        model.consumers[number].acknowledge_until(Position(positions[-1] + 100), None, outcome)
    else:
        model.settle(model.topic.of(each for each in positions if each <= position))
        model.consumers[number].acknowledge_until(position, None, outcome)
    assert await outcome.wait() is None


async def unit(
    machine: Machine,
    model: SubscriptionModel,
    number: int,
    chosen: list[Position],
    messages: set[Message],
    *,
    fails: bool,
) -> None:
    """Acknowledge here and append there, together."""
    topic = machine.engine.topic("t")
    first = topic.log.plan([], 0, machine.engine.now_ms()).first
    if fails:
        machine.faulty.fail_until_healed()
    else:
        machine.topics["t"].sizes[first] = 1
    made = Unit(
        [(topic, [make_entry(b"%d" % first, publish_time_ms=PUBLISHED_MS)])],
        [(model.consumers[number], chosen)],
    )
    try:
        await machine.engine.committed(made)
        assert not fails
        model.settle(messages)
    except CommitFailed:
        assert fails
    machine.faulty.heal()


async def run_program(directory: Path, programs: list[tuple[bool, list[tuple]]]) -> None:
    """Each program runs in an engine of its own over the same data; between them the engine
    stops, or the process dies without a word and only what was durable counts."""
    before: Machine | None = None
    was_clean = True
    for index, (is_clean, program) in enumerate(programs):
        with Store.open(directory) as store:
            faulty = FaultyStore(store)
            async with open_engine(directory, store=store, committing=faulty) as engine:
                machine = Machine(engine, faulty)
                if before is None:
                    await machine.create("t")
                else:
                    take_over(machine, before, was_clean=was_clean)
                await machine.create("m")
                await machine.settle_down()
                for step in program:
                    await take_step(machine, step)
                for name in ("s", "x"):
                    outcome = Outcome()
                    machine.subscription(("t", name)).receipt(outcome)
                    assert await outcome.wait() is None
                crashed = directory.with_name(f"crash{index}")
                store.copy(_empty(crashed))
            for model in machine.models.values():
                assert not model.peers and not model.wrong
        assert check(directory) == []
        directory = directory if is_clean else crashed
        before, was_clean = machine, is_clean
        assert check(directory) == []


def take_over(machine: Machine, before: Machine, *, was_clean: bool) -> None:
    """What the next engine must know of what the last one did."""
    topic = machine.topics["t"] = before.topics["t"]
    for name in ("s", "x"):
        model = before.models["t", name]
        made = SubscriptionModel(topic, name, model.acked)
        known = {position for position, _ in model.seen} if was_clean else topic.sizes
        made.suspect_until = max([model.suspect_until, *known])
        machine.models["t", name] = made


def _empty(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


PROGRAMS = st.lists(
    st.tuples(st.booleans(), st.lists(PROGRAM_STEPS, min_size=1, max_size=30)),
    min_size=1,
    max_size=3,
)
"""Each with whether it is followed by a clean stop."""


@settings(max_examples=150, deadline=None)
@given(PROGRAMS, st.sampled_from([1, 1 << 20]))
@example(
    # The batch is gone and its ledger is not, which still counts with the batch.
    [
        (
            False,
            [
                ("publish", "t", [1]),
                ("publish", "m", [5, 1]),
                ("attach", ("m", "reader"), "message", 3),
                ("publish", "m", [1]),
                ("purge", ("m", "s")),
                ("ack", ("m", "reader"), 0, 1),
            ],
        )
    ],
    1,
)
def test_engine_agrees_with_the_model(
    programs: list[tuple[bool, list[tuple]]], ended_bytes_min: int
) -> None:
    """With ledgers that end as soon as they are acknowledged, and with such as wait."""
    note(f"{programs}")
    play(programs, ended_bytes_min=ended_bytes_min)


@settings(max_examples=25, deadline=None)
@given(PROGRAMS, st.integers(0, 1 << 16))
def test_engine_agrees_with_the_model_over_a_commit_log_that_is_late(
    programs: list[tuple[bool, list[tuple]]], seed: int
) -> None:
    """With eight commits under way, and each of them late."""
    note(f"{programs}")
    log = partial(MemoryCommitLog, depth=8, delays=Random(seed))
    with patch("arneb_core.engine.engine.LocalCommitLog", log):
        play(programs, ended_bytes_min=1)


def play(programs: list[tuple[bool, list[tuple]]], *, ended_bytes_min: int) -> None:
    with TemporaryDirectory() as directory, ExitStack() as small:
        small.enter_context(patch("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 12))
        small.enter_context(patch("arneb_core.log.retention.ENDED_BYTES_MIN", ended_bytes_min))
        small.enter_context(patch("arneb_core.engine.trimming.trimming.SWEEP_RUNS_MIN", 2))
        trio.run(run_program, Path(directory, "data"), programs)
