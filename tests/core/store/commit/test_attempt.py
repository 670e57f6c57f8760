"""Outcomes: nobody is told that a commit failed which a crash could still bring back."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import lmdb
import pytest

from arneb_core.api.errors import CommitInDoubt, StoreFailed, StoreFull
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.data_file import live
from arneb_core.store.data_file.meta_pages import TAIL_AT
from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table
from arneb_core.testing.faults import DiskFault, broken_disk, broken_journal
from arneb_core.testing.store_kit import StoreModel, assert_holds, commit_small, entry

KEY = b"frontend/key"


@pytest.fixture
def model(store: Store) -> StoreModel:
    made, changes = StoreModel(), Changes()
    made.create_topic(changes, "t")
    made.append(changes, "t", [entry(b"first")])
    store.commit(changes)
    store.prepare_tiny()
    return made


def tiny(model: StoreModel, body: bytes = b"tiny") -> Changes:
    changes = Changes()
    model.append(changes, "t", [entry(body)])
    return changes


@contextmanager
def killed(store: Store, position: Path) -> Iterator[Store]:
    """What a kill at this instant leaves."""
    shutil.copytree(store.path, position)
    with Store.open(position) as opened:
        yield opened


def assert_store_holds(store: Store, model: StoreModel) -> None:
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)


def untold(model: StoreModel) -> Changes:
    """A run of which the model does not know."""
    changes = tiny(model, b"untold")
    model.topics["t"].ledgers[1].entries.pop()
    return changes


# A record that failed and is there


@pytest.mark.parametrize("fault", DiskFault)
def test_a_record_that_failed_is_gone_before_that_is_said(
    store: Store, model: StoreModel, tmp_path: Path, fault: DiskFault
) -> None:
    """It lands in the journal, the write fails, and so does LMDB: it must not come back."""
    commit_small(store, tiny(model))
    with broken_disk(store.path, fault), broken_journal(lands=True, count=1):
        with pytest.raises((StoreFailed, StoreFull)):
            commit_small(store, untold(model))
        assert not store.is_in_doubt
        with killed(store, tmp_path / "killed") as after:
            assert_store_holds(after, model)
    assert_store_holds(store, model)
    commit_small(store, tiny(model))
    with killed(store, tmp_path / "later") as after:
        assert_store_holds(after, model)


def test_while_a_record_cannot_be_undone_nothing_is_said(
    store: Store, model: StoreModel, tmp_path: Path
) -> None:
    commit_small(store, tiny(model))
    with broken_disk(store.path, DiskFault.FULL), broken_journal(lands=True):
        with pytest.raises(CommitInDoubt):
            commit_small(store, untold(model))
        assert store.is_in_doubt
        for _ in range(2):
            with pytest.raises((StoreFailed, StoreFull)):
                store.resolve()
        with killed(store, tmp_path / "killed") as after, after.snapshot() as snapshot:
            # This is why: nobody was told, so it may be there.
            bodies = [
                body[40:] for _, run in snapshot.iter_blocks(model.topics["t"].id) for body in run
            ]
            assert bodies == [b"first", b"tiny", b"untold"]
        assert_store_holds(store, model)
    assert store.resolve() is None
    assert not store.is_in_doubt
    with killed(store, tmp_path / "resolved") as after:
        assert_store_holds(after, model)
    commit_small(store, tiny(model))
    assert_store_holds(store, model)


def test_lmdb_undoes_a_record_where_the_journal_cannot_be_written(
    store: Store, model: StoreModel, tmp_path: Path
) -> None:
    """A full disk refuses the run, and has room for a row."""
    commit_small(store, tiny(model))
    with broken_journal(lands=True):
        with pytest.raises(StoreFull), _no_room(store):
            commit_small(store, untold(model))
        assert not store.is_in_doubt
        with killed(store, tmp_path / "killed") as after:
            assert_store_holds(after, model)


@contextmanager
def _no_room(store: Store) -> Iterator[None]:
    def take(need: int) -> None:
        raise StoreFull("told to be full")

    real = store._room.take
    store._room.take = take  # type: ignore[method-assign]
    try:
        yield
    finally:
        store._room.take = real  # type: ignore[method-assign]


# A meta page that failed and is there


class Meta:
    """LMDB's descriptor for its meta page, through which writes land and fail."""

    def __init__(self, store: Store) -> None:
        self.path = store.path / DATA_NAME
        self.before = self.path.read_bytes()[: 2 * 4096]

    def put(self, pages: bytes) -> None:
        fd = os.open(self.path, os.O_RDWR)
        try:
            os.pwrite(fd, pages, 0)
        finally:
            os.close(fd)


