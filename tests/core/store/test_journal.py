"""The journal: what was put there counts, whatever happens before LMDB has it."""

import os
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.errors import StoreFull
from arneb_core.position import Position, position
from arneb_core.store.changes import Changes
from arneb_core.store.check import check
from arneb_core.store.environment import Store
from arneb_core.store.journal import (
    JOURNAL_BYTES,
    JOURNAL_NAME,
    RECORDS_MAX,
    RUN_BYTES_MAX,
    Journal,
    Record,
    merged_blocks,
    read_journal,
    write_journal,
)
from arneb_core.store.schema import Table, TopicId
from arneb_core.store.snapshot import Snapshot
from arneb_core.testing.faults import DiskFault, broken_disk
from arneb_core.testing.store_kit import StoreModel, assert_holds, entry

TOPIC = TopicId(1)
RUNS = st.lists(
    st.tuples(
        st.integers(1, 3).map(TopicId),
        st.integers(0, 50).map(lambda index: position(1, index)),
        st.lists(st.binary(max_size=40), min_size=1, max_size=3),
    ),
    max_size=6,
)


def records(runs: list[tuple[TopicId, Position, list[bytes]]], after: int) -> list[Record]:
    return [Record(after + index, *run) for index, run in enumerate(runs, 1)]


@pytest.fixture
def model(store: Store) -> StoreModel:
    """A store with a topic that has an open ledger."""
    made, changes = StoreModel(), Changes()
    made.create_topic(changes, "t")
    made.append(changes, "t", [entry(b"first")])
    store.commit(changes)
    return made


def tiny(model: StoreModel, *bodies: bytes) -> Changes:
    changes = Changes()
    model.append(changes, "t", [entry(body) for body in bodies or (b"tiny",)])
    return changes


def rows(store: Store) -> int:
    """Blocks in LMDB."""
    with store.snapshot() as snapshot:
        return snapshot.rows(Table.ENTRIES)


# The file


@given(runs=RUNS, after=st.integers(0, 1 << 40))
def test_what_was_appended_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, runs: list, after: int
) -> None:
    place = tmp_path_factory.mktemp("journal")
    journal = Journal(place, after)
    for run in runs:
        journal.append(*run)
    assert journal.pending == read_journal(place, after) == records(runs, after)
    assert read_journal(place, after + 1) == []  # that would leave a gap
    journal.close()
    assert Journal(place, after).pending == records(runs, after)
    shutil.rmtree(place)


@given(runs=RUNS, data=st.data())
def test_a_damaged_file_gives_only_what_comes_before_the_damage(
    tmp_path_factory: pytest.TempPathFactory, runs: list, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("journal")
    written = records(runs, 7)
    write_journal(place, written)
    file = place / JOURNAL_NAME
    whole = file.read_bytes()
    used = len(whole.rstrip(b"\0"))
    if data.draw(st.booleans()):
        damaged = whole[: data.draw(st.integers(0, used))]
    else:
        at = data.draw(st.integers(0, used))
        damaged = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    file.write_bytes(damaged)
    found = read_journal(place, 7)
    assert found == written[: len(found)]
    assert len(found) < len(written) or damaged[:used] == whole[:used]
    shutil.rmtree(place)


def test_the_file_is_read_whole_at_every_length(tmp_path: Path) -> None:
    written = records([(TOPIC, position(1, index), [b"x" * index]) for index in range(4)], 0)
    write_journal(tmp_path, written)
    file = tmp_path / JOURNAL_NAME
    data = file.read_bytes().rstrip(b"\0")
    counts = []
    for length in range(len(data) + 1):
        file.write_bytes(data[:length])
        counts.append(len(read_journal(tmp_path, 0)))
    assert counts == sorted(counts)
    assert counts[-1] == 4
    assert read_journal(tmp_path / "nothing here", 0) == []


@given(runs=RUNS)
def test_merging_keeps_every_entry_in_its_place(runs: list) -> None:
    places = [
        (topic, first + index, body)
        for topic, first, entries in runs
        for index, body in enumerate(entries)
    ]
    merged = [
        (topic, first + index, body)
        for topic, first, entries in merged_blocks(records(runs, 0))
        for index, body in enumerate(entries)
    ]
    assert sorted(places) == sorted(merged)


def test_runs_that_continue_each_other_become_one_block(store: Store, model: StoreModel) -> None:
    for _ in range(10):
        assert store.commit_tiny(tiny(model)).unsettled
    assert rows(store) == 1
    report = store.commit(Changes())
    assert (report.blocks, report.unsettled, rows(store)) == (1, False, 2)


# The store


def test_a_killed_store_has_it(store: Store, model: StoreModel, tmp_path: Path) -> None:
    store.commit_tiny(tiny(model, b"a"))
    store.commit_tiny(tiny(model, b"b", b"c"))
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    assert check(killed) == []
    with Store.open(killed) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)
        assert after.commit(Changes()).blocks == 0  # taken over when it was opened


