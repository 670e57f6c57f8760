"""Opening a data directory: what is taken, what is refused, and that a refusal touches nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import lmdb
import pytest

from arneb_core.api.errors import ForeignDirectory, FormatMismatch, StoreLocked, StoreUnusable
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import pack_number
from arneb_core.store.format.schema import META_FORMAT, Table
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment


def contents(path: Path) -> dict[str, tuple[int, int, str]]:
    """Every file below, with its time of change, its mode and its bytes."""
    return {
        str(file.relative_to(path)): (
            file.stat().st_mtime_ns,
            file.stat().st_mode,
            sha256(file.read_bytes()).hexdigest() if file.is_file() else "",
        )
        for file in [path, *path.rglob("*")]
    }


def write_format(path: Path, version: int) -> None:
    with Store.open(path) as store:
        store.commit(Changes(puts=[(Table.META, META_FORMAT, pack_number(version))]))


def make_other_lmdb(path: Path) -> None:
    path.mkdir()
    with lmdb.open(str(path), lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"somebody", b"else's")


def make_lmdb_with_our_table_names(path: Path) -> None:
    path.mkdir()
    with lmdb.open(str(path), lib_version=0, max_dbs=9) as env:
        for table in Table:
            if table is not Table.DELAYED:
                env.open_db(table.value)


def make_lmdb_1(path: Path) -> None:
    path.mkdir()
    with lmdb.open(str(path), lib_version=1) as env, env.begin(write=True) as txn:
        txn.put(b"a", b"b")


def make_text(path: Path) -> None:
    path.mkdir()
    (path / "data.mdb").write_text("not a database\n" * 1000)


def make_empty_data_file(path: Path) -> None:
    path.mkdir()
    (path / "data.mdb").touch()


def make_home(path: Path) -> None:
    path.mkdir()
    (path / "letters").mkdir()
    (path / "letters" / "one.txt").write_text("dear")


def make_store_without_format(path: Path) -> None:
    with Store.open(path) as store:
        store.commit(Changes(deletes=[(Table.META, META_FORMAT)]))


REFUSED: dict[str, tuple[Callable[[Path], None], type[StoreUnusable]]] = {
    "another LMDB file": (make_other_lmdb, ForeignDirectory),
    "half of our tables": (make_lmdb_with_our_table_names, ForeignDirectory),
    "LMDB 1.0": (make_lmdb_1, ForeignDirectory),
    "a text file": (make_text, ForeignDirectory),
    "an empty file": (make_empty_data_file, ForeignDirectory),
    "somebody's files": (make_home, ForeignDirectory),
    "no format": (make_store_without_format, FormatMismatch),
    "format 0": (lambda path: write_format(path, 0), FormatMismatch),
    "format 99": (lambda path: write_format(path, 99), FormatMismatch),
    "a file": (Path.touch, ForeignDirectory),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_directory_is_left_untouched(tmp_path: Path, case: str) -> None:
    make, expected = REFUSED[case]
    path = tmp_path / "data"
    make(path)
    before = contents(path)
    with pytest.raises(expected) as refusal:
        Store.open(path)
    assert "\n" not in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert contents(path) == before


@pytest.mark.parametrize("case", ["format 0", "format 99", "another LMDB file", "somebody's files"])
def test_a_reader_refuses_it_too(tmp_path: Path, case: str) -> None:
    path = tmp_path / "data"
    REFUSED[case][0](path)
    with pytest.raises(StoreUnusable):
        open_snapshot_environment(path)


def test_an_absent_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with Store.open(path) as store:
        assert store.path == path
    assert sorted(os.listdir(path)) == ["arneb.lock", "data.mdb", "lock.mdb"]


def test_an_empty_mount_point_is_taken(data_dir: Path) -> None:
    (data_dir / "lost+found").mkdir(parents=True)
    Store.open(data_dir).close()


def test_a_store_that_was_killed_at_birth_is_born_again(data_dir: Path) -> None:
    """The files are there, but no transaction was ever committed."""
    data_dir.mkdir()
    (data_dir / "arneb.lock").write_text("123\n")
    (data_dir / "arneb.new").mkdir()
    (data_dir / "arneb.new" / "data.mdb").write_bytes(bytes(1000))
    Store.open(data_dir).close()
    assert sorted(os.listdir(data_dir)) == ["arneb.lock", "data.mdb", "lock.mdb"]
    for name in ("data.mdb", "lock.mdb"):
        (data_dir / name).unlink()
    lmdb.open(str(data_dir), lib_version=0).close()
    Store.open(data_dir).close()


def test_a_directory_that_cannot_be_made_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match="Not a directory"):
        Store.open(tmp_path / "file" / "data")


def test_a_second_store_in_the_same_process_is_refused(store: Store) -> None:
    before = contents(store.path)
    with pytest.raises(StoreLocked, match="in use|in this process"):
        Store.open(store.path)
    assert contents(store.path) == before
    store.commit(Changes(puts=[(Table.CATALOG, b"frontend/still", b"mine")]))


OPEN = """
import sys
from arneb_core.api.errors import StoreUnusable
from arneb_core.store.environment import Store
try:
    store = Store.open(sys.argv[1])
except StoreUnusable as error:
    print(type(error).__name__, error, flush=True)
else:
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_with_the_owners_name(store: Store) -> None:
    before = contents(store.path)
    answer = subprocess.run(
        [sys.executable, "-c", OPEN, store.path], capture_output=True, text=True, check=True
    )
    assert answer.stdout == (
        f"StoreLocked {store.path} is in use by another broker (process {os.getpid()})\n"
    )
    assert contents(store.path) == before


def test_the_lock_goes_with_a_killed_process(data_dir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, data_dir],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match=f"process {process.pid}"):
            Store.open(data_dir)
        process.kill()
    Store.open(data_dir).close()


def test_closing_lets_the_next_one_in(data_dir: Path) -> None:
    first = Store.open(data_dir)
    first.close()
    first.close()
    with Store.open(data_dir) as second:
        assert repr(second) == f"<Store {data_dir} open, 0 snapshots>"
        with pytest.raises(RuntimeError, match="is closed"):
            first.commit(Changes(puts=[(Table.CATALOG, b"frontend/a", b"")]))
        with pytest.raises(RuntimeError, match="is closed"), first.snapshot():
            pass


def test_an_idle_store_is_small(data_dir: Path) -> None:
    """A terabyte of address space costs no disk (nor memory, see docs/internals/storage.md)."""
    with Store.open(data_dir) as store:
        assert store.statistics().size_bytes <= 64 * 1024
        used = sum(file.stat().st_blocks * 512 for file in data_dir.iterdir())
        assert used <= 256 * 1024


def test_a_process_limited_in_address_space_gets_a_smaller_map(tmp_path: Path) -> None:
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from arneb_core.store.environment import Store
Store.open(sys.argv[1]).close()
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "data"], check=True)


@pytest.mark.parametrize("made_by", ["us", "a start that was killed"])
def test_every_name_that_leads_to_a_new_store_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by: str
) -> None:
    """Else the directory may be gone after a power cut, with all that was confirmed in it."""
    path = tmp_path / "a" / "b" / "data"
    if made_by != "us":
        path.mkdir(parents=True)
    synced: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    Store.open(path).close()
    assert {str(each) for each in (path, *path.parents[:3])} <= set(synced)
    synced.clear()
    Store.open(path).close()
    assert str(tmp_path) not in synced  # only a new one


def test_a_relative_path_is_no_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Store.open("data").close()
    assert (tmp_path / "data" / "data.mdb").exists()