def failed_and_there(store: Store, changes: Changes) -> None:
    """A commit whose meta page is on disk although writing it failed."""
    other = store.path.with_name("twin")
    shutil.copytree(store.path, other)
    with ExitStack() as stack:
        stack.enter_context(store.snapshot())  # so that it is not opened again at once
        with broken_disk(store.path, DiskFault.META), pytest.raises(CommitInDoubt):
            store.commit(changes)
        # The same transaction on the same file gives the same pages.
        with Store.open(other) as twin:
            twin._journal._is_hearsay = False  # it would tell LMDB something of its own
            twin.commit(changes)
        meta = (other / DATA_NAME).read_bytes()[: 2 * 4096]
        Meta(store).put(meta)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SNAPSHOTS_WAIT_S", 0.0)


def test_a_commit_that_is_there_after_all_succeeded(
    store: Store, model: StoreModel, tmp_path: Path, impatient: None
) -> None:
    store.commit(Changes())
    changes = tiny(model, b"there")
    model.put(changes, KEY, b"there")
    failed_and_there(store, changes)
    report = store.resolve()
    assert report is not None
    assert report.blocks == 1
    assert_store_holds(store, model)
    store.commit(tiny(model))
    with killed(store, tmp_path / "killed") as after:
        assert_store_holds(after, model)


def test_a_reader_may_be_the_first_to_notice(
    store: Store, model: StoreModel, impatient: None
) -> None:
    changes = tiny(model, b"there")
    failed_and_there(store, changes)
    assert_store_holds(store, model)
    assert store.resolve() is not None
    assert store.resolve() is None  # said once


def test_what_it_took_over_is_not_taken_over_again(
    store: Store, model: StoreModel, tmp_path: Path, impatient: None
) -> None:
    """The journal's records went into LMDB with the commit in doubt."""
    commit_small(store, tiny(model))
    commit_small(store, tiny(model))
    changes = tiny(model, b"there")
    failed_and_there(store, changes)
    assert store.resolve() is not None
    assert_store_holds(store, model)
    commit_small(store, tiny(model))
    store.commit(tiny(model))
    with killed(store, tmp_path / "killed") as after:
        assert_store_holds(after, model)


@pytest.mark.parametrize("fault", [None, DiskFault.FULL, DiskFault.META])
def test_a_commit_that_is_there_succeeded_whatever_undoing_a_record_beside_it_takes(
    store: Store, model: StoreModel, tmp_path: Path, impatient: None, fault: DiskFault | None
) -> None:
    """The journal cannot be written, so a commit of LMDB's undoes the record, perhaps not at once:
    the answer is that of the commit which somebody waits for."""
    commit_small(store, tiny(model))
    changes = Changes()
    model.put(changes, KEY, b"there")
    with broken_journal(lands=True):
        with _beside_once(store, untold(model)):
            failed_and_there(store, changes)
        assert store._journal.is_in_doubt
        if fault is not None:
            # Only behind the opening, so that what is there is known.
            assert_store_holds(store, model)
            failed = pytest.raises((StoreFailed, StoreFull))
            with broken_disk(store.path, fault), store.snapshot(), failed:
                store.resolve()
        assert store.resolve() is not None
    assert store.resolve() is None
    assert not store.is_in_doubt
    assert_store_holds(store, model)
    with killed(store, tmp_path / "killed") as after:
        assert_store_holds(after, model)


@contextmanager
def _beside_once(store: Store, run: Changes) -> Iterator[None]:
    """Have ``run``, which fails, written beside the first commit of the block."""
    apply, left = Transaction.apply, [run]

    def applied(within: Transaction, *given: Any) -> None:
        apply(within, *given)
        if left:
            with pytest.raises(OSError):
                store.commit_beside(left.pop(), lambda: None)

    with patch.object(Transaction, "apply", applied):
        yield


def test_a_commit_that_is_not_there_failed(
    store: Store, model: StoreModel, tmp_path: Path, impatient: None
) -> None:
    with store.snapshot(), broken_disk(store.path, DiskFault.META), pytest.raises(CommitInDoubt):
        store.commit(Changes(puts=[(Table.CATALOG, KEY, b"untold")]))
    assert store.resolve() is None
    assert_store_holds(store, model)
    with killed(store, tmp_path / "killed") as after:
        assert_store_holds(after, model)


