"""Failing disks: a failed commit leaves no trace, and the store goes on when the disk does."""

import os
import resource
import shutil
import subprocess
import sys
import threading
from copy import deepcopy
from pathlib import Path

import pytest

from arneb_core.api.errors import CommitFailed, CommitInDoubt, StoreFailed, StoreFull
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table
from arneb_core.testing.faults import DiskFault, broken_disk
from arneb_core.testing.store_kit import StoreModel, assert_holds, entry

KEY = b"frontend/key"
FAILURES = {
    DiskFault.FULL: StoreFull,
    DiskFault.FLUSH: StoreFailed,
    DiskFault.META: StoreFull,
}


def begin(store: Store) -> StoreModel:
    """A topic with a few entries."""
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    model.append(changes, "t", [entry(b"%d" % number) for number in range(10)])
    store.commit(changes)
    return model


def grow(model: StoreModel, changes: Changes, value: bytes) -> None:
    model.append(changes, "t", [entry(bytes(3_000) + value)] * 4)
    model.put(changes, KEY, value)


def assert_store_holds(store: Store, model: StoreModel) -> None:
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)


@pytest.mark.parametrize("fault", DiskFault)
def test_a_failed_commit_leaves_no_trace(store: Store, tmp_path: Path, fault: DiskFault) -> None:
    model = begin(store)
    failed = Changes()
    with broken_disk(store.path, fault), pytest.raises(FAILURES[fault]):
        grow(deepcopy(model), failed, b"lost")
        store.commit(failed)
    shutil.copytree(store.path, tmp_path / "image")  # what a kill would leave now
    assert_store_holds(store, model)
    with Store.open(tmp_path / "image") as image:
        assert_store_holds(image, model)
    changes = Changes()
    grow(model, changes, b"kept")
    store.commit(changes)
    assert_store_holds(store, model)


@pytest.mark.parametrize("fault", [DiskFault.FULL, DiskFault.FLUSH])
def test_every_commit_fails_until_the_disk_is_well(store: Store, fault: DiskFault) -> None:
    model = begin(store)
    changes = Changes()
    with broken_disk(store.path, fault):
        for attempt in range(5):
            changes = Changes()
            grow(deepcopy(model), changes, b"%d" % attempt)
            with pytest.raises(FAILURES[fault]):
                store.commit(changes)
            assert_store_holds(store, model)
    store.commit(changes)
    with store.snapshot() as snapshot:
        assert snapshot.get(Table.CATALOG, KEY) == b"4"


