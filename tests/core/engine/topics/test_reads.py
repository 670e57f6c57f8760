"""What is read from the store: damage, trims that come between, and what is held in memory."""

from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import BEFORE_ALL, Position, position_at
from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import Window
from arneb_core.engine.engine import open_engine
from arneb_core.engine.scheduling import maintenance
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, entry_key
from arneb_core.subscription.sources import backlog
from arneb_core.testing.engine_kit import Outcome, RecordingSink, append, make_entry, publish, quiet

pytestmark = pytest.mark.real_time

AMQP = ConsumerSpec("a", message_level=True, unlimited=True, entries_per_turn_max=1)
PULSAR = ConsumerSpec("p")
EXCLUSIVE = ConsumerSpec("x", SubscriptionType.EXCLUSIVE, unlimited=True)


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "READ_RETRY_S", 0.02)


async def make_queue(engine, name="q"):
    topic = await engine.create_topic(name)
    return await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)


def block_of(store: Store, position: Position) -> bytes:
    with store.snapshot() as snapshot:
        block = snapshot.get(Table.ENTRIES, entry_key(1, position))
    assert block is not None
    return block


@contextmanager
def damaged(store: Store, position: Position, block: bytes | None = None):
    """The block that ends at ``position`` is something else meanwhile; None: with another
    checksum."""
    key, good = entry_key(1, position), block_of(store, position)
    bad = good[:-1] + bytes([good[-1] ^ 1]) if block is None else block
    put(store, key, bad)
    yield
    put(store, key, good)


def put(store: Store, key: bytes, value: bytes) -> None:
    with store._live.working().begin(write=True) as txn:
        if value:
            txn.put(key, value, db=store._live.tables[Table.ENTRIES])
        else:
            txn.delete(key, db=store._live.tables[Table.ENTRIES])


