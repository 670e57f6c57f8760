"""The journal: a record counts once it is written, whatever happens before LMDB has it."""

import os
import shutil
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest

from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.errors import StoreFull
from arneb_core.store.checking.check import check
from arneb_core.store.commit.journal import RUN_BYTES_MAX, RUNS_MAX
from arneb_core.store.environment import Store
from arneb_core.store.format.block import BLOCK_BYTES_MAX
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import MAGIC_WITH_STAMP
from arneb_core.store.format.records import JournalLayout, JournalState
from arneb_core.store.format.schema import META_CLEAN, META_JOURNAL, Table, TopicId
from arneb_core.store.journal.damaged_journal import KEPT_PREFIX
from arneb_core.store.journal.file import JOURNAL_BYTES_BEFORE, read_journal
from arneb_core.store.journal.writing import JOURNAL_BYTES, JOURNAL_NAME, write_file
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.faults import DiskFault, broken_disk, broken_journal
from arneb_core.testing.store_kit import StoreModel, assert_holds, commit_small, entry

TOPIC = TopicId(1)


@pytest.fixture
def model(store: Store) -> StoreModel:
    """A store with a topic that has an open ledger."""
    made, changes = StoreModel(), Changes()
    made.create_topic(changes, "t")
    made.append(changes, "t", [entry(b"first")])
    store.commit(changes)
    store.prepare_tiny()
    return made


def tiny(model: StoreModel, *bodies: bytes) -> Changes:
    changes = Changes()
    model.append(changes, "t", [entry(body) for body in bodies or (b"tiny",)])
    return changes


def rows(store: Store) -> int:
    """Blocks in LMDB."""
    with store.snapshot() as snapshot:
        return snapshot.rows(Table.ENTRIES)


def test_runs_that_continue_each_other_become_one_block(store: Store, model: StoreModel) -> None:
    for _ in range(10):
        assert commit_small(store, tiny(model)).needs_takeover
    assert rows(store) == 1
    report = store.commit(Changes())
    assert (report.blocks, report.needs_takeover, rows(store)) == (1, False, 2)


def test_a_killed_store_has_it(store: Store, model: StoreModel, tmp_path: Path) -> None:
    commit_small(store, tiny(model, b"a"))
    commit_small(store, tiny(model, b"b", b"c"))
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    assert check(killed) == []
    with Store.open(killed) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)
        assert after.commit(Changes()).blocks == 1  # the two in one
        assert after.commit(Changes()).blocks == 0


def in_slots(path: Path, size: int) -> None:
    """Lay the journal of a killed store out as versions until 2026-11-24 did."""
    with lmdb.open(str(path), max_dbs=32, lock=False) as environment:
        meta = environment.open_db(Table.META.value, create=False)
        with environment.begin(write=True) as txn:
            state = JournalState.unpack(txn.get(META_JOURNAL, db=meta))
            records = read_journal(path, state).records
            state = replace(state, layout=JournalLayout.SLOTS)
            txn.put(META_JOURNAL, state.pack(), db=meta)
    write_file(path, state, records)
    os.truncate(path / JOURNAL_NAME, size)


@pytest.mark.parametrize("size", [JOURNAL_BYTES, JOURNAL_BYTES_BEFORE])
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_file_of_the_previous_layout_is_taken_over_and_rewritten(
    store: Store, model: StoreModel, tmp_path: Path, size: int, is_clean: bool
) -> None:
    commit_small(store, tiny(model, b"a"))
    commit_small(store, tiny(model, b"b"))
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    in_slots(killed, size)
    path = killed / JOURNAL_NAME
    assert check(killed) == []
    if is_clean:
        with Store.open(killed) as stopping:
            stopping.commit(Changes(puts=[(Table.META, META_CLEAN, b"")]))
    with open_snapshot_environment(killed) as environment, environment.snapshot() as snapshot:
        assert_holds(snapshot, model)
        copy = tmp_path / "copy"
        copy.mkdir()
        environment.copy(copy)
    assert check(copy) == []
    with Store.open(copy) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)
    with Store.open(killed) as after:
        before = path.read_bytes()
        after.prepare_tiny()
        assert path.read_bytes() != before
        assert path.stat().st_size == JOURNAL_BYTES
        assert commit_small(after, tiny(model, b"c")).needs_takeover
        assert path.read_bytes().startswith(MAGIC_WITH_STAMP)
        with after.snapshot() as snapshot:
            assert_holds(snapshot, model)
    assert not list(killed.glob(f"{KEPT_PREFIX}*"))
    assert check(killed) == []


