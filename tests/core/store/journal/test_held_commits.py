"""Held commits: readers in this process find them as if LMDB had them, and only once."""

import errno
import os
import threading
from pathlib import Path

import pytest

from arneb_core.api.entries.position import position_at
from arneb_core.api.errors import StoreFailed, StoreFull
from arneb_core.store.commit import commits as commits_module
from arneb_core.store.data_file import room as room_module
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, TopicId, frontend_key
from arneb_core.store.journal.held_commits import HELD_BYTES_MAX, HELD_ROWS_MAX, HELD_RUNS_MAX
from arneb_core.testing.store_kit import entry

TOPIC = TopicId(1)


def run(first: int, count: int = 1) -> Changes:
    entries = [entry(b"%d" % (first + each)) for each in range(count)]
    return Changes(blocks=[(TOPIC, position_at(1, first), entries)])


def row(value: bytes, key: str = "one") -> Changes:
    return Changes(puts=[(Table.CATALOG, frontend_key(key), value)])


def holding(path: Path) -> Store:
    store = Store.open(path)
    store.prepare_holding()
    return store


def found(store: Store) -> list[bytes]:
    with store.snapshot() as snapshot:
        blocks = snapshot.iter_blocks(TOPIC, position_at(1, 0), position_at(1, 999))
        return [each for _, entries in blocks for each in entries]


def expected(count: int) -> list[bytes]:
    return [entry(b"%d" % each) for each in range(count)]


def test_it_is_found_once_before_and_after_a_commit_has_taken_it_over(tmp_path: Path) -> None:
    with holding(tmp_path) as store:
        assert store.hold(run(0), 10)
        assert store.hold(row(b"first"), 10)
        assert store.hold(row(b"second"), 10)
        assert (found(store), store.held_bytes) == (expected(1), 30)
        with store.snapshot() as snapshot:
            assert snapshot.get(Table.CATALOG, frontend_key("one")) == b"second"
        store.commit(run(1))
        assert (found(store), store.held_bytes) == (expected(2), 0)
    with Store.open(tmp_path) as store:
        assert found(store) == expected(2)
        with store.snapshot() as snapshot:
            assert snapshot.get(Table.CATALOG, frontend_key("one")) == b"second"


def test_so_many_are_taken_over_as_are_asked_for(tmp_path: Path) -> None:
    with holding(tmp_path) as store:
        for each in range(3):
            assert store.hold(run(each), 10)
        store.commit(Changes(), held=2)
        assert (found(store), store.held_bytes) == (expected(3), 10)
    with Store.open(tmp_path) as store:
        assert found(store) == expected(2)


def test_a_snapshot_that_was_begun_before_goes_on_finding_it(tmp_path: Path) -> None:
    with holding(tmp_path) as store:
        store.hold(run(0), 10)
        with store.snapshot() as snapshot:
            store.commit(Changes())
            blocks = snapshot.iter_blocks(TOPIC, position_at(1, 0), position_at(1, 9))
            assert sum(len(entries) for _, entries in blocks) == 1


def test_a_reader_finds_a_held_commit_once_while_it_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit comes between the two."""
    with holding(tmp_path) as store:
        store.hold(run(0), 10)
        begin = store._live.begin_snapshot

        def late() -> object:
            monkeypatch.setattr(store._live, "begin_snapshot", begin)
            store.commit(Changes())
            return begin()

        monkeypatch.setattr(store._live, "begin_snapshot", late)
        assert found(store) == expected(1)


def test_a_takeover_that_begins_while_a_snapshot_is_made_takes_nothing_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(tmp_path) as store:
        store.hold(run(0), 10)
        begin = store._live.begin_snapshot

        def early() -> object:
            monkeypatch.setattr(store._live, "begin_snapshot", begin)
            made = begin()
            store.commit(Changes())
            return made

        monkeypatch.setattr(store._live, "begin_snapshot", early)
        assert found(store) == expected(1)


def test_one_thread_holds_while_another_commits(tmp_path: Path) -> None:
    """At the end everything is there, once, and nothing is counted that is held no more."""
    with holding(tmp_path) as store:
        count, held = 400, 0

        def take_over() -> None:
            while held < count or store.held_bytes:
                store.commit(Changes())

        thread = threading.Thread(target=take_over)
        thread.start()
        while held < count:
            if store.hold(run(held), 10):
                held += 1
            assert len(found(store)) == held
        thread.join()
        assert (found(store), store.held_bytes) == (expected(count), 0)


def test_a_commit_that_fails_leaves_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(tmp_path) as store:
        store.hold(run(0), 10)

        class Failing(commits_module.Transaction):
            def apply(self, changes: Changes, encoded: object) -> None:
                raise OSError(5, "the disk")

        with monkeypatch.context() as patched:
            patched.setattr(commits_module, "Transaction", Failing)
            with pytest.raises(StoreFailed):
                store.commit(Changes())
        assert (found(store), store.held_bytes) == (expected(1), 10)
        # Another transaction gets the number of the one that failed.
        store.commit(Changes(puts=row(b"other").puts), held=0)
        assert (found(store), store.held_bytes) == (expected(1), 10)
        store.commit(Changes())
        assert (found(store), store.held_bytes) == (expected(1), 0)


def test_a_commit_that_fails_at_its_last_write_leaves_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number was given to what it was to take over."""
    with holding(tmp_path) as store:
        store.hold(run(0), 10)
        begin = store._held.begin

        def failing(*given: object) -> None:
            begin(*given)  # type: ignore[arg-type]
            raise OSError(5, "the disk")

        with monkeypatch.context() as patched:
            patched.setattr(store._held, "begin", failing)
            with pytest.raises(StoreFailed):
                store.commit(Changes())
        store.commit(Changes(puts=row(b"other").puts), held=0)
        assert (found(store), store.held_bytes) == (expected(1), 10)


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        (run(0), HELD_BYTES_MAX + 1),
        (Changes(blocks=run(0).blocks * (HELD_RUNS_MAX + 1)), 10),
        (Changes(puts=row(b"x").puts * (HELD_ROWS_MAX + 1)), 10),
        (Changes(prefixes=[(Table.CATALOG, b"x")]), 10),
        (Changes(puts=[(Table.META, b"x", b"y")]), 10),
        (Changes(blocks=run(0).blocks, shared=[b"a"]), 10),
    ],
)
def test_what_is_too_much_or_cannot_be_laid_over_is_not_held(
    tmp_path: Path, changes: Changes, size: int
) -> None:
    with holding(tmp_path) as store:
        assert not store.hold(changes, size)
        assert store.held_bytes == 0


