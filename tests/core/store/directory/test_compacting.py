"""Compacting: the file becomes small, the store stays the same, and nothing is lost on the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arneb_core.api.errors import StoreFailed, StoreLocked, StoreUnusable
from arneb_core.store.directory import compacting
from arneb_core.store.directory.compacting import NEW_NAME, compact
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.testing.store_kit import StoreModel, assert_holds, commit_small, entry

DATA = "data.mdb"


def filled_and_drained(path: Path, *, journaled: bool = False) -> StoreModel:
    """A store of which most is free; with a run that is in the journal only, if so wanted."""
    model = StoreModel()
    with Store.open(path) as store:
        changes = Changes()
        model.create_topic(changes, "t")
        model.create_topic(changes, "kept")
        model.append(changes, "kept", [entry(b"kept")] * 5)
        store.commit(changes)
        for _ in range(4):
            changes = Changes()
            model.append(changes, "t", [entry(bytes(60_000))] * 100)
            model.close_ledger(changes, "t")
            store.commit(changes)
        changes = Changes()
        for _ in range(3):
            model.drop_ledger(changes, "t")
        store.commit(changes)
        while store.statistics().trims_left:
            store.commit(Changes())
        if journaled:
            changes = Changes()
            model.append(changes, "kept", [entry(b"in the journal")])
            store.prepare_tiny()
            assert commit_small(store, changes).needs_takeover
    return model


def assert_is(path: Path, model: StoreModel) -> None:
    with Store.open(path) as store, store.snapshot() as snapshot:
        assert_holds(snapshot, model)


@pytest.mark.parametrize("journaled", [False, True])
def test_what_is_free_is_given_back_and_all_else_is_there(data_dir: Path, journaled: bool) -> None:
    model = filled_and_drained(data_dir, journaled=journaled)
    done = compact(data_dir)
    assert done.after < done.before / 3
    assert done.after == (data_dir / DATA).stat().st_blocks * 512
    assert not (data_dir / NEW_NAME).exists()
    assert_is(data_dir, model)
    assert compact(data_dir).after <= done.before, "compacting twice must be possible"
    assert_is(data_dir, model)
    with Store.open(data_dir) as store:
        changes = Changes()
        model.append(changes, "t", [entry(b"after")])
        store.commit(changes)
    assert_is(data_dir, model)


def test_a_store_in_use_is_refused(data_dir: Path) -> None:
    filled_and_drained(data_dir)
    with Store.open(data_dir):
        before = (data_dir / DATA).stat()
        with pytest.raises(StoreLocked):
            compact(data_dir)
        assert (data_dir / DATA).stat() == before


def test_a_store_that_another_process_reads_is_refused(data_dir: Path) -> None:
    """It would go on with a file that is no longer there."""
    model = filled_and_drained(data_dir)
    code = (
        "import sys\n"
        "from arneb_core.store.reading.snapshot_environment import open_snapshot_environment\n"
        f"with open_snapshot_environment({str(data_dir)!r}) as env, env.snapshot():\n"
        "    print('reading', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"
        with pytest.raises(StoreLocked, match="read by another process"):
            compact(data_dir)
    assert reader.returncode == 0
    compact(data_dir)
    assert_is(data_dir, model)


@pytest.mark.parametrize("call", ["copy_environment", "sync_file", "os.replace"])
def test_whatever_breaks_it_off_leaves_the_store_as_it_was(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    model = filled_and_drained(data_dir)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        target, _, name = call.rpartition(".")
        broken.setattr(os if target else compacting, name, fail)
        with pytest.raises(StoreFailed, match="No space left"):
            compact(data_dir)
    assert not (data_dir / NEW_NAME).exists()
    assert_is(data_dir, model)


def test_what_a_kill_left_behind_is_cleared_away(data_dir: Path) -> None:
    model = filled_and_drained(data_dir)
    (data_dir / NEW_NAME).mkdir()
    (data_dir / NEW_NAME / DATA).write_bytes(b"half of it")
    assert_is(data_dir, model)
    assert not (data_dir / NEW_NAME).exists(), "the unfinished copy must be removed"
    (data_dir / NEW_NAME).mkdir()
    (data_dir / NEW_NAME / DATA).write_bytes(b"half of it")
    compact(data_dir)
    assert_is(data_dir, model)


def test_the_file_stays_whose_it_was(data_dir: Path) -> None:
    """Root may have called it, for a broker that is somebody else."""
    owner = (4711, 4712) if os.getuid() == 0 else (os.getuid(), os.getgid())
    filled_and_drained(data_dir)
    os.chown(data_dir / DATA, *owner)
    os.chmod(data_dir / DATA, 0o600)
    compact(data_dir)
    found = (data_dir / DATA).stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (*owner, 0o600)


def test_what_is_no_store_is_refused_and_not_touched(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        compact(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(StoreUnusable):
        compact(tmp_path)
    assert list(tmp_path.iterdir()) == []
