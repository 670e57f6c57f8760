"""The data file read without LMDB: a sound one is found sound, and a damaged one is an error that
names the place and nothing else."""

from pathlib import Path

import lmdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arneb_core.api.errors import ForeignDirectory, StoreDamaged, StoreFailed, StoreUnusable
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.data_file.meta_pages import check_file
from arneb_core.store.data_file.page_walk import PageFault, PageWalk
from arneb_core.store.data_file.pages import PageFile
from arneb_core.store.data_file.store_file import look_through
from arneb_core.store.directory.directory import look_at
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.store_kit import StoreModel, entry


def faults(path: Path) -> list[PageFault]:
    """As a start sees them."""
    file = path / "data.mdb"
    meta = check_file(file)
    with PageFile(file, meta.page_bytes) as pages:
        return look_through(pages, meta, claimed=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with trees of several levels, long values and free pages."""
    path = tmp_path_factory.mktemp("sound") / "data"
    model = StoreModel()
    with Store.open(path) as store:
        for number in range(120):
            changes = Changes()
            name = f"topic {number % 60}"
            if name in model.topics:
                model.append(changes, name, [entry(bytes(50 * number))] * 3)
            else:
                model.create_topic(changes, name)
                model.subscribe(changes, name, "s" * (3 * number))
            if number % 7 == 0:
                model.put(changes, b"frontend/" + bytes(600) + b"%d" % number, bytes(3 * number))
            if number == 119:
                model.delete_topic(changes, "topic 3")
            store.commit(changes)
    return path


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(1, 40), st.integers(0, 9000)),
        max_size=25,
    )
)
def test_whatever_was_committed_is_found_sound(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "data"
    model = StoreModel()
    with Store.open(path) as store:
        for kind, topic, count, size in steps:
            changes, name = Changes(), f"topic {topic}"
            if name not in model.topics:
                model.create_topic(changes, name)
            elif kind == 0:
                model.delete_topic(changes, name)
            elif kind == 1:
                model.close_ledger(changes, name)
                model.put(changes, b"frontend/" + bytes(size // 20), bytes(size))
            else:
                model.append(changes, name, [entry(bytes(size))] * (1 + count // (1 + size // 500)))
            store.commit(changes)
            assert faults(path) == []
    assert check(path) == []


def test_a_file_may_end_before_pages_that_are_free(tmp_path: Path) -> None:
    """LMDB does not write pages that were used and given up in one transaction."""
    env = lmdb.open(str(tmp_path), lib_version=0, max_dbs=1)
    for values in (bytes(5000), None, None, None, None):
        with env.begin(write=True) as txn:
            txn.put(b"left", b"over")
            for number in range(50):
                if values is None:
                    txn.delete(b"%d" % number)
                else:
                    txn.put(b"%d" % number, values)
    env.close()
    file = tmp_path / "data.mdb"
    meta = check_file(file)
    with PageFile(file) as pages:
        walk = PageWalk(pages, meta.last_page)
        for _ in walk.leaves("main", meta.main):
            pass
        used = max(walk.used)
        walk.free_list(meta.free)
    used = max(used, meta.free.root)
    assert used < meta.last_page
    with file.open("r+b") as data:
        data.truncate((used + 1) * meta.page_bytes)
    assert check_file(file) == meta
    with file.open("r+b") as data:
        data.truncate(used * meta.page_bytes)
    with pytest.raises(StoreDamaged, match="is cut off: expected at least"):
        check_file(file)


@given(data=st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_anywhere_is_a_refusal_or_a_fault_and_never_anything_else(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray((sound / "data.mdb").read_bytes())
    used = check_file(sound / "data.mdb").file_bytes
    page = data.draw(st.integers(0, used // 4096 - 1), label="page")
    at = page * 4096 + data.draw(st.integers(0, 4095), label="at")
    noise = data.draw(st.binary(min_size=1, max_size=64), label="noise")
    content[at : at + len(noise)] = noise
    size = data.draw(st.one_of(st.just(used), st.integers(0, used)), label="size")
    path = tmp_path_factory.mktemp("damaged")
    (path / "arneb.lock").touch()
    (path / "data.mdb").write_bytes(content[:size])
    try:
        look_at(path, locked=True)
    except StoreUnusable as error:
        assert str(path / "data.mdb") in str(error) or "format" in str(error)
        assert "\n" not in str(error)


@pytest.mark.parametrize("table", ["CATALOG", "ENTRIES", "META"])
def test_a_damaged_page_is_a_finding_that_names_it(sound: Path, tmp_path: Path, table: str) -> None:
    file = tmp_path / "data.mdb"
    content = bytearray((sound / "data.mdb").read_bytes())
    meta = check_file(sound / "data.mdb")
    with PageFile(sound / "data.mdb") as pages:
        walk = PageWalk(pages, meta.last_page)
        tree = walk.tables(meta.main)[table.lower()]
        page = [leaf.number for leaf in walk.leaves(table, tree)][-1]
    content[page * 4096 + 10] ^= 0xFF  # its kind
    file.write_bytes(content)
    found = check(tmp_path)
    assert (found[0].kind, found[0].where) == (FindingKind.PAGE, f"page {page}")
    assert f"table {table}" in found[0].detail
    with pytest.raises(StoreDamaged, match=f"page {page} .*table {table}"):
        Store.open(tmp_path)
    assert not (tmp_path / "arneb.lock").exists()
    if table != "ENTRIES":
        with pytest.raises(StoreDamaged, match=f"page {page} .*table {table}"):
            open_snapshot_environment(tmp_path)


def test_a_page_that_is_free_and_in_use_at_once_is_found(sound: Path, tmp_path: Path) -> None:
    """It would be handed out, and written over."""
    meta = check_file(sound / "data.mdb")
    content = bytearray((sound / "data.mdb").read_bytes())
    with PageFile(sound / "data.mdb") as pages:
        walk = PageWalk(pages, meta.last_page)
        walk.free_list(meta.free)
        free = min(walk.free)
    at = content.index(free.to_bytes(8, "little"), meta.free.root * 4096)
    content[at : at + 8] = meta.main.root.to_bytes(8, "little")
    (tmp_path / "data.mdb").write_bytes(content)
    found = check(tmp_path)
    assert found[0].kind is FindingKind.PAGE
    assert "list of free pages" in found[0].detail


def test_an_empty_file_is_refused_in_a_directory_of_ours_too(tmp_path: Path) -> None:
    (tmp_path / "arneb.lock").touch()
    (tmp_path / "data.mdb").touch()
    with pytest.raises(ForeignDirectory, match="is empty"):
        Store.open(tmp_path)
    assert (tmp_path / "data.mdb").stat().st_size == 0


@pytest.mark.parametrize("left", ["lock.mdb", "arneb.journal"])
def test_a_directory_whose_data_file_is_gone_is_refused(tmp_path: Path, left: str) -> None:
    (tmp_path / left).write_bytes(bytes(100))
    with pytest.raises(StoreDamaged, match=f"has no data.mdb, though {left} is there"):
        Store.open(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [left]


def test_a_failed_creation_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data file has its name only when it is whole."""
    from arneb_core.store.data_file import creating

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(creating.os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        Store.open(tmp_path / "data")
    assert not (tmp_path / "data" / "data.mdb").exists()
    monkeypatch.undo()
    Store.open(tmp_path / "data").close()


def test_a_file_that_is_cut_off_under_an_open_store_is_a_failed_read_and_commit(
    tmp_path: Path,
) -> None:
    """And serves on once the file is what it was."""
    changes = Changes(puts=[(Table.CATALOG, b"frontend/a", b"")])
    with Store.open(tmp_path / "data") as store:
        store.commit(changes)
        with open(tmp_path / "data" / "data.mdb", "r+b") as file:
            content = file.read()
            file.truncate(8192)
            with pytest.raises(StoreFailed, match="is cut off"), store.snapshot():
                pass
            with pytest.raises(StoreFailed, match="is cut off"):
                store.commit(changes)
            file.seek(0)
            file.write(content)
        store.commit(changes)
    assert check(tmp_path / "data") == []


def test_a_file_that_is_cut_off_under_a_reader_is_refused(sound: Path, tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes((sound / "data.mdb").read_bytes())
    with open_snapshot_environment(tmp_path) as environment:
        with environment.snapshot():
            pass
        with open(tmp_path / "data.mdb", "r+b") as file:
            file.truncate(check_file(tmp_path / "data.mdb").file_bytes // 2)
        with pytest.raises(StoreDamaged, match="is cut off"), environment.snapshot():
            pass