def test_with_all_the_room_taken_nothing_more_is_held_before_a_takeover(tmp_path: Path) -> None:
    with holding(tmp_path) as store:
        assert store.hold(run(0), HELD_BYTES_MAX)
        assert not store.hold(run(1), 1)
        store.commit(Changes())
        assert store.hold(run(1), 1)


def test_nothing_is_held_that_might_find_no_room_on_disk(tmp_path: Path) -> None:
    store = Store.open(tmp_path, bytes_max=8 << 20)
    with store:
        store.prepare_holding()
        assert not store.hold(run(0), 10)
        with pytest.raises(StoreFull):
            store._room.ensure(commits_module.HELD_ROOM_BYTES)


def test_nothing_is_held_unless_asked_for(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert not store.hold(run(0), 10)


class Allocating:
    """Counts how often more of a disk is asked for, which it answers with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
        self.asked = 0
        self.error = error
        self.allocate = os.posix_fallocate
        monkeypatch.setattr(room_module.os, "posix_fallocate", self)

    def __call__(self, fd: int, at: int, size: int) -> None:
        self.asked += 1
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        self.allocate(fd, at, size)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_sets_nothing_aside_has_nothing_held_and_commits_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    disk = Allocating(monkeypatch, error)
    with Store.open(tmp_path) as store:
        store.prepare_holding()
        assert disk.asked
        assert not store.hold(run(0), 10)
        store.commit(Changes(puts=row(b"x").puts))
        with store.snapshot() as snapshot:
            assert snapshot.get(Table.CATALOG, frontend_key("one")) == b"x"


def test_a_disk_that_is_nearly_full_is_not_asked_for_more_by_each_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time costs two calls that fail, of which a file system may take its time, and a walk
    over the tables; the disk may have room again, so it is asked now and then."""
    disk = Allocating(monkeypatch, errno.ENOSPC)
    with Store.open(tmp_path) as store:
        store.prepare_holding()
        asked = disk.asked
        for each in range(100):
            store.commit(Changes(puts=row(b"%d" % each).puts))
            assert not store.hold(run(0), 10)
        assert disk.asked == asked
        disk.error = 0
        for each in range(commits_module.PREPARE_AGAIN_COMMITS):
            store.commit(Changes(puts=row(b"%d" % each).puts))
        assert disk.asked > asked
        assert store.hold(run(0), 10)


def test_where_room_is_inside_the_file_only_it_is_not_asked_for_by_each_commit_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Allocating(monkeypatch, 0)
    with Store.open(tmp_path) as store:
        for each in range(60):
            blocks = [(TOPIC, position_at(1, each), [entry(bytes(1 << 20))])]
            store.commit(Changes(blocks=blocks))
        store.commit(Changes(trims=[(TOPIC, position_at(1, 0), position_at(1, 59))]))
        while store.statistics().trims_left:
            store.commit(Changes())
        disk.error = errno.ENOSPC
        store._room._allocated = store._live.used_bytes
        store.prepare_holding()
        asked = disk.asked
        for each in range(100):
            store.commit(Changes(puts=row(b"%d" % each).puts))
        assert disk.asked == asked
