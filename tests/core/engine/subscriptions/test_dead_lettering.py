"""Departures: what leaves a subscription without an acknowledgement is neither lost nor doubled."""

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
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.expiry import ChangedTtl
from arneb_core.api.errors import CommitFailed
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure, Limits
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.subscription.departures import dead_lettering
from arneb_core.testing.engine_kit import append, attach, body_of, quiet
from arneb_core.testing.faults import FaultyStore

START_MS = 1_000_000


@dataclass
class Target:
    """Puts what departs into the topic ``dead``; keeps what could not be put there."""

    engine: Engine
    departed_as: list[tuple[str, bytes]] = field(default_factory=list)
    failed: list[tuple[Departure, Deliveries, Consumer]] = field(default_factory=list)
    outstanding: int = 0
    most: int = 0

    def departed(self, reason: Departure, run: Deliveries, holder: Consumer) -> None:
        self.outstanding += len(run.positions)
        self.most = max(self.most, self.outstanding)
        unit = Unit([(self.engine.topic("dead"), list(run.entries))], [(holder, run.positions)])
        self.engine.commit(unit, partial(self._told, reason, run, holder))

    def retry(self) -> None:
        failed, self.failed = self.failed, []
        for reason, run, holder in failed:
            self.departed(reason, run, holder)

    def _told(
        self, reason: Departure, run: Deliveries, holder: Consumer, error: CommitFailed | None
    ) -> None:
        self.outstanding -= len(run.positions)
        if error is not None:
            self.failed.append((reason, run, holder))
        else:
            self.departed_as += [(reason.value, body_of(entry)) for entry in run.entries]


def entry(body: bytes, *, now_ms: int, lives_ms: int | None = None) -> bytes:
    expires = 0 if lives_ms is None else now_ms + lives_ms
    header = EntryHeader(
        Origin.AMQP,
        publish_time_ms=now_ms,
        expires_at_ms=expires,
        priority=len(body) + sum(body) % 3,
    )
    return header.pack() + body


@dataclass
class World:
    """An engine with a clock that is set, a queue, and a target."""

    engine: Engine
    now: list[int]
    target: Target
    subscription: Subscription

    async def publish(self, *bodies: bytes, lives_ms: int | None = None) -> None:
        if lives_ms is not None:
            self.engine.expect_expiry(self.engine.topic("q"))
        made = [entry(body, now_ms=self.now[0], lives_ms=lives_ms) for body in bodies]
        await append(self.engine, "q", made)
        await quiet(self.engine)

    async def wait(self, ms: int) -> None:
        self.now[0] += ms
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(ms / 1000)
        await quiet(self.engine)

    async def dead(self) -> list[bytes]:
        topic = self.engine.topic("dead")
        runs = [] if topic.first is None else await topic.read(topic.first, 1 << 30)
        return [body_of(each) for _, entries in runs for each in entries]


async def in_world(path: Path, durable: bool, play, *, committing=None, store=None) -> None:  # type: ignore[no-untyped-def]
    now = [START_MS]
    async with open_engine(
        path, store=store, committing=committing, now_ms=lambda: now[0]
    ) as engine:
        for name in ("q", "dead"):
            await engine.create_topic(name, TopicSettings(durable=durable))
        subscription = await engine.topic("q").subscribe("s", initial=InitialPosition.EARLIEST)
        await play(World(engine, now, Target(engine), subscription))


@pytest.fixture(params=[True, False], ids=["durable", "in memory"])
def durable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_the_front_goes_when_there_are_too_many(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(ready_messages_max=2), world.target)
        await world.publish(b"a", b"b", b"c", b"d")
        assert world.target.departed_as == [("maxlen", b"a"), ("maxlen", b"b")]
        consumer, sink = attach(world.subscription, permits=2)
        await quiet(world.engine)
        assert sink.bodies == [b"c", b"d"]
        await world.publish(b"e", b"f")  # what is in flight does not count
        assert world.subscription.ready_messages == 2
        consumer.release(sink.positions, count=False)  # type: ignore[attr-defined]
        await quiet(world.engine)
        assert world.target.departed_as[2:] == [("maxlen", b"c"), ("maxlen", b"d")]

    await in_world(data_dir, durable, play)