@pytest.mark.parametrize("fault", DiskFault)
def test_a_failed_trim_is_done_later(store: Store, fault: DiskFault) -> None:
    model = begin(store)
    for _ in range(2):
        changes = Changes()
        model.close_ledger(changes, "t")
        grow(model, changes, b"")
        store.commit(changes)
    changes = Changes()
    model.drop_ledger(changes, "t")
    with broken_disk(store.path, fault), pytest.raises(CommitFailed):
        store.commit(changes)
    assert store.statistics().trims_left == 0
    assert store.commit(changes).trims_left == 0
    assert_store_holds(store, model)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for open snapshots."""
    monkeypatch.setattr("arneb_core.store.data_file.live.SNAPSHOTS_WAIT_S", 0.0)


@pytest.mark.parametrize("first", ["snapshot", "commit"])
def test_the_store_is_reopened_by_the_first_caller(
    store: Store, impatient: None, first: str
) -> None:
    """LMDB refuses everything after a failed meta page (MDB_PANIC)."""
    model = begin(store)
    with store.snapshot(), broken_disk(store.path, DiskFault.META), pytest.raises(CommitInDoubt):
        store.commit(Changes(puts=[(Table.CATALOG, KEY, b"lost")]))
    assert repr(store) == f"<Store {store.path} broken, 0 snapshots>"
    if first == "commit":
        changes = Changes()
        grow(model, changes, b"kept")
        store.commit(changes)
    assert_store_holds(store, model)
    assert repr(store) == f"<Store {store.path} open, 0 snapshots>"


def test_it_is_not_opened_again_under_a_snapshot(store: Store, impatient: None) -> None:
    model = begin(store)
    lost = Changes(puts=[(Table.CATALOG, KEY, b"lost")])
    with store.snapshot() as snapshot:
        with broken_disk(store.path, DiskFault.META), pytest.raises(CommitInDoubt):
            store.commit(lost)
        with pytest.raises(StoreFailed, match="waiting for 1 snapshots"):
            store.commit(lost)
        with pytest.raises(StoreFailed, match="waiting for 1 snapshots"), store.snapshot():
            pass
        assert_holds(snapshot, model)  # what is open stays good
    assert_store_holds(store, model)


def test_it_waits_for_a_snapshot_in_another_thread(store: Store) -> None:
    model = begin(store)
    opened, close = threading.Event(), threading.Event()
    reader = threading.Thread(target=_hold_snapshot, args=(store, opened, close))
    reader.start()
    assert opened.wait(10)
    threading.Timer(0.05, close.set).start()
    with broken_disk(store.path, DiskFault.META), pytest.raises(StoreFull):  # known by then
        store.commit(Changes(puts=[(Table.CATALOG, KEY, b"lost")]))
    changes = Changes()
    grow(model, changes, b"kept")
    store.commit(changes)
    reader.join()
    assert_store_holds(store, model)


def _hold_snapshot(store: Store, opened: threading.Event, close: threading.Event) -> None:
    with store.snapshot():
        opened.set()
        assert close.wait(10)


def test_a_store_that_cannot_be_opened_again_fails_until_it_can(
    store: Store, impatient: None, tmp_path: Path
) -> None:
    model = begin(store)
    size = store.size_bytes
    with store.snapshot(), broken_disk(store.path, DiskFault.META), pytest.raises(CommitInDoubt):
        store.commit(Changes(puts=[(Table.CATALOG, KEY, b"lost")]))
    data, away = store.path / "data.mdb", tmp_path / "away"
    data.rename(away)
    data.mkdir()
    for _ in range(2):
        with pytest.raises(StoreFailed, match="cannot open the store again"):
            store.commit(Changes(puts=[(Table.CATALOG, KEY, b"lost")]))
        with pytest.raises(StoreFailed, match="cannot open the store again"), store.snapshot():
            pass
        with pytest.raises(StoreFailed, match="cannot open the store again"):
            store.resolve()
    assert store.reader_check() == 0  # maintenance and metrics go on
    assert store.size_bytes == size
    data.rmdir()
    away.rename(data)
    assert store.resolve() is None
    assert_store_holds(store, model)


# A full disk


def fill(store: Store, model: StoreModel) -> int:
    """Append ledgers of one run until the store is full; how many went in."""
    ledgers = model.topics["t"].ledgers
    for count in range(10_000):
        changes = Changes()
        model.append(changes, "t", [entry(os.urandom(5_000))] * 20)
        model.close_ledger(changes, "t")
        try:
            store.commit(changes)
        except StoreFull:
            del ledgers[max(ledgers)]
            return count
    raise AssertionError("never full")


def test_a_full_store_takes_acks_and_trims_and_then_appends_again(data_dir: Path) -> None:
    bytes_max = 24 << 20
    with Store.open(data_dir, bytes_max=bytes_max) as store:
        model = begin(store)
        model.close_ledger(changes := Changes(), "t")
        store.commit(changes)
        first = fill(store, model)
        assert first > 100
        assert data_dir.joinpath("data.mdb").stat().st_size <= bytes_max
        assert_store_holds(store, model)
        for number in range(200):  # cursors go on
            changes = Changes()
            model.put(changes, b"frontend/%d" % (number % 50), b"%d" % number)
            store.commit(changes)
        assert fill(store, model) == 0
        for _ in range(3):  # trims make room, inside the file
            changes = Changes()
            while len(model.topics["t"].ledgers) > 1:
                model.drop_ledger(changes, "t")
            report = store.commit(changes)
            while report.trims_left:  # a machine that is busy does less of it at once
                report = store.commit(Changes())
            assert fill(store, model) > 60
        assert data_dir.joinpath("data.mdb").stat().st_size <= bytes_max
        assert_store_holds(store, model)
    with Store.open(data_dir, bytes_max=bytes_max) as store:  # and after a restart
        assert fill(store, model) == 0
        changes = Changes()
        model.put(changes, KEY, b"still")
        store.commit(changes)
    with Store.open(data_dir) as store:  # the bound is gone
        changes = Changes()
        model.append(changes, "t", [entry(bytes(5_000))] * 2_000)
        store.commit(changes)
        assert_store_holds(store, model)


def test_the_map_is_a_bound_of_last_resort(data_dir: Path) -> None:
    with Store.open(data_dir, map_bytes=1 << 20) as store:
        model = begin(store)
        model.close_ledger(changes := Changes(), "t")
        store.commit(changes)
        assert fill(store, model) < 11
        assert_store_holds(store, model)


FILL = """
import resource, sys
from arneb_core.api.errors import StoreFull
from arneb_core.store.format.changes import Changes
from arneb_core.store.environment import Store
from arneb_core.testing.store_kit import StoreModel, assert_holds, entry

def full(store, model, runs=10_000):
    for count in range(runs):
        changes, topics = Changes(), model.topics
        model.append(changes, "t", [entry(bytes(5_000))] * 20)
        model.close_ledger(changes, "t")
        try:
            store.commit(changes)
        except StoreFull:
            ledgers = model.topics["t"].ledgers
            del ledgers[max(ledgers)]
            return count
    return runs

store, model, changes = Store.open(sys.argv[1]), StoreModel(), Changes()
model.create_topic(changes, "t")
store.commit(changes)
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (24 << 20, limit[1]))
assert full(store, model) > 100
for number in range(200):
    changes = Changes()
    model.put(changes, b"frontend/%d" % (number % 30), b"%d" % number)
    store.commit(changes)
assert full(store, model) == 0
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
assert full(store, model, 50) == 50, "space came back"
with store.snapshot() as snapshot:
    assert_holds(snapshot, model)
store.close()
print("well")
"""


def test_the_systems_own_refusal_is_a_full_store_too(data_dir: Path) -> None:
    """A limit on the size of files: EFBIG where a full disk gives ENOSPC."""
    answer = subprocess.run(
        [sys.executable, "-c", FILL, data_dir], capture_output=True, text=True, check=False
    )
    assert (answer.stdout, answer.stderr) == ("well\n", "")


def test_the_file_grows_without_a_descriptor_to_be_had(store: Store) -> None:
    """A process that has none left must not refuse what publishers send."""
    model = begin(store)
    before = store.statistics().allocated_bytes
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        for number in range(20):
            changes = Changes()
            model.append(changes, "t", [entry(bytes(100_000) + b"%d" % number)] * 10)
            store.commit(changes)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert store.statistics().allocated_bytes > before
    assert_store_holds(store, model)
