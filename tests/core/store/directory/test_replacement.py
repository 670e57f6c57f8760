"""A store that is replaced by another: it is one or the other, whenever a process is killed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arneb_core.store.checking.check import check
from arneb_core.store.data_file.opening import DATA_NAME, LMDB_LOCK_NAME, LOCK_NAME
from arneb_core.store.directory import replacement
from arneb_core.store.directory.directory import erase
from arneb_core.store.directory.replacement import (
    COPY_NAME,
    GIVEN_NAME,
    WHOLE_NAME,
    abandon_replacement,
    begin_replacement,
    finish_replacement,
    mark_whole,
)
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table
from arneb_core.store.journal.writing import JOURNAL_NAME


class Killed(BaseException):
    """The process ends here."""


def made(path: Path, value: bytes) -> Path:
    with Store.open(path) as store:
        store.commit(Changes(puts=[(Table.CATALOG, b"frontend/a", value)]))
    return path


def value_in(path: Path) -> bytes | None:
    with Store.open(path) as store, store.snapshot() as snapshot:
        return snapshot.get(Table.CATALOG, b"frontend/a")


def copied_into(old: Path, new: Path) -> list[str]:
    """What is there of the other store, not marked yet."""
    making = begin_replacement(old)
    with Store.open(new) as store:
        store.copy(making, compact=True)
    return [each.name for each in making.iterdir()]


def test_a_store_takes_the_place_of_another_when_it_is_opened_next(tmp_path: Path) -> None:
    old, new = made(tmp_path / "old", b"1"), made(tmp_path / "new", b"2")
    names = copied_into(old, new)
    assert value_in(old) == b"1"  # what is not whole is nobody's store
    mark_whole(old, names)
    assert value_in(old) == b"2"
    assert not (old / COPY_NAME).exists()
    assert check(old) == []


def test_what_is_not_whole_is_kept_until_it_is_given_up(tmp_path: Path) -> None:
    old, new = made(tmp_path / "old", b"1"), made(tmp_path / "new", b"2")
    copied_into(old, new)
    assert value_in(old) == b"1"
    assert (old / COPY_NAME / DATA_NAME).exists()
    abandon_replacement(old)
    assert not (old / COPY_NAME).exists()


def test_what_is_whole_is_not_given_up(tmp_path: Path) -> None:
    old, new = made(tmp_path / "old", b"1"), made(tmp_path / "new", b"2")
    mark_whole(old, copied_into(old, new))
    abandon_replacement(old)
    assert value_in(old) == b"2"


@pytest.mark.parametrize("names", [[], [JOURNAL_NAME], [DATA_NAME, "other"]])
def test_a_store_is_made_of_its_files_and_of_no_others(tmp_path: Path, names: list[str]) -> None:
    begin_replacement(tmp_path)
    with pytest.raises(ValueError, match="expected data.mdb"):
        mark_whole(tmp_path, names)


def test_files_of_the_copying_go(tmp_path: Path) -> None:
    old, new = made(tmp_path / "old", b"1"), made(tmp_path / "new", b"2")
    names = copied_into(old, new)
    (old / COPY_NAME / "progress").write_text("x")
    mark_whole(old, names)
    assert {each.name for each in (old / COPY_NAME).iterdir()} == {WHOLE_NAME, *names}


@pytest.mark.parametrize("has_journal", [False, True])
def test_a_kill_leaves_either_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_journal: bool
) -> None:
    """At every call that changes a file; whether the other has a journal or not."""
    new = made(tmp_path / "new", b"2")
    left, calls = 0, 0

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > left:
                raise Killed
            return function(*arguments, **named)

        return call

    seen = set()
    for left in range(100):
        old = made(tmp_path / f"old{left}", b"1")
        if has_journal and not (old / JOURNAL_NAME).exists():
            (old / JOURNAL_NAME).write_bytes(b"")
        names = copied_into(old, new)
        calls = 0
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", dying(os.replace))
            patched.setattr(Path, "unlink", dying(Path.unlink))
            patched.setattr(shutil, "rmtree", dying(shutil.rmtree))
            patched.setattr(replacement, "sync_directory", dying(replacement.sync_directory))
            try:
                mark_whole(old, names)
                finish_replacement(old)
                is_done = True
            except Killed:
                is_done = False
        was_whole = (old / COPY_NAME / WHOLE_NAME).exists()
        found = value_in(old)
        assert found == (b"2" if was_whole or is_done else b"1") or not (old / COPY_NAME).exists()
        assert found in (b"1", b"2")
        seen.add(found)
        assert check(old) == []
        if is_done:
            break
    assert seen == {b"1", b"2"}


def test_a_directory_whose_store_is_lost_is_ours_all_the_same(tmp_path: Path) -> None:
    old, new = made(tmp_path / "old", b"1"), made(tmp_path / "new", b"2")
    names = copied_into(old, new)
    (old / GIVEN_NAME).mkdir()
    for each in (DATA_NAME, LMDB_LOCK_NAME, JOURNAL_NAME):
        (old / each).unlink(missing_ok=True)
    assert value_in(old) is None
    mark_whole(old, names)
    assert value_in(old) == b"2"


def test_what_is_erased_leaves_no_copies(tmp_path: Path) -> None:
    old, new = made(tmp_path / "old", b"1"), made(tmp_path / "new", b"2")
    mark_whole(old, copied_into(old, new))
    (old / GIVEN_NAME).mkdir()
    erase(old)
    assert {each.name for each in old.iterdir()} == {LOCK_NAME}
    assert value_in(old) is None