def test_a_reader_gets_what_is_journaled_in_blocks_as_of_any(
    store: Store, model: StoreModel
) -> None:
    """A run may be all that the journal holds, and nobody asks for so much at once."""
    body = bytes(BLOCK_BYTES_MAX // 2 - 200)
    for _ in range(5):
        assert commit_small(store, tiny(model, body)).needs_takeover
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)
        ((first, entries),) = snapshot.read_blocks(TOPIC, position_at(1, 1), bytes_max=1)
        assert (first, len(entries)) == (position_at(1, 1), 2)
        ((first, entries),) = snapshot.read_blocks(TOPIC, position_at(1, 4), bytes_max=1)
        assert (first, len(entries)) == (position_at(1, 4), 1)
        sizes = [len(value) for _, _, value in snapshot.journaled_blocks()]
        assert len(sizes) == 3
        assert max(sizes) <= BLOCK_BYTES_MAX


@pytest.mark.parametrize("count", [4, 400])
def test_the_largest_record_is_several_blocks(
    store: Store, model: StoreModel, tmp_path: Path, count: int
) -> None:
    body = bytes(RUN_BYTES_MAX // count - 100)
    assert commit_small(store, tiny(model, *[body] * count)).needs_takeover
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)
        sizes = [len(value) for _, _, value in snapshot.journaled_blocks()]
        assert len(sizes) == 2 and max(sizes) <= BLOCK_BYTES_MAX + 8 * count
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    assert check(killed) == []
    with Store.open(killed) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_nothing_is_written_over_that_a_transaction_of_this_process_does_not_hold(
    store: Store, model: StoreModel, tmp_path: Path
) -> None:
    """The disk failed in the commit that took the records over, and the process ended: what it read
    of that when it started again may be in the kernel's cache alone, and a power cut brings the
    transaction before back. The records must be there still, or a later transaction."""
    commit_small(store, tiny(model, b"a"))
    store.commit(Changes())
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    with Store.open(killed) as after:
        read, journal = after.statistics().last_transaction, (killed / JOURNAL_NAME).read_bytes()
        assert after.needs_takeover
        assert after.commit_tiny(tiny(deepcopy(model))) is None
        after.prepare_tiny()
        assert after.statistics().last_transaction > read
        assert (killed / JOURNAL_NAME).read_bytes() == journal
        assert not after.needs_takeover
        commit_small(after, tiny(model, b"b"))
        assert (killed / JOURNAL_NAME).read_bytes() != journal
        with after.snapshot() as snapshot:
            assert_holds(snapshot, model)


def test_records_of_an_earlier_round_do_not_come_back(
    store: Store, model: StoreModel, tmp_path: Path
) -> None:
    for _ in range(20):
        commit_small(store, tiny(model, b"early"))
    store.commit(Changes())
    commit_small(store, tiny(model, b"late"))
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    with Store.open(killed) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_an_entry_that_stands_twice_in_a_run_is_taken_too(store: Store, model: StoreModel) -> None:
    """It would be kept once, beside the blocks, if LMDB had got it at once."""
    twice = entry(bytes(5_000))
    changes = Changes()
    model.append(changes, "t", [twice, twice])
    changes.shared.append(twice)
    assert commit_small(store, changes).needs_takeover
    with Store.open(_killed(store)) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)


def _killed(store: Store) -> Path:
    position = store.path.with_name("killed")
    shutil.copytree(store.path, position)
    return position


def test_a_record_of_several_topics_counts_as_a_whole(store: Store, model: StoreModel) -> None:
    other = Changes()
    model.create_topic(other, "u")
    model.append(other, "u", [entry(b"first")])
    store.commit(other)
    for number in range(3):
        changes = tiny(model, b"t%d" % number)
        model.append(changes, "u", [entry(b"u%d" % number)] * 2)
        report = commit_small(store, changes)
        assert (report.needs_takeover, report.blocks) == (True, 2)
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)
    with Store.open(_killed(store)) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)
        assert after.commit(Changes()).blocks == 2


