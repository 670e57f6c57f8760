"""Departures of single messages: a batch may go in pieces, each of them to one place."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin, messages_in
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure, Limits
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.subscriptions.windows import Window
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.subscription.departures import outstanding
from arneb_core.subscription.departures.outstanding import OUTSTANDING_MAX
from arneb_core.testing.engine_kit import RecordingSink, append, body_of, quiet
from arneb_core.testing.faults import FaultyStore

START_MS = 1_000_000

Message = tuple[bytes, int]
"""The body of its entry, and which of the entry's messages it is."""


def entry(body: bytes, messages: int, now_ms: int, lives_ms: int | None) -> bytes:
    expires = 0 if lives_ms is None else now_ms + lives_ms
    header = EntryHeader(
        Origin.AMQP, messages=messages, publish_time_ms=now_ms, expires_at_ms=expires
    )
    return header.pack() + body


def messages_of(run: Deliveries) -> list[tuple[Position, Message]]:
    """What was delivered, message by message."""
    return [
        (position, (body_of(each), index))
        for position, each in zip(run.positions, run.entries, strict=True)
        for index in range(messages_in(each))
        if (run.masks or {}).get(position, -1) >> index & 1
    ]


@dataclass
class Target:
    """Puts what departs into the topic ``dead``, message by message."""

    engine: Engine
    failed: list[tuple[Deliveries, Consumer]] = field(default_factory=list)
    outstanding_bytes: int = 0
    most_bytes: int = 0

    def departed(self, reason: Departure, run: Deliveries, holder: Consumer) -> None:
        letters = [
            entry(body + b".%d" % index, 1, START_MS, None) for _, (body, index) in messages_of(run)
        ]
        masks = run.masks or {}
        whole = [each for each in run.positions if each not in masks]
        unit = Unit([(self.engine.topic("dead"), letters)], [(holder, whole)])
        unit.parts.append((holder, masks))
        size = sum(map(len, run.entries))
        self.outstanding_bytes += size
        self.most_bytes = max(self.most_bytes, self.outstanding_bytes)
        self.engine.commit(unit, partial(self._told, run, holder, size))

    def retry(self) -> None:
        failed, self.failed = self.failed, []
        for run, holder in failed:
            self.departed(Departure.REJECTED, run, holder)

    def _told(
        self, run: Deliveries, holder: Consumer, size: int, error: CommitFailed | None
    ) -> None:
        self.outstanding_bytes -= size
        if error is not None:
            self.failed.append((run, holder))


async def dead(engine: Engine) -> list[Message]:
    topic = engine.topic("dead")
    runs = [] if topic.first is None else await topic.read(topic.first, 1 << 30)
    bodies = [body_of(each).split(b".") for _, entries in runs for each in entries]
    return [(body, int(index)) for body, index in bodies]


async def make(engine: Engine) -> Subscription:
    for name in ("q", "dead"):
        await engine.create_topic(name)
    return await engine.topic("q").subscribe("s", initial=InitialPosition.EARLIEST)


def join(subscription: Subscription, prefetch: int) -> tuple[LogConsumer, RecordingSink]:
    sink = RecordingSink()
    spec = ConsumerSpec("c", message_level=True, unlimited=True, windows=(Window(prefetch),))
    consumer = subscription.attach(spec, sink)
    assert isinstance(consumer, LogConsumer)
    return consumer, sink


async def test_what_is_out_of_a_batch_does_not_expire_with_the_rest(data_dir: Path) -> None:
    now = [START_MS]
    async with open_engine(data_dir, now_ms=lambda: now[0]) as engine:
        subscription = await make(engine)
        target = Target(engine)
        subscription.limit(Limits(message_ttl_ms=50), target)
        await append(engine, "q", [entry(b"a", 3, now[0], None)])
        consumer, sink = join(subscription, 1)
        await quiet(engine)
        assert sink.runs[0].masks == {sink.positions[0]: 0b001}
        now[0] += 100
        consumer.wake()
        await quiet(engine)
        assert await dead(engine) == [(b"a", 1), (b"a", 2)]
        assert consumer.in_flight == 1
        consumer.release(sink.positions, count=True)
        await quiet(engine)
        assert await dead(engine) == [(b"a", 1), (b"a", 2), (b"a", 0)]
        assert subscription.ready_messages == 0