async def test_a_pull_gets_nothing_that_is_too_much(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        await world.publish(b"a", b"b", b"c")
        consumer, _ = attach(world.subscription)
        world.subscription.limit(Limits(ready_messages_max=1), world.target)
        assert world.subscription.ready_messages == 1, (
            "the limit must show in the count before entries are dropped"
        )
        run = await consumer.pull()  # type: ignore[attr-defined]
        assert [body_of(each) for each in run.entries] == [b"c"]
        await quiet(world.engine)
        assert world.target.departed_as == [("maxlen", b"a"), ("maxlen", b"b")]

    await in_world(data_dir, durable, play)


async def test_what_comes_back_is_within_the_limit_before_anybody_gets_it_again(
    data_dir: Path, durable: bool
) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(ready_messages_max=1), world.target)
        consumer, sink = attach(world.subscription, unlimited=True)
        await world.publish(b"a", b"b", b"c")
        assert sink.bodies == [b"a", b"b", b"c"]
        consumer.release(sink.positions, count=True)  # type: ignore[attr-defined]
        await quiet(world.engine)
        assert sink.bodies[3:] == [b"c"]
        assert world.target.departed_as == [("maxlen", b"a"), ("maxlen", b"b")]

    await in_world(data_dir, durable, play)


async def test_what_comes_meanwhile_is_not_too_much_for_a_waiting_consumer(
    data_dir: Path, durable: bool
) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(ready_messages_max=1), world.target)
        consumer, sink = attach(world.subscription, unlimited=True)
        await world.publish(b"a")
        consumer.release(sink.positions, count=True)  # type: ignore[attr-defined]
        made = [entry(body, now_ms=world.now[0]) for body in (b"b", b"c")]
        unit = Unit([(world.engine.topic("q"), made)])
        world.engine.commit(unit, lambda error: None)
        await quiet(world.engine)
        assert sorted(sink.bodies[1:]) == [b"a", b"b", b"c"]

    await in_world(data_dir, durable, play)


async def test_bytes_are_counted_one_by_one(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        sizes = Limits(ready_bytes_max=100, size_of=lambda each: len(each) - 40)
        world.subscription.limit(sizes, world.target)
        await world.publish(bytes(90), b"a", b"b")
        await world.publish(bytes(8))
        assert world.target.departed_as == []
        await world.publish(b"c")
        assert world.target.departed_as == [("maxlen", bytes(90))]
        assert world.subscription.ready_bytes == 11

    await in_world(data_dir, durable, play)


async def test_bytes_count_as_the_limit_says(data_dir: Path) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(
            Limits(ready_bytes_max=10, size_of=lambda each: len(each) - 40), None
        )
        await world.publish(*(b"%04d" % index for index in range(5)))
        assert world.subscription.ready_messages == 2

    await in_world(data_dir, True, play)


async def test_what_has_expired_is_not_delivered(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(), world.target)
        await world.publish(b"long")
        await world.publish(b"short", lives_ms=50)
        await world.publish(b"longer")
        await world.wait(100)
        assert world.subscription.ready_messages == 3  # it is not at the front
        _, sink = attach(world.subscription, permits=10)
        await quiet(world.engine)
        assert sink.bodies == [b"long", b"longer"]
        assert world.target.departed_as == [("expired", b"short")]

    await in_world(data_dir, durable, play)


async def test_no_time_at_all_is_enough_once(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(message_ttl_ms=0), world.target)
        consumer, sink = attach(world.subscription, permits=10)
        await world.publish(b"a")
        assert sink.bodies == [b"a"]
        consumer.release(sink.positions, count=True)  # type: ignore[attr-defined]
        await quiet(world.engine)
        assert sink.bodies == [b"a"]
        assert world.target.departed_as == [("expired", b"a")]

    await in_world(data_dir, durable, play)


async def test_a_pull_never_gets_what_lives_no_time_at_all(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        await world.publish(b"a", lives_ms=0)
        consumer, _ = attach(world.subscription)
        assert await consumer.pull() is None  # type: ignore[attr-defined]

    await in_world(data_dir, durable, play)


async def test_a_pull_does_not_count_later_messages_that_have_expired(
    data_dir: Path, durable: bool
) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(), world.target)
        for body, lives_ms in ((b"a", None), (b"b", 0), (b"c", None)):
            await world.publish(body, lives_ms=lives_ms)
        consumer, _ = attach(world.subscription)
        run = await consumer.pull()  # type: ignore[attr-defined]
        assert [body_of(each) for each in run.entries] == [b"a"]
        assert world.subscription.ready_messages == 1

    await in_world(data_dir, durable, play)


async def test_what_expires_at_once_is_only_for_consumers_already_attached(
    data_dir: Path, durable: bool
) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(), world.target)
        await world.publish(b"waits")
        await world.publish(b"missed", lives_ms=0)
        _, sink = attach(world.subscription, permits=10)
        await quiet(world.engine)
        assert sink.bodies == [b"waits"]
        await world.publish(b"caught", lives_ms=0)
        assert sink.bodies == [b"waits", b"caught"]
        assert world.target.departed_as == [("expired", b"missed")]

    await in_world(data_dir, durable, play)