def test_the_journal_is_full_when_it_has_so_many_runs(store: Store, model: StoreModel) -> None:
    """Of all records together: each run may be a block, for which there must be room."""
    changes, topics = Changes(), [f"t{index}" for index in range(8)]
    for topic in topics:
        model.create_topic(changes, topic)
        model.append(changes, topic, [entry()])
    store.commit(changes)
    needs_takeover = []
    for _ in range(RUNS_MAX // len(topics) + 2):
        changes = Changes()
        for topic in topics:
            model.append(changes, topic, [entry()])
        needs_takeover.append(commit_small(store, changes).needs_takeover)
    assert needs_takeover == [True] * (RUNS_MAX // len(topics)) + [False, True]


def test_a_full_journal_is_taken_over(store: Store, model: StoreModel) -> None:
    reports = [commit_small(store, tiny(model)) for _ in range(RUNS_MAX + 2)]
    assert [index for index, each in enumerate(reports) if not each.needs_takeover] == [RUNS_MAX]
    big = [commit_small(store, tiny(model, bytes(RUN_BYTES_MAX - 200))) for _ in range(35)]
    assert 0 < sum(not each.needs_takeover for each in big) < 9  # its bytes are bounded, too
    assert (store.path / JOURNAL_NAME).stat().st_size == JOURNAL_BYTES
    assert not commit_small(store, tiny(model, bytes(RUN_BYTES_MAX))).needs_takeover
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)


@pytest.mark.parametrize("fault", DiskFault)
def test_what_lmdb_cannot_take_over_stays(
    store: Store, model: StoreModel, fault: DiskFault, tmp_path: Path
) -> None:
    commit_small(store, tiny(model))
    with broken_disk(store.path, fault), pytest.raises(Exception, match=r"commit|disk|space"):
        store.commit(Changes())
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    for one in (store, Store.open(killed)):
        one.commit(Changes())
        with one.snapshot() as snapshot:
            assert_holds(snapshot, model)
    one.close()


def test_a_journal_that_cannot_be_written_costs_nothing_but_time(
    store: Store, model: StoreModel
) -> None:
    commit_small(store, tiny(model))
    with broken_journal(count=1):
        assert not commit_small(store, tiny(model)).needs_takeover  # LMDB had to do it
    assert not commit_small(store, tiny(model)).needs_takeover  # and to be told of a new file
    assert commit_small(store, tiny(model)).needs_takeover
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_record_that_failed_and_is_on_disk_all_the_same_does_not_count(
    store: Store, model: StoreModel, tmp_path: Path
) -> None:
    commit_small(store, tiny(model))
    with broken_journal(lands=True, count=1):
        commit_small(store, tiny(model, b"by LMDB"))
    commit_small(store, tiny(model))
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    with Store.open(killed) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_full_store_takes_no_tiny_run_and_all_acknowledgements(data_dir: Path) -> None:
    with Store.open(data_dir, bytes_max=6 << 20) as store:
        model, changes = StoreModel(), Changes()
        model.create_topic(changes, "t")
        model.append(changes, "t", [entry(b"first")])
        store.commit(changes)
        accepted = 0
        with pytest.raises(StoreFull):
            while True:
                changes = Changes()
                commit_small(store, Changes(blocks=[_next(model, changes, bytes(15_000))]))
                accepted += 1
        _take_back(model)
        assert accepted > 100
        for index in range(50):
            changes = Changes()
            model.put(changes, b"frontend/%d" % index, b"ack")
            store.commit(changes)
        with store.snapshot() as snapshot:
            assert_holds(snapshot, model)


def test_a_copy_has_it(store: Store, model: StoreModel, tmp_path: Path) -> None:
    commit_small(store, tiny(model))
    target = tmp_path / "copy"
    target.mkdir()
    store.copy(target)
    with Store.open(target) as copy, copy.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_snapshot_keeps_what_is_taken_over_meanwhile(store: Store, model: StoreModel) -> None:
    commit_small(store, tiny(model, b"a"))
    with store.snapshot() as snapshot:
        store.commit(Changes())
        commit_small(store, tiny(deepcopy(model), b"later"))
        assert_holds(snapshot, model)
        assert _last(snapshot, position_at(1, 0)) == position_at(1, 0)
        assert _last(snapshot, position_at(1, 1)) == position_at(1, 1)
        assert _last(snapshot, position_at(9, 9)) == position_at(1, 1)


READ = """
import sys
from arneb_core.store.checking.check import check
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
with open_snapshot_environment(sys.argv[1]) as environment:
    print("ready", flush=True)
    for line in sys.stdin:
        with environment.snapshot() as snapshot:
            print(sum(len(run) for _, run in snapshot.iter_blocks(TopicId(1))), check(snapshot),
                  flush=True)
"""


def test_another_process_sees_it_at_once(store: Store, model: StoreModel) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READ, store.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for count in range(2, 12):
            commit_small(store, tiny(model))
            if count % 4 == 0:
                store.commit(Changes())
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{count} []\n"


def _next(model: StoreModel, changes: Changes, body: bytes) -> tuple:
    model.append(changes, "t", [entry(body)])
    return changes.blocks[0]


def _take_back(model: StoreModel) -> None:
    """The last run was refused."""
    model.topics["t"].ledgers[1].entries.pop()


def _last(snapshot: Snapshot, up_to: Position) -> Position | None:
    return snapshot.last_position(TOPIC, up_to)
