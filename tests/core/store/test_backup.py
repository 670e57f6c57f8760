"""A backup is a store with everything that was committed before it began."""

import os
from pathlib import Path

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.errors import StoreUnusable
from arneb_core.store import backup
from arneb_core.store.backup import CopyDamaged, back_up
from arneb_core.store.checking.check import check
from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.journal.writing import JOURNAL_NAME
from arneb_core.testing.store_kit import StoreModel, assert_holds, commit_small, entry

PLACES = [DATA_NAME, JOURNAL_NAME]


def filled(path: Path, steps: list[bool]) -> StoreModel:
    """What a killed broker leaves after these commits: True = one entry, into the journal."""
    model, changes = StoreModel(), Changes()
    with Store.open(path) as store:
        model.create_topic(changes, "t")
        model.append(changes, "t", [entry(b"first")])
        store.commit(changes)
        store.prepare_tiny()
        for index, is_tiny in enumerate(steps):
            changes = Changes()
            model.append(changes, "t", [entry(b"%d" % index)] * (1 if is_tiny else 50))
            if is_tiny:
                commit_small(store, changes)
            else:
                store.commit(changes)
    return model


@given(st.lists(st.booleans(), max_size=20), st.booleans(), st.booleans())
def test_a_copy_has_all_that_was_committed_in_whichever_way(
    tmp_path_factory: pytest.TempPathFactory, steps: list[bool], compact: bool, is_checked: bool
) -> None:
    tmp_path = tmp_path_factory.mktemp("backup")
    model = filled(tmp_path / "data", steps)
    done = back_up(tmp_path / "data", tmp_path / "copy", compact=compact, check=is_checked)
    assert sorted(os.listdir(tmp_path)) == ["copy", "data"]
    assert set(os.listdir(tmp_path / "copy")) <= set(PLACES)
    assert done.bytes == (tmp_path / "copy" / DATA_NAME).stat().st_size
    assert done.is_checked == is_checked
    assert check(tmp_path / "copy") == []
    with Store.open(tmp_path / "copy") as copy, copy.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_only_its_owner_and_group_can_read_a_copy(tmp_path: Path) -> None:
    filled(tmp_path / "data", [True, False])
    back_up(tmp_path / "data", tmp_path / "copy")
    for path in (tmp_path / "copy", *(tmp_path / "copy").iterdir()):
        assert not path.stat().st_mode & 0o007, path


def test_every_file_of_a_copy_is_put_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "data", [True, False, True])
    synced: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real_fsync(fd)

    def rename(old: Path, new: Path) -> None:
        making = os.fspath(old)
        for wanted in (making, *(os.path.join(making, each) for each in os.listdir(making))):
            assert wanted in synced, f"{wanted} may be gone after a power cut"
        real_rename(old, new)
        synced.clear()

    with monkeypatch.context() as watched:
        watched.setattr(os, "fsync", fsync)
        watched.setattr(os, "rename", rename)
        back_up(tmp_path / "data", tmp_path / "copy")
    assert str(tmp_path) in synced


def test_a_damaged_store_is_not_copied(tmp_path: Path) -> None:
    filled(tmp_path / "data", [False])
    with lmdb.open(str(tmp_path / "data"), max_dbs=10, lib_version=0) as env:
        cursors = env.open_db(b"cursors", create=False)
        with env.begin(write=True) as txn:
            txn.put(b"\0\0\0\1\0\0\0\1\0", b"short", db=cursors)
    with pytest.raises(CopyDamaged) as caught:
        back_up(tmp_path / "data", tmp_path / "copy")
    assert caught.value.findings == check(tmp_path / "data")
    assert os.listdir(tmp_path) == ["data"]
    back_up(tmp_path / "data", tmp_path / "copy", check=False)
    assert check(tmp_path / "copy") == caught.value.findings


def test_a_damaged_journal_is_not_copied(tmp_path: Path) -> None:
    filled(tmp_path / "data", [True] * 5)
    (tmp_path / "data" / JOURNAL_NAME).write_bytes(b"")
    with pytest.raises(StoreUnusable, match="the journal"):
        back_up(tmp_path / "data", tmp_path / "copy")
    assert os.listdir(tmp_path) == ["data"]


def test_what_is_no_store_is_not_copied(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="holds no Arneb store"):
        back_up(tmp_path / "absent", tmp_path / "copy")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["_copy", "_check", "sync_directory"])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    model = filled(tmp_path / "data", [False, True])

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(backup, call, fail)
        with pytest.raises(StoreUnusable, match="No space left"):
            back_up(tmp_path / "data", tmp_path / "copy")
    assert os.listdir(tmp_path) == ["data"]
    with Store.open(tmp_path / "data") as store, store.snapshot() as snapshot:
        assert_holds(snapshot, model)