async def test_the_front_expires_by_itself(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(message_ttl_ms=100), world.target)
        await world.publish(b"a")
        await world.wait(60)
        await world.publish(b"b")
        await world.wait(60)
        assert world.target.departed_as == [("expired", b"a")]
        await world.wait(60)
        assert world.target.departed_as == [("expired", b"a"), ("expired", b"b")]

    await in_world(data_dir, durable, play)


async def test_an_expiry_survives_a_restart(data_dir: Path) -> None:
    async def publish(world: World) -> None:
        world.subscription.limit(Limits(), None)
        await world.publish(b"short", lives_ms=50)

    await in_world(data_dir, True, publish)
    async with open_engine(data_dir, now_ms=lambda: START_MS + 100) as engine:
        subscription = engine.topic("q").subscriptions["s"]
        subscription.limit(Limits(), None)
        await quiet(engine)
        assert subscription.ready_messages == 0


async def test_the_delivery_limit(data_dir: Path) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(delivery_limit=2), world.target)
        consumer, sink = attach(world.subscription, permits=100)
        await world.publish(b"a")
        for _ in range(3):
            consumer.release(sink.positions[-1:], count=True)  # type: ignore[attr-defined]
            await quiet(world.engine)
        assert len(sink.bodies) == 3
        assert world.target.departed_as == [("delivery_limit", b"a")]

    await in_world(data_dir, True, play)


async def test_a_million_that_expire_at_once_go_step_by_step(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_lettering, "OUTSTANDING_MAX", 10)

    async def play(world: World) -> None:
        world.subscription.limit(Limits(message_ttl_ms=10), world.target)
        await world.publish(*(b"%d" % index for index in range(95)))
        await world.wait(50)
        assert [body for _, body in world.target.departed_as] == [b"%d" % i for i in range(95)]
        # Those in each commit under way, and as many that wait.
        assert world.target.most <= 10 * (world.engine.commits_at_once + 1)

    await in_world(data_dir, True, play)


async def test_a_failed_commit_loses_nothing(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)

        async def play(world: World) -> None:
            world.subscription.limit(Limits(), world.target)
            consumer, sink = attach(world.subscription, permits=10)
            await world.publish(b"a", b"b")
            faulty.fail_next()
            consumer.reject(sink.positions)  # type: ignore[attr-defined]
            await quiet(world.engine)
            assert (await world.dead(), len(world.target.failed)) == ([], 1)
            assert world.subscription.ready_messages == 0
            assert world.subscription.statistics().backlog_entries == 2
            world.target.retry()
            await quiet(world.engine)
            assert await world.dead() == [b"a", b"b"]

        await in_world(data_dir, True, play, committing=faulty, store=store)


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4), st.sampled_from([None, 0, 30, 70])),
        st.tuples(st.just("wait"), st.integers(1, 60)),
        st.tuples(st.sampled_from(["ack", "reject", "release"]), st.integers(1, 3)),
        st.tuples(st.just("flow"), st.integers(1, 4)),
        st.tuples(st.just("fail")),
        st.tuples(st.just("retry")),
        st.tuples(st.just("leave")),
    ),
    max_size=30,
)
LIMITS = st.builds(
    Limits,
    message_ttl_ms=st.sampled_from([None, 0, 50]),
    ready_messages_max=st.sampled_from([None, 0, 3]),
    delivery_limit=st.sampled_from([None, 1]),
)


@given(ops=OPS, limits=LIMITS, in_memory=st.booleans(), highest=st.sampled_from([0, 3]))
@settings(max_examples=20)
def test_every_message_is_at_exactly_one_place(
    ops: Sequence[tuple], limits: Limits, in_memory: bool, highest: int
) -> None:
    async def scenario() -> None:
        with TemporaryDirectory() as position, Store.open(Path(position, "data")) as store:
            faulty = FaultyStore(store)
            await in_world(
                store.path, not in_memory, partial(_play, ops, limits, faulty, highest),
                committing=faulty, store=store,
            )  # fmt: skip
            with store.snapshot() as snapshot:
                assert check(snapshot) == []

    trio.run(scenario, clock=trio.testing.MockClock(autojump_threshold=0))