async def test_a_failed_part_is_not_taken_along_by_another(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            subscription = await make(engine)
            target = Target(engine)
            subscription.limit(Limits(), target)
            await append(engine, "q", [entry(b"a", 2, START_MS, None)])
            consumer, sink = join(subscription, 2)
            await quiet(engine)
            (position,) = set(sink.positions)
            faulty.fail_next()
            consumer.reject([], {position: 0b01})
            await quiet(engine)
            assert (await dead(engine), len(target.failed)) == ([], 1)
            consumer.reject([], {position: 0b10})
            await quiet(engine)
            assert await dead(engine) == [(b"a", 1)]
        async with open_engine(data_dir, store=store) as engine:
            subscription = engine.topic("q").subscriptions["s"]
            assert await dead(engine) == [(b"a", 1)]
            assert subscription.ready_messages == 1, "as after a crash: what failed is not lost"


async def test_a_message_that_came_back_too_often_leaves_the_rest_of_its_batch(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make(engine)
        subscription.limit(Limits(delivery_limit=1), Target(engine))
        await append(engine, "q", [entry(b"a", 2, START_MS, None)])
        consumer, sink = join(subscription, 2)
        await quiet(engine)
        (position,) = set(sink.positions)
        for _ in range(2):
            assert consumer.masks == {position: 0b11}
            consumer.release([position], count=True, masks={position: 0b01})
            await quiet(engine)
        assert consumer.masks == {position: 0b10}
        assert await dead(engine) == [(b"a", 0)]
        consumer.acknowledge_messages(position, 0b10)
        await quiet(engine)
        assert (await dead(engine), subscription.ready_messages) == ([(b"a", 0)], 0)


@pytest.mark.parametrize("how", ["expired", "rejected"])
async def test_the_bytes_at_the_target_are_bounded(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(outstanding, "BYTES_PER_ENTRY", 10_000 // OUTSTANDING_MAX)
    now = [START_MS]
    async with open_engine(data_dir, now_ms=lambda: now[0]) as engine:
        subscription = await make(engine)
        target = Target(engine)
        subscription.limit(Limits(message_ttl_ms=10_000), target)
        made = [entry(b"%03d" % index + bytes(1_000), 1, now[0], None) for index in range(100)]
        await append(engine, "q", made)
        if how == "rejected":
            consumer, sink = join(subscription, 0)
            await quiet(engine)
            consumer.reject(sink.positions)
        else:
            now[0] += 20_000
            subscription.limit(Limits(message_ttl_ms=10_000), target)
        await quiet(engine)
        assert len(await dead(engine)) == 100
        # Those in each commit under way, and as many that wait.
        assert target.most_bytes <= (engine.commits_at_once + 1) * (10_000 + 1_100)


OPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"),
            st.lists(st.integers(1, 3), min_size=1, max_size=3),
            st.sampled_from([None, None, 30]),
        ),
        st.tuples(st.just("wait"), st.integers(1, 60)),
        st.tuples(st.sampled_from(["ack", "reject", "release"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["fail", "retry", "leave", "join"])),
    ),
    max_size=30,
)
LIMITS = st.builds(
    Limits,
    message_ttl_ms=st.sampled_from([None, 50]),
    ready_messages_max=st.sampled_from([None, None, 2]),
    delivery_limit=st.sampled_from([None, 1]),
)


@given(ops=OPS, limits=LIMITS, prefetch=st.integers(1, 4), has_target=st.booleans())
@settings(max_examples=20)
def test_every_message_of_a_batch_is_at_exactly_one_place(
    ops: Sequence[tuple], limits: Limits, prefetch: int, has_target: bool
) -> None:
    async def scenario() -> None:
        with TemporaryDirectory() as position, Store.open(Path(position, "data")) as store:
            faulty = FaultyStore(store)
            now = [START_MS]
            async with open_engine(
                store.path, store=store, committing=faulty, now_ms=lambda: now[0]
            ) as engine:
                player = Player(engine, await make(engine), faulty, now, prefetch)
                player.subscription.limit(limits, player.target if has_target else None)
                player.join()
                for op in ops:
                    await player.play(op)
                await player.settle(has_target=has_target)
            with store.snapshot() as snapshot:
                assert check(snapshot) == []

    trio.run(scenario, clock=trio.testing.MockClock(autojump_threshold=0))


@dataclass
class Player:
    """Plays against the engine and keeps what it knows for sure."""

    engine: Engine
    subscription: Subscription
    faulty: FaultyStore
    now: list[int]
    prefetch: int
    published: list[Message] = field(default_factory=list)
    acked: set[Message] = field(default_factory=set)
    consumers: list[tuple[LogConsumer, RecordingSink]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = Target(self.engine)

    def join(self) -> None:
        self.consumers.append(join(self.subscription, self.prefetch))

    def in_flight(self) -> list[tuple[LogConsumer, Position, int, Message]]:
        """Every message that is out, and where."""
        found = []
        for consumer, sink in self.consumers:
            latest = {}
            for run in sink.runs:
                for position, message in messages_of(run):
                    latest[position, message] = None
            for position, message in latest:
                mask = 1 << message[1]
                if consumer.masks.get(position, 0) & mask or position in consumer.whole:
                    found.append((consumer, position, mask, message))
        return found

    async def play(self, op: tuple) -> None:
        match op:
            case ("publish", sizes, lives_ms):
                made = [(b"%d" % (len(self.published) + i), n) for i, n in enumerate(sizes)]
                if lives_ms is not None:
                    self.engine.expect_expiry(self.engine.topic("q"))
                entries = [entry(body, n, self.now[0], lives_ms) for body, n in made]
                try:
                    await append(self.engine, "q", entries)
                except CommitFailed:
                    pass
                else:
                    self.published += [(body, i) for body, n in made for i in range(n)]
            case ("wait", ms):
                self.now[0] += ms
                clock = trio.lowlevel.current_clock()
                assert isinstance(clock, trio.testing.MockClock)
                clock.jump(ms / 1000)
            case ("fail",):
                self.faulty.fail_next()
            case ("retry",):
                self.target.retry()
            case ("leave",):
                if self.consumers:
                    self.consumers.pop(0)[0].detach()
            case ("join",):
                self.join()
            case (answer, which):
                self.answer(answer, which)
        await quiet(self.engine)
        out = Counter(message for _, _, _, message in self.in_flight())
        assert not out or max(out.values()) == 1, "a message is in flight twice"

    def answer(self, answer: str, which: int) -> None:
        out = self.in_flight()
        if not out:
            return
        consumer, position, mask, message = out[which % len(out)]
        whole = position in consumer.whole
        if answer == "ack":
            self.acked.add(message)
            consumer.acknowledge_messages(position, mask)
        elif answer == "reject":
            consumer.reject([position] if whole else [], None if whole else {position: mask})
        else:
            consumer.release([position], count=True, masks=None if whole else {position: mask})

    async def settle(self, *, has_target: bool) -> None:
        """Everything to its end, then count."""
        self.faulty.heal()
        for consumer, _ in self.consumers:
            consumer.detach()
        while self.target.failed:
            self.target.retry()
            await quiet(self.engine)
        self.subscription.limit(Limits(), self.target if has_target else None)
        _, sink = join(self.subscription, 0)
        await quiet(self.engine)
        while self.target.failed:
            self.target.retry()
            await quiet(self.engine)
        left = Counter(message for run in sink.runs for _, message in messages_of(run))
        gone = Counter(await dead(self.engine))
        everywhere = left + gone + Counter(self.acked)
        assert not everywhere or max(everywhere.values()) == 1, "nothing is at two places"
        assert everywhere.keys() <= set(self.published)
        if has_target:
            assert everywhere.keys() == set(self.published), "nothing is lost"
