"""Random programs against the engine and a model of it, with crashes and failing commits.

The model is a list: what was appended, what of it is acknowledged, and who holds what.
Everything that the engine says must be true of that list.
"""

import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
from hypothesis import given, note, settings
from hypothesis import strategies as st

from arneb_core.engine import Engine, open_engine
from arneb_core.errors import StoreFailed
from arneb_core.interface import ConsumerSpec, Deliveries, InitialPosition, Window
from arneb_core.position import Position
from arneb_core.store.check import check
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import Outcome, make_entry, quiet
from arneb_core.testing.faults import FaultyStore

Message = tuple[Position, int]

STEPS = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.sampled_from([1, 1, 1, 1, 2, 5]), min_size=1, max_size=8)),
    st.tuples(st.just("attach"), st.booleans(), st.integers(0, 4)),
    st.tuples(st.just("flow"), st.integers(0, 3), st.integers(1, 6)),
    st.tuples(st.just("ack"), st.integers(0, 3), st.integers(0, 255)),
    st.tuples(st.just("ack message"), st.integers(0, 3), st.integers(0, 255)),
    st.tuples(st.just("release"), st.integers(0, 3), st.integers(0, 255)),
    st.tuples(st.just("detach"), st.integers(0, 3)),
    st.tuples(st.just("pull"), st.integers(0, 3)),
    st.tuples(st.just("purge")),
    st.tuples(st.just("fail")),
)


@dataclass
class Held:
    """A consumer as the model sees it: the messages that it was given and did not settle."""

    messages: set[Message] = field(default_factory=set)


class Machine:
    """One engine, one subscription, and the model of both."""

    def __init__(self, engine: Engine, faulty: FaultyStore) -> None:
        self.engine = engine
        self.faulty = faulty
        self.sizes: dict[Position, int] = {}
        self.acked: set[Message] = set()
        self.held: dict[int, Held] = {}
        self.consumers: dict[int, object] = {}
        self.fresh: list[Message] = []
        self.numbered = 0

    @property
    def unsettled(self) -> list[Message]:
        all_messages = [(place, i) for place in sorted(self.sizes) for i in range(self.sizes[place])]
        return [each for each in all_messages if each not in self.acked]

    @property
    def ready(self) -> list[Message]:
        out = {message for held in self.held.values() for message in held.messages}
        return [each for each in self.unsettled if each not in out]

    def took(self, number: int, run: Deliveries) -> None:
        """A consumer was given a run: nothing of it may be settled or held elsewhere."""
        for place, entry in zip(run.positions, run.entries, strict=True):
            assert entry == self.entry(place), "the bytes that were published"
            mask = (run.masks or {}).get(place, (1 << self.sizes[place]) - 1)
            assert mask, "something is delivered"
            for index in range(self.sizes[place]):
                if mask >> index & 1:
                    assert (place, index) not in self.acked, f"{place}:{index} was settled"
                    for held in self.held.values():
                        assert (place, index) not in held.messages, f"{place}:{index} is out"
                    self.held[number].messages.add((place, index))
                    self.fresh.append((place, index))

    def entry(self, place: Position) -> bytes:
        return make_entry(b"%d" % place, self.sizes[place])


class ModelSink:
    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number

    def deliver(self, run: Deliveries) -> None:
        self.machine.took(self.number, run)

    def closed_by_core(self, reason: str) -> None:
        self.machine.held.pop(self.number, None)


async def take_step(machine: Machine, step: tuple) -> None:
    """Do ``step`` to the engine and to the model, and compare."""
    engine = machine.engine
    topic = engine.topic("t")
    subscription = topic.subscriptions["s"]
    numbers = sorted(machine.held)
    kind, *arguments = step
    if kind == "publish":
        (sizes,) = arguments
        await publish(machine, sizes)
    elif kind == "attach":
        by_message, limit = arguments
        number = machine.numbered = machine.numbered + 1
        machine.held[number] = Held()
        spec = ConsumerSpec(
            f"c{number}",
            message_level=by_message,
            unlimited=by_message,
            windows=(Window(limit),) if by_message else (),
            entries_per_turn_max=1 if by_message else 20,
        )
        machine.consumers[number] = subscription.attach(spec, ModelSink(machine, number))
    elif kind == "purge":
        expected = len(machine.ready)
        purged = await subscription.purge()
        if all(size == 1 for size in machine.sizes.values()):
            assert purged == expected
        machine.acked.update(machine.ready)
    elif kind == "fail":
        machine.faulty.fail_until_healed()
        told = Outcome()
        engine.append(topic, [make_entry(b"never")], told)
        assert isinstance(await told.wait(), StoreFailed)
        machine.faulty.heal()
    elif numbers:
        number = numbers[arguments[0] % len(numbers)]
        await step_of_consumer(machine, kind, number, arguments[1:])
    machine.fresh.clear()
    await quiet(engine)
    compare(machine)


