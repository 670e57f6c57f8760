"""The journal's file as it is written: past the page cache, where that goes."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arneb_core.store.commit import commits
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import JOURNAL_RECORD, JournalLayout, JournalState
from arneb_core.store.journal.record import BLOCK_BYTES, stamps_of
from arneb_core.store.journal.writing import (
    JOURNAL_BYTES,
    JOURNAL_NAME,
    OpenJournal,
    whole_file,
    write_file,
)
from arneb_core.testing.store_kit import StoreModel, assert_holds, commit_small, entry

BYTES_MAX = 40_000
STATE = JournalState(3, 77, 0, 0, 1, in_use=True)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OpenJournal]:
    made = OpenJournal(tmp_path, write_file(tmp_path, STATE), BYTES_MAX)
    yield made
    made.close()


WRITES = st.lists(
    st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 1000), st.integers(0, 50)),
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WRITES)
def test_readers_see_what_is_written(
    file: OpenJournal, tmp_path: Path, writes: list[tuple[bytes, int, int]]
) -> None:
    path = tmp_path / JOURNAL_NAME
    for word, times, block in writes:
        before = path.read_bytes()  # so that the page cache has all of it
        data = (word * times)[:BYTES_MAX]
        file.write(data, block * BLOCK_BYTES)
        after = path.read_bytes()
        end = block * BLOCK_BYTES + len(data)
        assert after[block * BLOCK_BYTES : end] == data
        assert after[: block * BLOCK_BYTES] == before[: block * BLOCK_BYTES]
        end += -end % BLOCK_BYTES
        assert after[end:] == before[end:]
        assert len(after) == JOURNAL_BYTES
    stamps = b"".join(bytes(file.stamp_at(at)) for at in range(0, JOURNAL_BYTES, BLOCK_BYTES))
    assert stamps == stamps_of(path.read_bytes())


def test_a_version_with_the_former_layout_can_read_nothing_of_a_new_one() -> None:
    assert len(STATE.pack()) == JOURNAL_RECORD.size + 1
    before = replace(STATE, layout=JournalLayout.SLOTS)
    assert len(before.pack()) == JOURNAL_RECORD.size
    assert [JournalState.unpack(each.pack()) for each in (STATE, before)] == [STATE, before]
    with pytest.raises(ValueError, match="not a valid"):
        JournalState.unpack(before.pack() + b"\x03")


def test_a_new_file_has_stamps_everywhere(tmp_path: Path) -> None:
    stamps = write_file(tmp_path, STATE)
    assert stamps == stamps_of(whole_file(STATE))
    each = {stamps[at : at + 8] for at in range(0, len(stamps), 8)}
    assert not each & {bytes(8), b"\xff" * 8}
    assert len(each) == JOURNAL_BYTES // BLOCK_BYTES  # none can be taken for another


def test_every_write_is_synchronous_and_past_the_page_cache(file: OpenJournal) -> None:
    (flags,) = (
        int(line.split()[1], 8)
        for line in Path(f"/proc/self/fdinfo/{file._fd}").read_text().splitlines()
        if line.startswith("flags")
    )
    assert flags & os.O_DSYNC
    assert bool(flags & os.O_DIRECT) is file.is_direct


def refusing_to_open(real: object) -> object:
    def opened(path: object, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, *rest)  # type: ignore[operator,no-any-return]

    return opened


def refused(*_: object) -> int:
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize("at_open", [True, False])
def test_a_file_system_that_cannot_is_written_through_its_cache(
    tmp_path: Path, at_open: bool
) -> None:
    stamps = write_file(tmp_path, STATE)
    broken = patch.object(os, "open", refusing_to_open(os.open))
    with broken if at_open else patch.object(os, "preadv", refused):
        file = OpenJournal(tmp_path, stamps, BYTES_MAX)
    assert not file.is_direct
    assert "through" in repr(file)
    file.write(b"as ever", BLOCK_BYTES)
    assert (tmp_path / JOURNAL_NAME).read_bytes()[BLOCK_BYTES:].startswith(b"as ever")
    file.close()


def test_an_error_of_the_disk_is_none_of_the_file_systems_choice(tmp_path: Path) -> None:
    stamps = write_file(tmp_path, STATE)

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "the disk")

    opened = len(os.listdir("/dev/fd"))
    with patch.object(os, "preadv", failing), pytest.raises(OSError, match="the disk"):
        OpenJournal(tmp_path, stamps, BYTES_MAX)
    assert len(os.listdir("/dev/fd")) == opened


def test_one_that_refuses_a_write_only_is_written_through_the_cache_from_then_on(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "data") as store:
        model, changes = StoreModel(), Changes()
        model.create_topic(changes, "t")
        model.append(changes, "t", [entry(b"first")])
        store.commit(changes)
        store.prepare_tiny()
        if not store.journal_is_direct:
            pytest.skip("this file system cannot be written past its cache")
        real = os.pwrite

        def pwrite(fd: int, data: memoryview, at: int) -> int:
            flags = Path(f"/proc/self/fdinfo/{fd}").read_text().split("flags:")[1].split()[0]
            if int(flags, 8) & os.O_DIRECT:
                raise OSError(errno.EINVAL, "Invalid argument")
            return real(fd, data, at)

        def small(body: bytes) -> Changes:
            model.append(changes := Changes(), "t", [entry(body)])
            return changes

        with patch.object(os, "pwrite", pwrite), patch.object(commits, "PREPARE_AGAIN_COMMITS", 0):
            assert not commit_small(store, small(b"refused")).needs_takeover  # LMDB had to do it
            store.commit(Changes())
            store.prepare_tiny()
            assert store.journal_is_direct is False
            assert commit_small(store, small(b"through the cache")).needs_takeover
        with store.snapshot() as snapshot:
            assert_holds(snapshot, model)
