"""Key_Shared subscriptions: one consumer a key, in order, whatever happens in between."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
import trio
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.core.engine.subscriptions.key_shared_model import Model, ModelSink

from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.entry import EntryFlag, EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import KeyRangesRefused, NotAllowed, SubscriptionTypeMismatch
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode, LookAhead
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.dispatch.auto_split import AutoSplitSelector
from arneb_core.dispatch.key_shared import KeySharedDispatcher
from arneb_core.dispatch.receiver import Receiver
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.testing.engine_kit import (
    RecordingSink,
    append,
    attach,
    make_entry,
    quiet,
)

KEY_SHARED = SubscriptionType.KEY_SHARED
KEYS = [b"", *(b"key-%d" % number for number in range(6))]
HALVES = ((0, 32767), (32768, 65535))

MODES = [
    KeySharing(KeySharingMode.HASH_RANGES),
    KeySharing(KeySharingMode.CONSISTENT_HASHING),
    KeySharing(KeySharingMode.CONSISTENT_HASHING, in_order=False),
    KeySharing(KeySharingMode.STICKY),
]


class Machine:
    """An engine with one Key_Shared subscription, and the model of it."""

    def __init__(self, engine: Engine, subscription: LogSubscription, sharing: KeySharing) -> None:
        self.engine = engine
        self.subscription = subscription
        self.model = Model(sharing)
        self.next_number = 0
        self.whole: dict[Position, int] = {}
        """All messages of every entry."""

    def publish(self, keys: Sequence[tuple[int, int]]) -> None:
        for key, size in keys:  # one by one: ledgers may roll in between
            self._publish(make_entry(b"x", size, key=KEYS[key]), size)

    def publish_pieces(self, pieces: Sequence[tuple[int, int]]) -> None:
        """Of messages of each key, chunks with these hints; 0 is none, a message between them."""
        self.engine.topic("t").expect_groups()
        for key, hint in pieces:
            header = EntryHeader(
                Origin.PULSAR,
                flags=EntryFlag.GROUPED if hint else EntryFlag(0),
                hint=hint,
                key_hash=key_hash(KEYS[key]),
            )
            self._publish(header.pack() + b"x", 1)

    def _publish(self, entry: bytes, size: int) -> None:
        def done(error: Exception | None, position: Position) -> None:
            assert error is None
            self.model.published(position, [entry], [size])
            self.whole[position] = (1 << size) - 1

        self.engine.append(self.engine.topic("t"), [entry], done)

    def attach(self, permits: int) -> None:
        sharing = self.model.sharing
        if sharing.mode is KeySharingMode.STICKY:
            taken = {each.spec.sharing.ranges for each in self.model.consumers.values()}
            free = [(each,) for each in HALVES if (each,) not in taken]
            if not free:
                return
            sharing = replace(sharing, ranges=free[0])
        number, self.next_number = self.next_number, self.next_number + 1
        spec = ConsumerSpec(f"c{number % 2}", KEY_SHARED, sharing=sharing)
        self.model.came(number, spec)
        consumer = self.subscription.attach(spec, ModelSink(self.model, number))
        self.model.consumers[number] = consumer
        consumer.flow(permits)

    def pick(self, number: int) -> int | None:
        known = sorted(self.model.consumers)
        return known[number % len(known)] if known else None

    def check(self) -> None:
        """When all is quiet: nothing wrong was delivered, and nothing that may go waits."""
        model = self.model
        assert not model.wrong, model.wrong
        for number, consumer in model.consumers.items():
            assert consumer.whole == model.held[number]
        dispatcher = self.subscription.machine.keys
        if dispatcher is None:
            return
        replays = set(map(Position, self.subscription.machine.state.replay.positions))
        waits = set(map(Position, dispatcher.waiting.positions)) & replays
        assert replays <= set(model.ready)
        assert waits == replays or not dispatcher.has_room
        may_read = dispatcher.may_look_ahead and dispatcher.has_room
        for position in model.first_of_lines():
            if model.stuck(position):
                assert position not in waits, f"{position} waits for nothing"
                assert not may_read, f"{position} is not read"
        held = {slot for position in self.subscription_held() for slot in [model.slots[position]]}
        assert dispatcher._held.holders.keys() == held

    def subscription_held(self) -> set[Position]:
        return {position for positions in self.model.held.values() for position in positions}


CHOICE = st.integers(0, 1000)
STEPS = st.one_of(
    st.tuples(
        st.just("publish"),
        st.lists(
            st.tuples(st.integers(0, len(KEYS) - 1), st.sampled_from([1, 1, 1, 3])), max_size=9
        ),
    ),
    st.tuples(
        st.just("publish pieces"),
        st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 1, 1, 2])), max_size=9),
    ),
    st.tuples(st.just("attach"), st.integers(0, 6)),
    st.tuples(st.just("attach"), st.integers(0, 6)),
    st.tuples(st.just("detach"), CHOICE),
    st.tuples(st.just("flow"), CHOICE, st.integers(1, 9)),
    st.tuples(st.just("ack"), CHOICE, st.sets(st.integers(0, 12), max_size=6)),
    st.tuples(st.just("ack"), CHOICE, st.sets(st.integers(0, 12), max_size=6)),
    st.tuples(st.just("ack part"), CHOICE, st.integers(0, 12), st.integers(1, 7)),
    st.tuples(st.just("release"), CHOICE, st.sets(st.integers(0, 12), max_size=6)),
    st.tuples(st.just("ack of another's"), CHOICE, st.integers(0, 12)),
    st.tuples(st.just("purge")),
    st.tuples(st.just("seek"), st.integers(0, 12)),
    st.tuples(st.just("cold")),
    st.tuples(st.just("quiet")),
    st.tuples(st.just("quiet")),
)  # fmt: skip


async def take_step(machine: Machine, step: tuple) -> None:
    model = machine.model
    match step:
        case ("publish", keys):
            machine.publish(keys)
        case ("publish pieces", pieces):
            machine.publish_pieces(pieces)
        case ("attach", permits):
            machine.attach(permits)
        case ("cold",):
            machine.subscription.topic.log.tail.clear()
        case ("quiet",):
            await quiet(machine.engine)
            machine.check()
        case ("purge",):
            await quiet(machine.engine)
            for position in model.ready:
                model.settle(position)
            await machine.subscription.purge()
        case ("seek", number) if model.slots:
            position = sorted(model.slots)[number % len(model.slots)]
            await machine.subscription.seek(position)
            contains = machine.subscription.topic.log.ledgers.contains
            model.unacked = {
                each: mask
                for each, mask in machine.whole.items()
                if each >= position
                if contains(each)
            }
        case (what, chosen, *arguments):
            number = machine.pick(chosen)
            if number is not None:
                act(machine, what, number, *arguments)


def act(machine: Machine, what: str, number: int, *arguments: object) -> None:
    model, consumer = machine.model, machine.model.consumers[number]
    held = sorted(model.held[number])
    match what, *arguments:
        case "detach", *_:
            consumer.detach()
            model.left(number)
        case "flow", int(permits):
            consumer.flow(permits)
        case "ack", set(chosen):
            positions = [held[each] for each in chosen if each < len(held)]
            for position in positions:
                model.settle(position)
            consumer.acknowledge(positions)
        case "ack part", int(index), int(mask) if index < len(held):
            model.settle(held[index], mask)
            consumer.acknowledge_messages(held[index], mask)
        case "release", set(chosen):
            positions = [held[each] for each in chosen if each < len(held)]
            model.held[number].difference_update(positions)
            consumer.release(positions, count=True)
        case "ack of another's", int(index) if model.unacked:
            position = sorted(model.unacked)[index % len(model.unacked)]
            model.settle(position)
            consumer.acknowledge([position])


async def run_program(directory: Path, sharing: KeySharing, program: list[tuple]) -> None:
    async with open_engine(directory) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        assert isinstance(subscription, LogSubscription)
        machine = Machine(engine, subscription, sharing)
        for step in [*program, ("quiet",)]:
            await take_step(machine, step)
        await serve_out(machine)


async def serve_out(machine: Machine) -> None:
    """Whoever is there answers all it gets: then everything gets through. (What is nobody's would
    fill the bound in the end, and hold up the others.)"""
    model = machine.model
    for _ in HALVES:
        machine.attach(0)
    while True:
        for number, consumer in model.consumers.items():
            positions = sorted(model.held[number])
            for position in positions:
                model.settle(position)
            consumer.acknowledge(positions)
            consumer.flow(max(0, 50 - consumer.receiver.permits))
        await quiet(machine.engine)
        machine.check()
        if not any(model.held.values()):
            break
    assert not model.ready


@pytest.mark.parametrize("sharing", MODES, ids=lambda each: f"{each.mode.name}-{each.in_order}")
@pytest.mark.real_time
def test_key_shared_agrees_with_its_model(sharing: KeySharing) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.sampled_from([0, 150, 10_000]), st.lists(STEPS, max_size=30))
    def play(held_bytes: int, program: list[tuple]) -> None:
        note(f"{program}")
        with TemporaryDirectory() as directory, ExitStack() as small:
            small.enter_context(
                patch("arneb_core.subscription.dispatching.keyed.HELD_BYTES_MAX", held_bytes)
            )
            small.enter_context(patch("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 12))
            wanted = replace(sharing, look_ahead=LookAhead(5))
            trio.run(run_program, Path(directory, "data"), wanted, program)

    play()


def keyed(key: bytes, *bodies: bytes) -> list[bytes]:
    return [make_entry(body, key=key) for body in bodies]


def keys_of(sinks: Sequence[RecordingSink]) -> list[list[bytes]]:
    return [sink.bodies for sink in sinks]


def two_keys(*consumers: object) -> tuple[bytes, bytes]:
    """A key of each of two consumers."""
    found: dict[str, bytes] = {}
    dispatcher = consumers[0].subscription.machine.keys  # type: ignore[attr-defined]
    assert isinstance(dispatcher, KeySharedDispatcher)
    for number in range(1000):
        key = b"%d" % number
        owner = dispatcher._owners[dispatcher.slots([key_hash(key)])[0]]
        assert owner is not None
        found.setdefault(owner.name, key)
    return found["a"], found["b"]


async def begin(engine: Engine, *names: str, permits: int = 10, **sharing: object):  # type: ignore[no-untyped-def]
    topic = await engine.create_topic("t")
    subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
    wanted = KeySharing(**sharing)  # type: ignore[arg-type]
    made = [
        attach(subscription, name=name, type=KEY_SHARED, permits=permits, sharing=wanted)
        for name in names
    ]
    return subscription, *made


async def test_a_key_that_moves_waits_until_it_has_drained(data_dir: Path) -> None:
    """The slow consumer holds up its own keys only, for the newcomer too."""
    async with open_engine(data_dir) as engine:
        subscription, (one, one_sink) = await begin(engine, "a")
        probe, _ = attach(subscription, name="b", type=KEY_SHARED)
        stays, moves = two_keys(one, probe)
        probe.detach()
        await append(engine, "t", keyed(moves, b"1", b"2"))
        await quiet(engine)
        _, two_sink = attach(subscription, name="b", type=KEY_SHARED, permits=10)
        await append(engine, "t", [*keyed(moves, b"3"), *keyed(stays, b"4"), *keyed(moves, b"5")])
        await quiet(engine)
        assert keys_of([one_sink, two_sink]) == [[b"1", b"2", b"4"], []]
        one.acknowledge(one_sink.positions[:1])
        await quiet(engine)
        assert two_sink.bodies == []
        one.acknowledge(one_sink.positions[1:2])
        await quiet(engine)
        assert two_sink.bodies == [b"3", b"5"]
        one.release(one_sink.positions[2:], count=True)
        await quiet(engine)
        assert keys_of([one_sink, two_sink]) == [[b"1", b"2", b"4", b"4"], [b"3", b"5"]]


async def test_a_newcomer_gets_at_once_what_no_consumer_holds(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, (one, one_sink) = await begin(engine, "a")
        probe, _ = attach(subscription, name="b", type=KEY_SHARED)
        stays, moves = two_keys(one, probe)
        probe.detach()
        await append(engine, "t", keyed(stays, b"1"))
        await quiet(engine)
        _, two_sink = attach(subscription, name="b", type=KEY_SHARED, permits=10)
        await append(engine, "t", keyed(moves, b"2"))
        await quiet(engine)
        assert keys_of([one_sink, two_sink]) == [[b"1"], [b"2"]], "1 is not answered"


async def test_out_of_order_delivery_waits_for_nobody(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, (one, one_sink) = await begin(engine, "a", in_order=False)
        out_of_order = KeySharing(in_order=False)
        probe, _ = attach(subscription, name="b", type=KEY_SHARED, sharing=out_of_order)
        _, moves = two_keys(one, probe)
        probe.detach()
        await append(engine, "t", keyed(moves, b"1"))
        await quiet(engine)
        _, two_sink = attach(
            subscription, name="b", type=KEY_SHARED, permits=9, sharing=out_of_order
        )
        await append(engine, "t", keyed(moves, b"2"))
        await quiet(engine)
        assert keys_of([one_sink, two_sink]) == [[b"1"], [b"2"]]


async def test_a_consumer_that_leaves_gives_its_keys_back_in_order(data_dir: Path) -> None:
    """What it held goes before what waited behind it."""
    async with open_engine(data_dir) as engine:
        _, (one, one_sink), (two, two_sink) = await begin(engine, "a", "b", permits=2)
        _, key = two_keys(one, two)
        await append(engine, "t", keyed(key, b"1", b"2", b"3", b"4"))
        await quiet(engine)
        assert keys_of([one_sink, two_sink]) == [[], [b"1", b"2"]]
        one.flow(10)
        two.acknowledge(two_sink.positions[:1])
        two.detach()
        await quiet(engine)
        assert one_sink.bodies == [b"2", b"3", b"4"]
        assert one_sink.redelivered == {two_sink.positions[1]}
        assert not any(run.redelivery_counts for run in one_sink.runs)


async def test_what_waits_is_bounded_and_no_consumer_starves(data_dir: Path) -> None:
    """One without permits cannot make the broker read on and on; the other gets on with what
    was read, and with the rest when there is room."""
    limit = 30
    async with open_engine(data_dir) as engine:
        subscription, (one, one_sink), (two, two_sink) = await begin(
            engine, "a", "b", permits=0, look_ahead=LookAhead(limit // 2)
        )
        slow, quick = two_keys(one, two)
        bodies = [b"%d" % number for number in range(100)]
        for body in bodies:
            await append(engine, "t", [*keyed(slow, body), *keyed(quick, body)])
        two.flow(1000)
        await quiet(engine)
        assert one_sink.bodies == []
        assert two_sink.bodies == bodies[:limit]
        assert len(subscription.machine.keys.waiting) == limit
        one.flow(10)
        await quiet(engine)
        assert one_sink.bodies == bodies[:10]
        assert two_sink.bodies == bodies[: limit + 10]
        one.flow(1000)
        await quiet(engine)
        assert keys_of([one_sink, two_sink]) == [bodies, bodies]


async def test_a_batch_has_the_key_of_its_entry_and_costs_what_is_left(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        _, (one, sink) = await begin(engine, "a", permits=5)
        position = await append(
            engine, "t", [make_entry(b"x", 4, key=b"k"), *keyed(b"k", b"y", b"z")]
        )
        await quiet(engine)
        assert sink.bodies == [b"x", b"y"]
        assert one.receiver.permits == 0
        one.acknowledge_messages(position, 0b0111)
        one.release([position], count=True)
        one.flow(1)
        await quiet(engine)
        assert sink.bodies == [b"x", b"y", b"x"]
        assert sink.runs[-1].masks == {position: 0b1000}
        assert one.receiver.permits == 0


async def test_waiting_entries_that_were_not_kept_are_read_again(data_dir: Path) -> None:
    """Off the disk too, and an entry that cannot be read then is read later."""
    with patch("arneb_core.subscription.dispatching.keyed.HELD_BYTES_MAX", 0):
        async with open_engine(data_dir) as engine:
            topic = await engine.create_topic("t")
            await append(engine, "t", [make_entry(b"%d" % n, key=KEYS[n % 7]) for n in range(100)])
            subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
            topic.log.tail.clear()
            sinks = []
            for name in "abc":
                consumer, sink = attach(subscription, name=name, type=KEY_SHARED, permits=3)
                sinks.append((consumer, sink))
            for _ in range(40):
                await quiet(engine)
                for consumer, _ in sinks:
                    consumer.acknowledge(list(consumer.whole))
                    consumer.flow(3)
            found = sorted(int(body) for _, sink in sinks for body in sink.bodies)
            assert found == list(range(100))


async def test_nothing_new_overtakes_what_is_being_read_again(data_dir: Path) -> None:
    with patch("arneb_core.subscription.dispatching.keyed.HELD_BYTES_MAX", 0):
        async with open_engine(data_dir) as engine:
            subscription, (one, sink), (two, _) = await begin(engine, "a", "b", permits=0)
            key, other = two_keys(one, two)
            two.flow(1)
            await append(engine, "t", [*keyed(key, b"1", b"2"), *keyed(other, b"0")])
            await quiet(engine)
            assert len(subscription.machine.keys.waiting) == 2
            subscription.topic.log.tail.clear()
            one.flow(10)
            await append(engine, "t", keyed(key, b"3"))
            await quiet(engine)
            assert sink.bodies == [b"1", b"2", b"3"]


async def test_what_came_back_goes_before_anything_new_of_any_key(data_dir: Path) -> None:
    """Also while it has to be read from the disk again."""
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        await append(engine, "t", [make_entry(b"%d" % n, key=b"k%d" % n) for n in range(10)])
        consumer, sink = attach(subscription, type=KEY_SHARED, permits=5)
        await quiet(engine)
        consumer.release_all(count=True)
        consumer.flow(7)
        await quiet(engine)
        assert sink.bodies == [b"%d" % n for n in [*range(5), *range(7)]]


def test_nothing_new_overtakes_what_waits_while_there_is_room() -> None:
    """The room may have come a moment ago, or what waits may be on its way from the disk."""
    dispatcher = KeySharedDispatcher(AutoSplitSelector())
    owner = Receiver(ConsumerSpec("a", unlimited=True))
    dispatcher.add(owner)
    waiting, other = dispatcher.slots([key_hash(b"k"), key_hash(b"l")])
    dispatcher.wait([Position(1)], [waiting])
    decision = dispatcher.share([waiting, other, waiting])
    assert (decision.looked_at, decision.waiting) == (3, [0, 2])
    assert decision.given == {owner: [1]}
    assert dispatcher.next_due(owner) == Position(1)


async def test_replays_from_before_are_sorted_by_key_first(data_dir: Path) -> None:
    """The type was Shared; what came back then has its place in its key."""
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        await append(engine, "t", keyed(b"k", *(b"%d" % n for n in range(20))))
        shared, shared_sink = attach(subscription, permits=10)
        await quiet(engine)
        shared.acknowledge(shared_sink.positions[::2])
        shared.detach()
        _, sink = attach(subscription, type=KEY_SHARED, permits=100)
        await quiet(engine)
        left = [*range(1, 10, 2), *range(10, 20)]
        assert sink.bodies == [b"%d" % n for n in left]


async def test_the_first_consumer_sets_how_keys_are_shared_out(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, (one, _) = await begin(engine, "a")
        for other in (
            KeySharing(KeySharingMode.STICKY, HALVES[:1]),
            KeySharing(KeySharingMode.HASH_RANGES),
            KeySharing(in_order=False),
        ):
            with pytest.raises(SubscriptionTypeMismatch):
                attach(subscription, type=KEY_SHARED, sharing=other)
        with pytest.raises(SubscriptionTypeMismatch):
            attach(subscription)
        one.detach()
        sticky = KeySharing(KeySharingMode.STICKY, HALVES[:1])
        attach(subscription, type=KEY_SHARED, sharing=sticky)
        with pytest.raises(KeyRangesRefused):
            attach(subscription, type=KEY_SHARED, sharing=sticky)
        attach(subscription, type=KEY_SHARED, sharing=KeySharing(KeySharingMode.STICKY, HALVES[1:]))
        assert len(subscription.consumers) == 2


async def test_sticky_ranges_with_a_hole_wait_for_somebody(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        sticky = [KeySharing(KeySharingMode.STICKY, (each,)) for each in HALVES]
        _, low = attach(subscription, type=KEY_SHARED, permits=99, sharing=sticky[0])
        keys = [b"Order-3459134", b"key01"]  # 6067 and 47652
        await append(engine, "t", [make_entry(key, key=key) for key in keys * 3])
        await quiet(engine)
        assert low.bodies == keys[:1] * 3
        _, high = attach(subscription, type=KEY_SHARED, permits=99, sharing=sticky[1])
        await quiet(engine)
        assert high.bodies == keys[1:] * 3


async def test_cumulative_acks_and_priorities_are_refused(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, (one, sink) = await begin(engine, "a")
        position = await append(engine, "t", keyed(b"k", b"1"))
        with pytest.raises(NotAllowed):
            one.acknowledge_until(position)
        subscription.prioritise(5)
        assert sink.closed == ["removed"]
        with pytest.raises(NotAllowed):
            attach(subscription, type=KEY_SHARED)


async def test_what_expired_departs_instead_of_being_delivered(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, (one, sink) = await begin(engine, "a", permits=1)
        old = [make_entry(b"old", key=b"k"), make_entry(b"old", key=b"l")]
        await append(engine, "t", [*keyed(b"k", b"first"), *old])
        await quiet(engine)
        assert sink.bodies == [b"first"]
        subscription.limit(Limits(message_ttl_ms=1000), None)
        one.flow(10)
        await quiet(engine)
        assert sink.bodies == [b"first"]
        assert subscription.ready_messages == 0