async def publish(machine: Machine, sizes: list[int]) -> None:
    """Append one run; the entries name their own places, so the run is placed by trial."""
    topic = machine.engine.topic("t")
    first = topic.log.ledgers.next_append
    places = [Position(first + index) for index in range(len(sizes))]
    machine.sizes.update(zip(places, sizes, strict=True))
    told = Outcome()
    machine.engine.append(topic, [machine.entry(place) for place in places], told)
    assert await told.wait() is None


async def step_of_consumer(machine: Machine, kind: str, number: int, arguments: list) -> None:
    consumer = machine.consumers[number]
    held = machine.held[number].messages
    by_place: dict[Position, set[Message]] = defaultdict(set)
    for message in held:
        by_place[message[0]].add(message)
    places = sorted(by_place)
    if kind == "flow":
        consumer.flow(arguments[0])
    elif kind == "detach":
        machine.held.pop(number)
        consumer.detach()
    elif kind == "pull":
        ready = machine.ready
        run = await consumer.pull()
        assert (run is None) == (not ready), f"ready: {ready}"
        if run is not None:
            if (run.masks is None and machine.sizes[run.positions[0]] == 1) or run.masks:
                assert len(run.positions) == 1
            machine.fresh.clear()
            machine.took(number, run)
            assert machine.fresh == ready[:1], "the first ready message"
    elif kind == "ack":
        chosen = [place for i, place in enumerate(places) if arguments[0] >> i % 8 & 1]
        for place in chosen:
            held.difference_update(by_place[place])
            machine.acked.update(by_place[place])
        consumer.acknowledge(chosen)
    elif kind == "ack message" and held:
        message = sorted(held)[arguments[0] % len(held)]
        held.discard(message)
        machine.acked.add(message)
        if machine.sizes[message[0]] == 1:
            consumer.acknowledge([message[0]])
        else:
            consumer.acknowledge_messages(message[0], 1 << message[1])
    elif kind == "release":
        chosen = [place for i, place in enumerate(places) if arguments[0] >> i % 8 & 1]
        for place in chosen:
            held.difference_update(by_place[place])
        consumer.release(chosen, count=True)


def compare(machine: Machine) -> None:
    """What the engine says of itself against the model."""
    subscription = machine.engine.topic("t").subscriptions["s"]
    unsettled = machine.unsettled
    entries = {place for place, _ in unsettled}
    statistics = subscription.statistics()
    assert statistics.backlog_entries == len(entries)
    held = sum(len(each.messages) for each in machine.held.values())
    assert statistics.in_flight_messages == held
    for number, each in machine.held.items():
        assert machine.consumers[number].in_flight == len(each.messages)
    if all(size == 1 for size in machine.sizes.values()):
        assert subscription.ready_messages == len(machine.ready)
    hungry = [
        consumer
        for number, consumer in machine.consumers.items()
        if number in machine.held and consumer.receiver.room > 0
    ]
    if hungry:
        assert not machine.ready, f"{hungry} could have {machine.ready}"
    if entries:
        below = [place for place in machine.sizes if place <= subscription.mark_delete]
        assert all((place, i) in machine.acked for place in below for i in range(machine.sizes[place]))


async def run_program(directory: Path, programs: list[list[tuple]]) -> None:
    """Each program runs in an engine of its own over the same data; between them the process
    dies without a word, and only what was durable counts."""
    sizes: dict[Position, int] = {}
    acked: set[Message] = set()
    for index, program in enumerate(programs):
        with Store.open(directory) as store:
            faulty = FaultyStore(store)
            async with open_engine(directory, store=store, committing=faulty) as engine:
                if index == 0:
                    topic = await engine.create_topic("t")
                    await topic.subscribe("s", initial=InitialPosition.EARLIEST)
                machine = Machine(engine, faulty)
                machine.sizes, machine.acked = sizes, acked
                compare(machine)
                for step in program:
                    await take_step(machine, step)
                told = Outcome()
                engine.topic("t").subscriptions["s"].receipt(told)
                assert await told.wait() is None
                crashed = directory.with_name(f"crash{index}")
                store.copy(_empty(crashed))
        assert check(directory) == []
        directory = crashed
        assert check(directory) == []


def _empty(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=25), min_size=1, max_size=3))
def test_engine_agrees_with_the_model(programs: list[list[tuple]]) -> None:
    note(f"{programs}")
    with TemporaryDirectory() as directory:
        trio.run(run_program, Path(directory, "data"), programs)
