"""A damaged journal: whole records keep their positions, and what is lost is reported."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import LedgerId, Position, before, position_at, render
from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import MAGIC_WITH_STAMP as MAGIC
from arneb_core.store.format.records import CursorRecord
from arneb_core.store.format.schema import (
    META_CLEAN,
    PLACE_SUFFIX,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    gap_key,
    ledger_key,
)
from arneb_core.store.journal.damaged_journal import KEPT_MAX, keep_aside, kept_reports
from arneb_core.store.journal.record import end_of_block
from arneb_core.store.journal.writing import JOURNAL_BYTES, JOURNAL_NAME
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.store_kit import (
    StoreModel,
    commit_small,
    end_of_last_record,
    entry,
    read_log,
)

RUNS = 100
KEPT = f"{JOURNAL_NAME}.damaged-1"


def published(path: Path, topics: int = 1, runs: int = RUNS) -> tuple[StoreModel, list[int]]:
    """What a killed broker leaves: runs of one entry in the journal, round the topics; and where
    each record ends in the file."""
    model, changes, ends = StoreModel(), Changes(), []
    with Store.open(path) as store:
        for index in range(topics):
            model.create_topic(changes, f"t{index}")
            model.subscribe(changes, f"t{index}", "amqp")
            model.append(changes, f"t{index}", [entry(b"first")])
        store.commit(changes)
        store.prepare_tiny()
        for index in range(runs):
            changes = Changes()
            model.append(changes, f"t{index % topics}", [entry(b"%d" % index)])
            assert commit_small(store, changes).needs_takeover
            ends.append(end_of_last_record(store))
    return model, ends


def flip(path: Path, at: int) -> None:
    with (path / JOURNAL_NAME).open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def kinds(path: Path) -> list[FindingKind]:
    return [each.kind for each in check(path)]


def without(model: StoreModel, *positions: Position, name: str = "t0") -> dict[Position, bytes]:
    log = model.topics[name].entries()
    return {position: body for position, body in log.items() if position not in positions}


def assert_serves(store: Store, model: StoreModel, *lost: Position) -> None:
    """The first topic has everything in its old place, save what is lost."""
    with store.snapshot() as snapshot:
        assert read_log(snapshot, model.topics["t0"]) == without(model, *lost)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_what_follows_a_damaged_record_is_served_and_the_loss_is_logged(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, ends = published(data)
    flip(data, ends[49] - 50)  # the fiftieth
    damaged = (data / JOURNAL_NAME).read_bytes()
    assert kinds(data) == [FindingKind.JOURNAL, FindingKind.GAP]
    lost = position_at(1, 50)
    with Store.open(data) as store:
        (line,) = caplog.messages
        assert line == (
            f"{data}: the journal lacks records: record 50 is lost; topic 't0' entry 1:50 is lost; "
            "99 of its records are whole and kept, the last of them 100; "
            f"the damaged file was saved as: {KEPT}"
        )
        assert caplog.records[0].levelno == logging.ERROR
        assert (data / KEPT).read_bytes() == damaged
        assert_serves(store, model, lost)
        store.prepare_tiny()
        assert_serves(store, model, lost)
        with store.snapshot() as snapshot:
            assert snapshot.gaps(TopicId(1)) == [(lost, lost)]
            assert snapshot.rows(Table.GAPS) == 1
        changes = Changes()
        model.append(changes, "t0", [entry(b"later")])
        assert commit_small(store, changes).needs_takeover
        assert_serves(store, model, lost)
    caplog.clear()
    assert kinds(data) == [FindingKind.JOURNAL_KEPT, FindingKind.GAP]
    with Store.open(data) as store:
        assert_serves(store, model, lost)
    assert not caplog.records
    for each in data.glob(f"{KEPT}*"):
        each.unlink()
    assert kinds(data) == [FindingKind.GAP]


def test_a_cursor_stays_before_a_lost_record_and_what_a_frontend_keeps_does_not(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A cursor writes what has changed since it was written last: what was lost is missing."""
    key = cursor_prefix(TopicId(1), SubscriptionId(1)) + PLACE_SUFFIX
    model, changes, ends = StoreModel(), Changes(), []
    with Store.open(data) as store:
        model.create_topic(changes, "t0")
        model.subscribe(changes, "t0", "amqp")
        model.append(changes, "t0", [entry(b"%d" % each) for each in range(10)])
        store.commit(changes)
        store.prepare_tiny()
        for number in range(5):
            changes = Changes()
            model.append(changes, "t0", [entry(b"letter")])
            model.put(changes, b"frontend/%d" % number, b"")
            changes.puts.append(
                (Table.CURSORS, key, CursorRecord(position_at(1, number), position_at(1, 9)).pack())
            )
            assert commit_small(store, changes).needs_takeover
            ends.append(end_of_last_record(store))
    flip(data, ends[2] - 50)
    with Store.open(data) as store, store.snapshot() as snapshot:
        (line,) = caplog.messages
        assert "acknowledgements of 2 records behind that are not taken" in line
        position = snapshot.get(Table.CURSORS, key)
        assert position == CursorRecord(position_at(1, 1), position_at(1, 9)).pack()
        rows = [key for key, _ in snapshot.scan(Table.CATALOG, b"frontend/")]
        assert rows == [b"frontend/%d" % number for number in (0, 1, 3, 4)]
        store.prepare_tiny()
        assert_serves(store, model, position_at(1, 12))
    assert {*kinds(data)} == {FindingKind.JOURNAL_KEPT, FindingKind.GAP}


