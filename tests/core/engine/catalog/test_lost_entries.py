"""Entries that a damaged journal lost: everybody passes over them, and everything else stays."""

import shutil
from pathlib import Path

import pytest
import trio

from arneb_core.api.entries.position import LedgerId, Position, position_at
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.log.offsets import find_offset, offset_of
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import LedgerRecord, pack_gap
from arneb_core.store.format.schema import Table, TopicId, gap_key, ledger_key
from arneb_core.store.journal.writing import JOURNAL_NAME
from arneb_core.testing.engine_kit import attach, make_entry, publish, quiet
from arneb_core.testing.store_kit import commit_small, end_of_last_record

ENTRIES = 20
LOST = [position_at(1, index) for index in (5, 6, 11)]
WHOLE = [index for index in range(ENTRIES) if position_at(1, index) not in LOST]


async def begin(position: Path, killed: Path) -> None:
    async with open_engine(position) as engine:
        topic = await engine.create_topic("q")
        await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)
        await publish(engine, "q", [b"0"])
        shutil.copytree(position, killed)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What a broker leaves that was killed with nineteen messages of a queue in the journal, three
    of which are damaged."""
    killed = tmp_path / "killed"
    trio.run(begin, tmp_path / "data", killed)
    ends = []
    with Store.open(killed) as store:
        store.prepare_tiny()
        for index in range(1, ENTRIES):
            run = (TopicId(1), position_at(1, index), [make_entry(b"%d" % index)])
            assert commit_small(store, Changes([run])).needs_takeover
            ends.append(end_of_last_record(store))
    data = bytearray((killed / JOURNAL_NAME).read_bytes())
    for place_lost in LOST:
        data[ends[(place_lost & 0xFFFF) - 1] - 40] ^= 1
    (killed / JOURNAL_NAME).write_bytes(data)
    return killed


def bodies(indexes: list[int]) -> list[bytes]:
    return [b"%d" % index for index in indexes]


async def delivered(engine: Engine, name: str = "amqp", **options: object) -> tuple[list, list]:
    subscription = await engine.topic("q").subscribe(name, **options)  # type: ignore[arg-type]
    _, sink = attach(subscription, permits=1000, type=SubscriptionType.SHARED)
    await quiet(engine)
    return sink.bodies, sink.positions


async def test_consumers_pass_over_what_is_lost_with_a_line_and_a_count(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_engine(data) as engine:
        assert [each for each in caplog.messages if "skips" in each] == [
            "subscription 'amqp' of topic 'q' skips lost entries 1:5 to 1:6",
            "subscription 'amqp' of topic 'q' skips lost entries 1:11 to 1:11",
        ]
        assert engine.topic("q").subscriptions["amqp"].statistics().lost_entries_total == 3
        assert engine.topic("q").subscriptions["amqp"].statistics().backlog_entries == len(WHOLE)
        found, positions = await delivered(engine)
        assert found == bodies(WHOLE)
        assert positions == [position_at(1, index) for index in WHOLE]
        assert await publish(engine, "q", [b"later"]) == position_at(2, 0)


async def test_later_subscriptions_and_seeks_pass_over_it_too(data: Path) -> None:
    async with open_engine(data) as engine:
        for options in ({"initial": InitialPosition.EARLIEST}, {"start": LOST[0]}):
            for durable in (True, False):
                name = f"s{len(engine.topic('q').subscriptions)}"
                found, _ = await delivered(engine, name, durable=durable, **options)
                assert found == bodies(WHOLE if "initial" in options else WHOLE[5:])
        subscription = engine.topic("q").subscriptions["amqp"]
        _, sink = attach(subscription, permits=1000, type=SubscriptionType.SHARED)
        await quiet(engine)
        await subscription.seek(LOST[1])
        _, again = attach(subscription, permits=1000, type=SubscriptionType.SHARED)
        await quiet(engine)
        assert sink.bodies == bodies(WHOLE)
        assert again.bodies == bodies(WHOLE[5:])


async def test_it_stays_so_after_further_starts_and_kills(data: Path, tmp_path: Path) -> None:
    for life in range(3):
        async with open_engine(data) as engine:
            found, _ = await delivered(engine, f"s{life}", initial=InitialPosition.EARLIEST)
            assert found[: len(WHOLE)] == bodies(WHOLE)
            assert await publish(engine, "q", [b"later"]) == position_at(2 + life, 0)
            killed = tmp_path / f"killed{life}"
            shutil.copytree(data, killed)
        kinds = [each.kind for each in check(killed)]
        assert kinds == [FindingKind.JOURNAL_KEPT, *[FindingKind.GAP] * 2]
        data = killed


async def test_offsets_after_it_do_not_move(data: Path) -> None:
    async with open_engine(data) as engine:
        topic = engine.topic("q")
        assert await offset_of(topic, position_at(1, 12)) == 12
        assert await find_offset(topic, 12) == position_at(1, 12)
        assert await find_offset(topic, 5) == LOST[0]
        await publish(engine, "q", [b"later"])
        assert topic.first_offset(LedgerId(2)) == ENTRIES


async def test_offsets_between_batches_count_it_as_one_message_each(data: Path) -> None:
    with Store.open(data) as store:
        store.commit(Changes())
        batch = make_entry(b"batch", messages=3)
        store.commit(Changes([(TopicId(1), position_at(1, ENTRIES), [batch])]))
    async with open_engine(data) as engine:
        topic = engine.topic("q")
        assert await offset_of(topic, position_at(1, 12)) == 12
        assert await offset_of(topic, LOST[1]) == 6
        assert await find_offset(topic, 12) == position_at(1, 12)
        assert await find_offset(topic, 6) == LOST[1]
        assert await find_offset(topic, ENTRIES + 2) == position_at(1, ENTRIES)
        assert topic.messages == ENTRIES + 3


async def test_it_goes_with_its_ledger(data: Path) -> None:
    async with open_engine(data) as engine:
        await publish(engine, "q", [b"later"])
        subscription = engine.topic("q").subscriptions["amqp"]
        consumer, sink = attach(subscription, permits=1000, type=SubscriptionType.SHARED)
        await quiet(engine)
        consumer.acknowledge(sink.positions)  # type: ignore[attr-defined]
        await quiet(engine)
        engine._committer.flush_cursors()
        await quiet(engine)
        assert engine.topic("q").first == position_at(2, 0)
    with Store.open(data) as store, store.snapshot() as snapshot:
        assert snapshot.rows(Table.GAPS) == 0


async def test_it_goes_with_its_topic(data: Path) -> None:
    async with open_engine(data) as engine:
        await engine.delete_topic("q")
        again = await engine.create_topic("q", TopicSettings())
        assert again.last is None
    assert [each.kind for each in check(data)] == [FindingKind.JOURNAL_KEPT]


async def test_reading_by_time_and_place_passes_over_it(data: Path) -> None:
    async with open_engine(data) as engine:
        topic = engine.topic("q")
        assert await topic.entry_at(LOST[0]) is None
        assert await topic.entry_at(position_at(1, 7)) is not None
        runs = await topic.read(Position(LOST[0]), 1 << 20)
        assert runs[0][0] == position_at(1, 7)
        assert await topic.first_published(0) == position_at(1, 0)
        assert await topic.first_published(1) is None


@pytest.mark.parametrize("whole", [0, 3])
async def test_the_last_entry_is_one_that_is_there(data_dir: Path, whole: int) -> None:
    """What a salvage leaves when the end of a log is lost."""
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("q")
        await publish(engine, "q", [b"gone"])
        if whole:
            await publish(engine, "q", [b"kept"] * (whole - 1))
    with Store.open(data_dir) as store:
        changes = Changes()
        if not whole:
            changes.trims.append((TopicId(1), position_at(1, 0), position_at(1, 0)))
        size = whole * len(make_entry(b"kept"))
        record = LedgerRecord(1, 1, 5, 5, size).pack()
        changes.puts += [
            (Table.LEDGERS, ledger_key(TopicId(1), LedgerId(1)), record),
            (Table.GAPS, gap_key(TopicId(1), position_at(1, 4)), pack_gap(position_at(1, whole))),
        ]
        store.commit(changes)
    async with open_engine(data_dir) as engine:
        topic = engine.topic("q")
        assert topic.last == (position_at(1, whole - 1) if whole else None)
        found = await topic.last_entry()
        assert (found and found[0]) == topic.last
        assert await topic.first_published(1 << 40) is None
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        await subscription.seek_time(1 << 40)
        assert await publish(engine, "q", [b"later"]) == position_at(2, 0)
        assert topic.last == position_at(2, 0)
        assert (await delivered(engine, "s"))[0] == [b"later"]
    assert {each.kind for each in check(data_dir)} <= {FindingKind.GAP}
