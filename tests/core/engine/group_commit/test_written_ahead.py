"""Large units that are written ahead of the commit that makes them count."""

from pathlib import Path

import pytest
import trio
from tests.core.engine.group_commit.test_counted_runs import run_of

from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position, ledger_of
from arneb_core.api.errors import StoreFailed, TopicFenced
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import DelayedSettings, TopicSettings, TrackerKind
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.group_commit import write_ahead
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import Finding
from arneb_core.store.commit import transaction
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.schema import META_AHEAD, Table
from arneb_core.store.reading.extents import find_extents
from arneb_core.testing.engine_kit import append, attach, body_of, make_entry, publish, quiet
from arneb_core.testing.faults import FaultyStore

KEPT = TopicSettings(retention_ms=-1, retention_bytes=-1)
SMALL = TopicSettings(retention_ms=-1, retention_bytes=-1, ledger_bytes_max=1)
SLICE = 400


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of ten entries are large."""
    monkeypatch.setattr(write_ahead, "UNIT_BYTES_MIN", 400)
    monkeypatch.setattr(write_ahead, "TOPIC_BYTES_MIN", 200)
    monkeypatch.setattr(write_ahead, "SLICE_BYTES", SLICE)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    """What was committed, in order."""
    found: list[Changes] = []
    original = Store.commit

    def commit(self: Store, changes: Changes) -> CommitReport:
        found.append(changes)
        return original(self, changes)

    monkeypatch.setattr(Store, "commit", commit)
    return found


def numbered(first: int, count: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, first + count)]


def unit_of(engine: Engine, **topics: list[bytes]) -> Unit:
    """A unit of one run a topic, and a mark."""
    runs = [run_of(engine, name, list(map(make_entry, each))) for name, each in topics.items()]
    return Unit(runs=runs, metadata=[("mark", b"1")])


def check_of(store: Store) -> list[Finding]:
    """What is wrong in an open store."""
    with store.snapshot() as snapshot:
        return check(snapshot)


def slices_of(count: int) -> int:
    """How many blocks so many entries of a byte or two become."""
    sizes = [40 + len(each) for each in numbered(1, count)]
    blocks = size = 0
    for each in sizes:
        size += each
        if size >= SLICE:
            blocks, size = blocks + 1, 0
    return blocks + bool(size)


async def bodies(engine: Engine, name: str) -> list[bytes]:
    """All that is in a topic."""
    topic, found = engine.topic(name), list[bytes]()
    position = topic.first
    while position is not None:
        for first, entries in await topic.read(position, 1 << 20):
            assert first >= position
            found += map(body_of, entries)
            position = Position(first + len(entries) - 1)
        position = topic.log.after(position)
    return found


def rows(store: Store) -> int:
    with store.snapshot() as snapshot:
        assert snapshot.get(Table.META, META_AHEAD) is None
        return snapshot.rows(Table.ENTRIES)


async def test_a_large_unit_is_on_disk_before_its_commit_and_seen_only_with_it(
    data_dir: Path, commits: list[Changes]
) -> None:
    async with open_engine(data_dir) as engine:
        for name in ("a", "b", "few"):
            await engine.create_topic(name, KEPT)
        _, sink = attach(
            await engine.topic("a").subscribe("s", initial=InitialPosition.EARLIEST), permits=1000
        )
        await publish(engine, "a", [b"before"])
        unit = unit_of(engine, a=numbered(0, 40), b=numbered(40, 20), few=[b"x"])
        commits.clear()
        async with engine.written_ahead(unit):
            slices = [each for each in commits if each.blocks]
            assert len(slices) > 3
            for each in slices:
                size = sum(len(entry) for _, _, entries in each.blocks for entry in entries)
                assert size <= SLICE + 50
            assert await bodies(engine, "a") == [b"before"]
            await publish(engine, "a", [b"meanwhile"])
            commits.clear()
            await engine.committed(unit)
            assert sum(len(e) for each in commits for _, _, e in each.blocks) == 1, "of few"
        await quiet(engine)
        expected = [b"before", b"meanwhile", *numbered(0, 40)]
        assert sink.bodies == expected
        await publish(engine, "a", [b"behind"])
        assert await bodies(engine, "a") == [*expected, b"behind"]
        assert await bodies(engine, "b") == numbered(40, 20)
        assert await bodies(engine, "few") == [b"x"]
        assert engine.metadata("mark") == {"mark": b"1"}
    async with open_engine(data_dir) as engine:
        assert await bodies(engine, "a") == [*expected, b"behind"]
        assert await bodies(engine, "b") == numbered(40, 20)
        assert engine.topic("a").statistics().messages == 43


async def test_readers_elsewhere_do_not_see_what_is_being_written(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            for name in ("a", "empty"):
                await engine.create_topic(name, KEPT)
            await publish(engine, "a", [b"0"])
            unit = unit_of(engine, a=numbered(1, 20), empty=numbered(0, 20))
            async with engine.written_ahead(unit):
                with store.snapshot() as snapshot:
                    found = {each.topic: each for each in find_extents(snapshot, ["a", "empty"])}
                    assert [each.entries for each in found["a"].ledgers] == [1]
                    assert found["empty"].ledgers == ()
                    assert not check(snapshot)
                await engine.committed(unit)
            with store.snapshot() as snapshot:
                (extent,) = find_extents(snapshot, ["a"])
                assert sum(each.entries for each in extent.ledgers) == 21


async def test_what_is_not_committed_goes(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("a", KEPT)
            await publish(engine, "a", [b"0"])
            before = rows(store)
            with pytest.raises(RuntimeError, match="changed its mind"):
                async with engine.written_ahead(unit_of(engine, a=numbered(1, 30))):
                    raise RuntimeError("it changed its mind")
            await quiet(engine)
            assert rows(store) == before
            await publish(engine, "a", [b"1"])
            unit = unit_of(engine, a=numbered(2, 30))
            async with engine.written_ahead(unit):
                await engine.committed(unit)
            assert await bodies(engine, "a") == numbered(0, 32)
    assert not check(data_dir)


async def test_after_a_crash_at_any_commit_all_of_it_is_there_or_nothing(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images: list[Path] = []
    original = Store.commit

    def commit(self: Store, changes: Changes) -> CommitReport:
        report = original(self, changes)
        if self.path == data_dir:
            images.append(tmp_path / f"image-{len(images)}")
            images[-1].mkdir()
            self.copy(images[-1])
        return report

    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("a", KEPT)
            await engine.create_topic("b", KEPT)
            await publish(engine, "a", [b"0"])
            await quiet(engine)
            unit = unit_of(engine, a=numbered(1, 40), b=numbered(1, 40))
            monkeypatch.setattr(Store, "commit", commit)
            async with engine.written_ahead(unit):
                await engine.committed(unit)
            monkeypatch.setattr(Store, "commit", original)
    whole = []
    for image in images:
        assert not check(image)
        async with open_engine(image) as engine:
            found = await bodies(engine, "a")
            whole.append(len(found) > 1)
            assert found == (numbered(0, 41) if whole[-1] else [b"0"])
            assert await bodies(engine, "b") == (numbered(1, 40) if whole[-1] else [])
            assert bool(engine.metadata("mark")) is whole[-1]
            await publish(engine, "a", [b"x"])
            unit = unit_of(engine, a=numbered(100, 20))
            async with engine.written_ahead(unit):
                await engine.committed(unit)
            assert await bodies(engine, "a") == [*found, b"x", *numbered(100, 20)]
        assert not check(image)
    assert whole.count(False) >= 8, "expected at least eight slices"
    assert whole == sorted(whole)
    assert whole[-1]


async def test_what_a_crash_left_is_not_written_over_while_it_goes_bit_by_bit(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that was opened where blocks are still to be removed would go with them."""
    image = tmp_path / "image"
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("a", SMALL)
            await publish(engine, "a", [b"0"])
            await quiet(engine)
            async with engine.written_ahead(unit_of(engine, a=numbered(100, 60))):
                image.mkdir()
                store.copy(image)
    monkeypatch.setattr(transaction, "TRIM_BLOCKS_MAX", 0)
    expected = [b"0"]
    with Store.open(image) as store:
        async with open_engine(image, store=store) as engine:
            for number in range(1, 12):  # each opens a ledger
                if number == 4:  # until then nothing goes
                    monkeypatch.setattr(transaction, "TRIM_BLOCKS_MAX", 1)
                expected.append(b"%d" % number)
                await publish(engine, "a", [expected[-1]])
                assert await bodies(engine, "a") == expected
                assert not check_of(store)
            await quiet(engine)
    async with open_engine(image) as engine:
        assert await bodies(engine, "a") == expected
    assert not check(image)