def test_records_of_an_earlier_round_do_not_come_back(
    store: Store, model: StoreModel, tmp_path: Path
) -> None:
    for _ in range(20):
        store.commit_tiny(tiny(model, b"early"))
    store.commit(Changes())
    store.commit_tiny(tiny(model, b"late"))
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    with Store.open(killed) as after, after.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_full_journal_is_taken_over(store: Store, model: StoreModel) -> None:
    reports = [store.commit_tiny(tiny(model)) for _ in range(RECORDS_MAX + 2)]
    assert [index for index, each in enumerate(reports) if not each.unsettled] == [RECORDS_MAX]
    big = [store.commit_tiny(tiny(model, bytes(RUN_BYTES_MAX - 200))) for _ in range(70)]
    assert 0 < sum(not each.unsettled for each in big) < 5  # its bytes are bounded, too
    assert (store.path / JOURNAL_NAME).stat().st_size == JOURNAL_BYTES
    assert not store.commit_tiny(tiny(model, bytes(RUN_BYTES_MAX))).unsettled
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)


@pytest.mark.parametrize("fault", DiskFault)
def test_what_lmdb_cannot_take_over_stays(
    store: Store, model: StoreModel, fault: DiskFault, tmp_path: Path
) -> None:
    store.commit_tiny(tiny(model))
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
    store.commit_tiny(tiny(model))
    full = os.open("/dev/full", os.O_RDWR)
    with patch.object(store._journal, "_fd", full):
        assert not store.commit_tiny(tiny(model)).unsettled  # LMDB had to do it
    os.close(full)
    assert store.commit_tiny(tiny(model)).unsettled
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_record_that_failed_and_is_on_disk_all_the_same_does_not_count(
    store: Store, model: StoreModel, tmp_path: Path
) -> None:
    store.commit_tiny(tiny(model))
    real = os.pwrite

    def written_and_failed(fd: int, data: bytes, at: int) -> int:
        real(fd, data, at)
        raise OSError(5, "told to fail")

    with patch.object(os, "pwrite", written_and_failed):
        store.commit_tiny(tiny(model, b"by LMDB"))
    store.commit_tiny(tiny(model))
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
                store.commit_tiny(Changes(blocks=[_next(model, changes, bytes(15_000))]))
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
    store.commit_tiny(tiny(model))
    target = tmp_path / "copy"
    target.mkdir()
    store.copy(target)
    with Store.open(target) as copy, copy.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_snapshot_keeps_what_is_taken_over_meanwhile(store: Store, model: StoreModel) -> None:
    store.commit_tiny(tiny(model, b"a"))
    with store.snapshot() as snapshot:
        store.commit(Changes())
        store.commit_tiny(tiny(deepcopy(model), b"later"))
        assert_holds(snapshot, model)
        assert _last(snapshot, position(1, 0)) == position(1, 0)
        assert _last(snapshot, position(1, 1)) == position(1, 1)
        assert _last(snapshot, position(9, 9)) == position(1, 1)


READ = """
import sys
from arneb_core.store.check import check
from arneb_core.store.schema import TopicId
from arneb_core.store.snapshot import open_snapshot_environment
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
            store.commit_tiny(tiny(model))
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