async def until(condition) -> None:
    """Wait until ``condition()``."""
    with trio.fail_after(5):
        while not condition():
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("block", [None, b""], ids=["other bytes", "no block"])
async def test_a_damaged_block_stops_only_its_reader(
    store: Store, data_dir: Path, block: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it is delivered, nothing is skipped, nothing spins, and when it can be read
    again the deliveries go on."""
    async with open_engine(data_dir, store=store) as engine:
        subscription = await make_queue(engine)
        other = await make_queue(engine, "other")
        positions = [await publish(engine, "q", [b"%d" % number]) for number in range(3)]
        sink, others = RecordingSink(), RecordingSink()
        with damaged(store, positions[1], block):
            subscription.attach(AMQP, sink)
            await until(lambda: engine.statistics().read_failures_total > 3)
            assert sink.bodies == [b"0"]
            assert subscription.statistics().unreadable in (positions[1], None)
            assert len(caplog.records) == 1, "the failure must be logged once"
            await publish(engine, "other", [b"x"])
            other.attach(AMQP, others)
            await until(lambda: others.bodies == [b"x"])
            commits = engine.statistics().commits_total
            for _ in range(50):
                await trio.lowlevel.checkpoint()
            # One more at the most: what stands in the journal is taken over.
            assert engine.statistics().commits_total <= commits + 1
        await until(lambda: len(sink.bodies) == 3)
        await quiet(engine)
        assert sink.bodies == [b"0", b"1", b"2"]
        assert subscription.statistics().unreadable is None
        assert engine.is_quiet


async def test_a_damaged_replay_stands_still_too(store: Store, data_dir: Path) -> None:
    async with open_engine(data_dir, store=store) as engine:
        subscription = await make_queue(engine)
        position = await publish(engine, "q", [b"0"])
        sink = RecordingSink()
        consumer = subscription.attach(AMQP, sink)
        await quiet(engine)
        with damaged(store, position):
            consumer.release([position], count=True)
            await until(lambda: engine.statistics().read_failures_total > 1)
            assert len(sink.runs) == 1
        await until(lambda: len(sink.runs) == 2)
        assert sink.runs[1].redelivery_counts == {position: 1}


async def test_a_failing_read_is_reported_to_everybody_who_waits_for_it(
    store: Store, data_dir: Path
) -> None:
    async with open_engine(data_dir, store=store) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 3)])
        getter = subscription.attach(PULSAR, RecordingSink())
        with damaged(store, position):
            with pytest.raises(StoreFailed):
                await getter.pull()
            with pytest.raises(StoreFailed):
                await engine.topic("q").last_entry()
            with pytest.raises(StoreFailed):
                await subscription.seek_time(1)
            with pytest.raises(StoreFailed):
                await subscription.seek(position, 0b1)
            assert getter.attached, "nothing has changed"
            outcome = Outcome()
            getter.acknowledge_messages(position, 0b111, outcome)
            assert isinstance(await outcome.wait(), StoreFailed)
            assert subscription.mark_delete < position
        await until(lambda: not subscription.statistics().unreadable)
        run = await getter.pull()
        assert run is not None and run.masks == {position: 0b001}


async def test_damage_in_the_open_ledger_keeps_no_broker_from_starting(data_dir: Path) -> None:
    async def first() -> list[Position]:
        async with open_engine(data_dir) as engine:
            await make_queue(engine)
            return [await append(engine, "q", [make_entry(b"%d" % n, 2)]) for n in range(3)]

    positions = await first()
    with Store.open(data_dir) as store:
        with damaged(store, positions[1]):
            async with open_engine(data_dir, store=store) as engine:
                subscription = engine.topic("q").subscriptions["amqp"]
                sink = RecordingSink()
                subscription.attach(AMQP, sink)
                await until(lambda: engine.statistics().read_failures_total > 1)
                assert sink.runs[0].masks == {positions[0]: 0b11}
                await publish(engine, "q", [b"more"])
        async with open_engine(data_dir, store=store) as engine:
            sink = RecordingSink()
            engine.topic("q").subscriptions["amqp"].attach(AMQP, sink)
            await quiet(engine)
            assert sink.bodies == [b"0", b"1", b"2", b"more"]
            await engine.delete_topic("q")  # its ledger's count of messages was a guess


async def test_a_trim_during_a_read_wakes_its_reader(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers hold no ledgers; what they were about to read goes, and they go on behind it."""
    monkeypatch.setattr("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 2)
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        topic = engine.topic("q")
        for number in range(5):
            await publish(engine, "q", [b"%d" % number, b"and"])
        reader = await topic.subscribe("r", durable=False, initial=InitialPosition.EARLIEST)
        held = []
        ask = engine.reader.read
        monkeypatch.setattr(engine.reader, "read", lambda *args: held.append(args))
        sink = RecordingSink()
        reader.attach(EXCLUSIVE, sink)
        await quiet(engine)
        assert len(held) == 1 and not sink.runs
        monkeypatch.setattr(engine.reader, "read", ask)
        consumer = subscription.attach(EXCLUSIVE, RecordingSink())
        consumer.acknowledge_until(position_at(3, 1))
        outcome = Outcome()
        consumer.acknowledge([], outcome)
        assert await outcome.wait() is None
        await until(lambda: sink.bodies == [b"3", b"and", b"4", b"and"])
        ask(*held[0])  # the answer to the first question comes now, and changes nothing
        await quiet(engine)
        assert sink.bodies == [b"3", b"and", b"4", b"and"]


async def test_a_purge_during_a_read_wakes_a_pull(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        await publish(engine, "q", [b"0"])
        getter = subscription.attach(PULSAR, RecordingSink())
        monkeypatch.setattr(engine.reader, "read", lambda *_: None)
        pulled = []

        async def pull() -> None:
            pulled.append(await getter.pull())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await trio.testing.wait_all_tasks_blocked()
            assert subscription.machine.state.reader.fetch.is_under_way
            with trio.fail_after(5):
                await subscription.purge()
        assert pulled == [None]


async def test_a_pull_that_is_cancelled_or_whose_consumer_leaves_takes_nothing(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        await publish(engine, "q", [b"0"])
        getter = subscription.attach(PULSAR, RecordingSink())
        stays = subscription.attach(PULSAR, RecordingSink())
        held, ask = [], engine.reader.read
        monkeypatch.setattr(engine.reader, "read", lambda *args: held.append(args))
        pulled = []

        async def pull() -> None:
            pulled.append(await getter.pull())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(getter.pull)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await trio.testing.wait_all_tasks_blocked()
            getter.detach()
            ask(*held[0])
        assert pulled == [None] and getter.in_flight == 0
        run = await stays.pull()
        assert run is not None and len(run.positions) == 1


async def test_acks_of_what_is_not_there_do_not_make_it_read_again(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        first = await publish(engine, "q", [b"%d" % number for number in range(1_000)])
        sink = RecordingSink()
        consumer = subscription.attach(PULSAR, sink)
        consumer.flow(10)
        await quiet(engine)
        reads = 0
        ask = engine.reader.read

        def count(*args) -> None:
            nonlocal reads
            reads += 1
            ask(*args)

        engine.reader.read = count  # type: ignore[method-assign]
        for _ in range(100):
            consumer.acknowledge([Position(first + 5_000), BEFORE_ALL, Position(first)])
            consumer.flow(1)
            await quiet(engine)
        assert reads == 0 and len(sink.positions) == 110


async def test_long_stretches_of_acknowledged_entries_are_not_read(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        first = await publish(engine, "q", [bytes(5_000)])
        for _ in range(10):
            last = await publish(engine, "q", [bytes(5_000)] * 100)
        consumer = subscription.attach(PULSAR, RecordingSink())
        consumer.acknowledge([Position(first + each) for each in range(1, 1_000)])
        sizes = []
        ask = engine.reader.read
        engine.reader.read = lambda *args: (sizes.append(args[1]), ask(*args))  # type: ignore
        consumer.flow(2_000)
        await quiet(engine)
        assert subscription.statistics().in_flight_messages == 2
        assert len(sizes) <= 3 and last in range(first, sizes[-1] + 1)


async def test_what_was_read_and_not_taken_is_bounded_over_all_subscriptions(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 5: a backlog costs no memory, however many queues have one."""
    monkeypatch.setattr(backlog, "READ_BYTES", 64 * 1024)
    async with open_engine(data_dir) as engine:
        engine.ahead.bytes_max = 300_000
        entries = [make_entry(bytes(1_000)) for _ in range(100)]
        topics = [await engine.create_topic(f"q{number}") for number in range(10)]
        await engine.committed(Unit([(topic, entries) for topic in topics]))
        subscriptions = [
            await topic.subscribe("s", initial=InitialPosition.EARLIEST) for topic in topics
        ]
        sinks = [RecordingSink() for _ in topics]
        for subscription, sink in zip(subscriptions, sinks, strict=True):
            spec = ConsumerSpec("c", unlimited=True, windows=(Window(1),))
            subscription.attach(spec, sink)
        await quiet(engine)
        assert 0 < engine.ahead.bytes <= 300_000 + 100 * 1_040
        for index in range(100):
            for subscription, sink in zip(subscriptions, sinks, strict=True):
                subscription.consumers[0].acknowledge(sink.positions[-1:])
            if index % 20 == 0:
                await quiet(engine)
            else:
                count = min(index + 2, 100)
                await until(lambda n=count: min(len(each.runs) for each in sinks) >= n)
        assert all(sink.positions == sorted(set(sink.positions)) for sink in sinks)
        assert {len(sink.positions) for sink in sinks} == {100}
        for subscription in subscriptions:
            subscription.consumers[0].detach()
        assert engine.ahead.bytes == 0


async def test_a_stuck_topic_does_not_make_the_cache_remember_all_others(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        stuck, busy = await make_queue(engine, "stuck"), await make_queue(engine, "busy")
        stuck.attach(PULSAR, RecordingSink())
        await publish(engine, "stuck", [b"nobody has a permit for this"])
        sink = RecordingSink()
        busy.attach(AMQP, sink)
        for _ in range(100):
            await publish(engine, "busy", [b"x"])
        await quiet(engine)
        assert len(sink.bodies) == 100
        assert len(engine.budget) <= 2 and engine.statistics().cache_bytes < 1_000


async def test_a_topic_without_readers_is_not_cached(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        consumer = subscription.attach(PULSAR, RecordingSink())
        await publish(engine, "q", [b"x"])
        assert engine.statistics().cache_bytes
        consumer.detach()
        await quiet(engine)
        await publish(engine, "q", [b"x"])
        await quiet(engine)
        assert engine.statistics().cache_bytes == 0


async def test_a_store_that_is_no_store_of_ours_says_so_in_one_line(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await make_queue(engine)
    with Store.open(tmp_path) as store:
        store.commit(Changes(puts=[(Table.CATALOG, b"topic/bad", b"{}")]))
    with pytest.raises(StoreUnusable, match="expected a number in field 'id'"):
        async with open_engine(tmp_path):
            raise AssertionError("it must not open")