def cut(path: Path) -> None:
    os.truncate(path, 5_000)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zero(path: Path) -> None:
    path.write_bytes(bytes(JOURNAL_BYTES))


def zero_the_end(path: Path) -> None:
    """From where a record ends: a record that is hit may be one that was cut off."""
    data = path.read_bytes()
    at = data.find(MAGIC, 5_000)
    path.write_bytes(data[:at].ljust(JOURNAL_BYTES, b"\0"))


WRECKS: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "cut": cut,
    "empty": empty,
    "zeroed": zero,
    "its end zeroed": zero_the_end,
    "noise": lambda path: path.write_bytes(os.urandom(JOURNAL_BYTES)) and None,
}


@pytest.mark.parametrize("wreck", WRECKS)
def test_a_journal_that_is_not_there_or_not_whole_is_noticed(
    data: Path, wreck: str, caplog: pytest.LogCaptureFixture
) -> None:
    model, ends = published(data)
    WRECKS[wreck](data / JOURNAL_NAME)
    assert FindingKind.JOURNAL in kinds(data)
    left = {"cut": 5_000, "its end zeroed": end_of_block(5_000)}
    kept = sum(end <= left.get(wreck, 0) for end in ends)
    lost = [position_at(1, index) for index in range(kept + 1, RUNS + 1)]
    with Store.open(data) as store:
        (line,) = caplog.messages
        assert f"{kept} of its records are whole" in line
        assert_serves(store, model, *lost)
        store.prepare_tiny()
    assert (data / KEPT).exists() is (wreck not in ("missing", "empty"))
    assert kinds(data) == [FindingKind.JOURNAL_KEPT]


@pytest.mark.parametrize("wreck", WRECKS)
def test_after_a_clean_stop_the_journal_is_not_missed(
    data: Path, wreck: str, caplog: pytest.LogCaptureFixture
) -> None:
    model, _ = published(data)
    with Store.open(data) as store:
        store.commit(Changes(puts=[(Table.META, META_CLEAN, b"")]))
    WRECKS[wreck](data / JOURNAL_NAME)
    assert check(data) == []
    with Store.open(data) as store:
        assert_serves(store, model)
        store.prepare_tiny()
        store.commit(Changes(deletes=[(Table.META, META_CLEAN)]))
        model.append(changes := Changes(), "t0", [entry(b"later")])
        assert commit_small(store, changes).needs_takeover
    assert not caplog.records
    with Store.open(data) as store:
        assert_serves(store, model)