async def _play(
    ops: Sequence[tuple], limits: Limits, faulty: FaultyStore, highest: int, world: World
) -> None:
    world.subscription.prioritise(highest)
    world.subscription.limit(limits, world.target)
    consumer, sink = attach(world.subscription)
    published: list[bytes] = []
    acked: set[bytes] = set()
    seen = 0
    for op in ops:
        match op:
            case ("publish", count, lives_ms):
                bodies = [b"%d" % (len(published) + index) for index in range(count)]
                try:
                    await world.publish(*bodies, lives_ms=lives_ms)
                    published += bodies
                except CommitFailed:
                    published += []
            case ("wait", ms):
                await world.wait(ms)
            case ("flow", count):
                consumer.flow(count)  # type: ignore[attr-defined]
            case ("fail",):
                faulty.fail_next()
            case ("retry",):
                world.target.retry()
            case ("leave",):
                consumer.detach()  # type: ignore[attr-defined]
                consumer, sink = attach(world.subscription)
                seen = 0
            case (answer, count):
                positions = sink.positions[seen : seen + count]
                if answer == "ack":
                    acked.update(sink.bodies[seen : seen + count])
                    consumer.acknowledge(positions)  # type: ignore[attr-defined]
                elif answer == "reject":
                    consumer.reject(positions)  # type: ignore[attr-defined]
                else:
                    consumer.release(positions, count=True)  # type: ignore[attr-defined]
                seen += len(positions)
        await quiet(world.engine)
    faulty.heal()
    consumer.detach()  # type: ignore[attr-defined]
    while world.target.failed:
        world.target.retry()
        await quiet(world.engine)
    await quiet(world.engine)
    world.subscription.limit(Limits(), world.target)
    dead = await world.dead()
    rest, last = attach(world.subscription, permits=1000)
    await quiet(world.engine)
    assert len(set(dead)) == len(dead), "nothing departs twice"
    departed = {body for _, body in world.target.departed_as}
    left = set(last.bodies)
    assert acked | departed | left == set(published)
    assert not acked & left
    assert not departed & left
    assert not acked & departed
    del rest


async def test_without_a_target_later_what_departed_before_still_goes_there(
    data_dir: Path, durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_lettering, "OUTSTANDING_MAX", 1)

    async def play(world: World) -> None:
        world.subscription.limit(Limits(), world.target)
        consumer, sink = attach(world.subscription, permits=3)
        await world.publish(b"a", b"b", b"c")
        consumer.reject(sink.positions[:2])  # type: ignore[attr-defined]
        world.subscription.limit(Limits(), None)
        consumer.reject(sink.positions[2:])  # type: ignore[attr-defined]
        await quiet(world.engine)
        assert world.target.departed_as == [("rejected", b"a"), ("rejected", b"b")]
        assert world.subscription.statistics().backlog_entries == 0

    await in_world(data_dir, durable, play)


async def test_a_time_to_live_that_changed_is_for_what_came_later(
    data_dir: Path, durable: bool
) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(), world.target)
        await world.publish(b"old")
        ttl = ChangedTtl(50, ((START_MS + 1, None),))
        await world.wait(10)
        world.subscription.limit(Limits(message_ttl_ms=ttl), world.target)
        await world.publish(b"new")
        await world.wait(100)
        _, sink = attach(world.subscription, permits=1)
        await quiet(world.engine)
        assert sink.bodies == [b"old"]
        assert world.target.departed_as == [("expired", b"new")]

    await in_world(data_dir, durable, play)


async def test_other_limits_do_not_recount_bytes(data_dir: Path, durable: bool) -> None:
    async def play(world: World) -> None:
        world.subscription.limit(Limits(ready_bytes_max=1000), None)
        await world.publish(b"a")
        counter = world.subscription.machine.state.byte_counter  # type: ignore[attr-defined]
        world.subscription.limit(Limits(ready_bytes_max=500, ready_messages_max=9), None)
        assert world.subscription.machine.state.byte_counter is counter  # type: ignore[attr-defined]
        world.subscription.limit(Limits(), None)
        assert world.subscription.machine.state.byte_counter is None  # type: ignore[attr-defined]

    await in_world(data_dir, durable, play)