def test_a_commit_that_was_there_at_one_look_only_failed(
    store: Store, model: StoreModel, tmp_path: Path, impatient: None
) -> None:
    """Pages that the disk did not take may be seen once, in memory, and then no more."""
    commit_small(store, tiny(model))
    before = Meta(store).before
    failed_and_there(store, untold(model))
    with pytest.MonkeyPatch.context() as broken, pytest.raises(StoreFailed):
        broken.setattr(live, "pack_number", _failing(OSError(5, "told to fail")))
        store.resolve()
    assert store.is_in_doubt
    Meta(store).put(before)
    assert store.resolve() is None
    assert_store_holds(store, model)
    # The journal's record, which went into LMDB with that commit, is not written over.
    commit_small(store, tiny(model))
    assert_store_holds(store, model)
    with killed(store, tmp_path / "killed") as after:
        assert_store_holds(after, model)


def test_a_page_that_only_the_cache_has_is_on_disk_before_anybody_builds_on_it(
    store: Store, model: StoreModel, tmp_path: Path, impatient: None
) -> None:
    """Or the meta pages would differ by three after a power cut, and be refused."""
    disk = Disk(store)
    failed_and_there(store, tiny(model, b"there"))
    with disk.watched():
        assert store.resolve() is not None
    with disk.after_a_power_cut(tmp_path / "cut") as after:
        assert_store_holds(after, model)


def test_the_next_process_puts_it_on_disk_as_well(
    store: Store, model: StoreModel, tmp_path: Path, impatient: None
) -> None:
    disk = Disk(store)
    failed_and_there(store, tiny(model, b"there"))
    disk.path = tmp_path / "next" / DATA_NAME
    shutil.copytree(store.path, disk.path.parent)
    with disk.watched(), Store.open(disk.path.parent) as after:
        after.commit(tiny(model))
    with disk.after_a_power_cut(tmp_path / "cut") as after:
        assert_store_holds(after, model)
    assert store.resolve() is not None


class Disk:
    """What the disk has of the meta pages, when one that LMDB failed to write is in the system's
    cache, whose copy nobody but the writer of both knows to differ."""

    def __init__(self, store: Store) -> None:
        self.path = store.path / DATA_NAME
        self.pages = Meta(store).before

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notice what is written to both pages, and flushed."""
        pwrite, written = os.pwrite, dict[int, bytes]()

        def noted(fd: int, data: bytes, at: int) -> int:
            if os.path.samestat(os.fstat(fd), self.path.stat()) and not at:
                written[fd] = bytes(data)
            return pwrite(fd, data, at)

        def flushed(fd: int) -> None:
            self.pages = written.pop(fd, self.pages)

        with patch.object(os, "pwrite", noted), patch.object(os, "fdatasync", flushed):
            yield

    @contextmanager
    def after_a_power_cut(self, position: Path) -> Iterator[Store]:
        """Of the pages, only one is as the last transaction, which succeeded, has written it."""
        shutil.copytree(self.path.parent, position)
        found = (position / DATA_NAME).read_bytes()[: 2 * 4096]
        last = max((0, 4096), key=lambda at: found[at + TAIL_AT + 8 : at + TAIL_AT + 16][::-1])
        pages = bytearray(self.pages)
        pages[last : last + 4096] = found[last : last + 4096]
        with (position / DATA_NAME).open("r+b") as file:
            file.write(pages)
        with Store.open(position) as opened:
            yield opened


def _failing(error: Exception) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise error

    return fail


# Failures before a commit and behind it


def test_a_record_in_doubt_stays_so_when_lmdb_cannot_even_be_asked(
    store: Store, model: StoreModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken, broken_journal(lands=True):
        broken.setattr(store._live, "_expect_whole", _failing(StoreFailed("told to fail")))
        with pytest.raises(CommitInDoubt):
            commit_small(store, untold(model))
        assert store.is_in_doubt
    assert store.resolve() is None
    with killed(store, tmp_path / "killed") as after:
        assert_store_holds(after, model)


def test_a_failure_after_a_commit_does_not_undo_it(
    store: Store, model: StoreModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for the next one cannot be looked for."""
    with monkeypatch.context() as broken:
        broken.setattr(store._room, "is_at_hand", _failing(lmdb.DiskError("told to fail")))
        store.commit(tiny(model))
    assert_store_holds(store, model)
    store.commit(tiny(model))
    assert_store_holds(store, model)