def test_a_record_that_is_cut_off_is_said_and_is_no_damage(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, ends = published(data)
    flip(data, ends[-1] - 50)
    (doubt,) = check(data)
    assert doubt.kind is FindingKind.JOURNAL_CUT_OFF
    assert doubt.is_doubt
    with open_snapshot_environment(data) as environment, environment.snapshot() as snapshot:
        assert len(read_log(snapshot, model.topics["t0"])) == RUNS
    assert "record 100; if it was confirmed, it is lost" in caplog.messages[0]
    caplog.clear()
    with Store.open(data) as store:
        (line,) = caplog.records
        assert line.levelno == logging.WARNING
        assert_serves(store, model, position_at(1, RUNS))
        store.prepare_tiny()
    assert check(data) == []
    assert not (data / KEPT).exists()


def test_other_readers_and_copies_report_the_damage(data: Path, tmp_path: Path) -> None:
    _, ends = published(data)
    flip(data, ends[11] - 40)
    target = tmp_path / "copy"
    target.mkdir()
    with open_snapshot_environment(data) as environment:
        with pytest.raises(StoreUnusable, match="record 12 is lost"), environment.snapshot():
            pass
        with pytest.raises(StoreUnusable, match="record 12 is lost"):
            environment.copy(target)
    with Store.open(data) as store:
        with pytest.raises(StoreFailed, match="taken over before a copy"):
            store.copy(target)
        store.commit(Changes())
        store.copy(target)
    assert kinds(target) == [FindingKind.GAP]


def test_topics_have_their_own_gaps(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, ends = published(data, topics=3)
    for record in (4, 5, 6, 7, 11):  # topics 1, 2, 0, 1, 2 of those behind the first
        flip(data, ends[record] - 40)
    with Store.open(data) as store:
        assert "records 5 to 8 are lost" in caplog.messages[0]
        assert "topic 't1' entries 1:2 to 1:3 are lost" in caplog.messages[0]
        store.commit(Changes())
        with store.snapshot() as snapshot:
            assert [
                [(render(first), render(last)) for first, last in snapshot.gaps(TopicId(topic))]
                for topic in (1, 2, 3)
            ] == [[("1:3", "1:3")], [("1:2", "1:3")], [("1:2", "1:2"), ("1:4", "1:4")]]
            lost = {
                "t0": [position_at(1, 3)],
                "t1": [position_at(1, 2), position_at(1, 3)],
                "t2": [position_at(1, 2), position_at(1, 4)],
            }
            for name, positions in lost.items():
                found = read_log(snapshot, model.topics[name])
                assert found == without(model, *positions, name=name)


def test_a_start_that_was_killed_keeps_the_file_once(data: Path) -> None:
    _, ends = published(data)
    flip(data, ends[11] - 40)
    for _ in range(3):
        Store.open(data).close()
    assert sorted(each.name for each in data.glob("*damaged*")) == [KEPT, f"{KEPT}.txt"]


def test_only_so_many_damaged_files_are_kept_and_the_oldest_go_with_a_word(tmp_path: Path) -> None:
    for index in range(1, KEPT_MAX + 1):
        kept = keep_aside(tmp_path, b"%d" % index, f"report {index}")
        assert kept == f"{JOURNAL_NAME}.damaged-{index}"
    for index in range(KEPT_MAX + 1, KEPT_MAX + 4):
        oldest, newest = (f"{JOURNAL_NAME}.damaged-{each}" for each in (index - KEPT_MAX, index))
        kept = keep_aside(tmp_path, b"%d" % index, f"report {index}")
        assert kept == f"{newest} ({oldest} removed: {KEPT_MAX} are kept)"
        assert (tmp_path / newest).read_bytes() == b"%d" % index
        assert not (tmp_path / oldest).exists()
    reports = list(dict(kept_reports(tmp_path)).values())
    assert reports == [f"report {index}" for index in range(4, KEPT_MAX + 4)]
    assert len(os.listdir(tmp_path)) == 2 * KEPT_MAX


def test_a_full_disk_keeps_nothing_aside_and_serves_all_the_same(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model, ends = published(data)
    flip(data, ends[10] - 40)

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("arneb_core.store.journal.damaged_journal._write", full)
    with Store.open(data) as store:
        assert caplog.messages[0].endswith("not kept: [Errno 28] No space left on device")
        assert_serves(store, model, position_at(1, 11))


def test_a_run_whose_ledger_is_not_there_is_left_out_and_said(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, _ = published(data, topics=2, runs=4)
    saved = (data / JOURNAL_NAME).read_bytes()
    copy = data.with_name("other")
    shutil.copytree(data, copy)
    # As if the row had been damaged: the journal is not taken over by this.
    with Store.open(copy) as store, store._live.working().begin(write=True) as txn:
        key = ledger_key(TopicId(2), LedgerId(1))
        assert txn.delete(key, db=store._live.tables[Table.LEDGERS])
    assert (copy / JOURNAL_NAME).read_bytes() == saved
    with Store.open(copy) as store:
        assert "topic 't1' entry 1:1 is without a place in the log" in caplog.messages[-1]
        store.commit(Changes())
        assert_serves(store, model)
        with store.snapshot() as snapshot:
            assert len(dict(snapshot.iter_blocks(TopicId(2)))) == 1


@given(st.data())
def test_whatever_is_damaged_what_is_not_said_to_be_lost_is_served(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    position = tmp_path_factory.mktemp("damage")
    topics = data.draw(st.integers(1, 3))
    model, ends = published(position / "data", topics, runs=data.draw(st.integers(1, 30)))
    for _ in range(data.draw(st.integers(1, 3))):
        flip(position / "data", data.draw(st.integers(0, ends[-1] + 31)))
    found = check(position / "data")
    with Store.open(position / "data") as store:
        store.prepare_tiny()
        with store.snapshot() as snapshot:
            for topic in model.topics.values():
                log = read_log(snapshot, topic)
                whole = topic.entries()
                assert log.items() <= whole.items()
                gaps = [
                    Position(each)
                    for first, last in snapshot.gaps(topic.id)
                    for each in range(first, last + 1)
                ]
                end = max(log, default=before(position_at(1, 0)))
                assert set(whole) - set(log) == {
                    *gaps,
                    *(each for each in whole if each > end),
                }
                assert found or log == whole
    later = {each.kind for each in check(position / "data")}
    assert later <= {FindingKind.GAP, FindingKind.JOURNAL_KEPT}
    shutil.rmtree(position)


def test_entries_that_are_missing_without_being_known_to_be_are_found(data: Path) -> None:
    _, ends = published(data)
    flip(data, ends[10] - 40)
    with Store.open(data) as store:
        store.commit(Changes())
        store.commit(Changes(deletes=[(Table.GAPS, gap_key(TopicId(1), position_at(1, 11)))]))
        with store.snapshot() as snapshot:
            assert snapshot.gaps(TopicId(1)) == []
    assert FindingKind.BLOCK_GAP in kinds(data)