async def test_what_fails_leaves_nothing_even_if_its_removal_fails_at_first(
    data_dir: Path,
) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            await engine.create_topic("a", KEPT)
            await publish(engine, "a", [b"0"])
            before = rows(store)
            unit = unit_of(engine, a=numbered(1, 40))
            with pytest.raises(StoreFailed):
                async with engine.written_ahead(unit):
                    faulty.fail_until_healed()
                    await engine.committed(unit)
            assert await bodies(engine, "a") == [b"0"]
            assert not engine.metadata("mark")
            with store.snapshot() as snapshot:
                assert snapshot.get(Table.META, META_AHEAD) is not None
            faulty.heal()
            assert not check_of(store)
            unit = unit_of(engine, a=numbered(1, 20))
            async with engine.written_ahead(unit):
                await engine.committed(unit)
            await quiet(engine)
            assert rows(store) == before + slices_of(20)
            assert await bodies(engine, "a") == numbered(0, 21)
            faulty.fail_next()
            with pytest.raises(StoreFailed):
                async with engine.written_ahead(unit_of(engine, a=numbered(1, 40))):
                    raise AssertionError("the first slice failed")
            await quiet(engine)
            assert rows(store) == before + slices_of(20)


async def test_a_log_that_needs_more_ledgers_meanwhile_goes_on_and_the_unit_follows(
    data_dir: Path,
) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("a", SMALL)
            await publish(engine, "a", [b"0"])
            unit = unit_of(engine, a=numbered(3, 40))
            async with engine.written_ahead(unit):
                await publish(engine, "a", [b"1"])  # takes the ledger that was left free
                await publish(engine, "a", [b"2"])  # and this one needs another
                assert await bodies(engine, "a") == numbered(0, 3)
                await engine.committed(unit)
            await quiet(engine)
            await publish(engine, "a", [b"43"])
            assert await bodies(engine, "a") == numbered(0, 44)
            ids = [each.id for each in engine.topic("a").ledgers()]
            assert ids == list(range(ids[0], ids[0] + len(ids)))
    async with open_engine(data_dir) as engine:
        assert await bodies(engine, "a") == numbered(0, 44)


async def test_a_log_whose_last_ledger_ends_meanwhile_goes_on(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("a", KEPT)
        await publish(engine, "a", [b"0"])
        unit = unit_of(engine, a=numbered(1, 40))
        async with engine.written_ahead(unit):
            end = await topic.roll()
            await engine.committed(unit)
        assert topic.ledgers()[0].closed_ms
        assert topic.first is not None
        assert ledger_of(topic.first) < ledger_of(end)
        assert await bodies(engine, "a") == numbered(0, 41)


async def test_a_topic_that_goes_meanwhile_fails_the_unit_and_leaves_nothing(
    data_dir: Path,
) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("a", KEPT)
            await engine.create_topic("b", KEPT)
            unit = unit_of(engine, a=numbered(0, 40), b=numbered(0, 40))
            with pytest.raises(TopicFenced):
                async with engine.written_ahead(unit):
                    assert engine.topic("a").has_incoming
                    await engine.delete_topic("a")
                    await engine.committed(unit)
            await quiet(engine)
            assert await bodies(engine, "b") == []
            assert not engine.topic("b").has_incoming
            assert rows(store) == 0


async def test_a_caller_that_stops_waiting_does_not_lose_what_is_committed(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        await engine.create_topic("a", KEPT)
        unit = unit_of(engine, a=numbered(0, 40))
        with trio.CancelScope() as scope:
            async with engine.written_ahead(unit):
                scope.cancel()
                await engine.committed(unit)
        assert scope.cancelled_caught
        assert await bodies(engine, "a") == numbered(0, 40)
    async with open_engine(data_dir) as engine:
        assert await bodies(engine, "a") == numbered(0, 40)


@pytest.mark.parametrize("kind", list(TrackerKind))
async def test_what_was_written_in_vain_is_in_no_index_of_delayed_entries(
    data_dir: Path, tmp_path: Path, kind: TrackerKind
) -> None:
    delays, image = DelayedSettings(tracker=kind), tmp_path / "image"
    image.mkdir()
    later = EntryHeader(Origin.PULSAR, deliver_at_ms=1 << 42).pack() + b"later"
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store, delays=delays) as engine:
            topic = await engine.create_topic("a", KEPT)
            engine.expect_delays(topic)
            await append(engine, "a", [later])
            unit = Unit(runs=[run_of(engine, "a", [later] * 40)])
            async with engine.written_ahead(unit):
                store.copy(image)
    async with open_engine(image, delays=delays) as engine:
        copied = engine.topic("a")
        assert isinstance(copied, LogTopic)
        assert copied.delayed is not None
        assert len(copied.delayed.tracker.members) == 1
    assert not check(image)
