"""The journal's file: whatever is damaged, what is whole is found and what is not is said."""

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.position import position
from arneb_core.store.changes import Changes
from arneb_core.store.commit_record import CommitRecord, encode_record
from arneb_core.store.journal_file import (
    JOURNAL_BYTES,
    JOURNAL_NAME,
    PAGE_BYTES,
    FaultKind,
    Reading,
    parse_journal,
    read_journal,
    write_file,
)
from arneb_core.store.journal_record import SLOT_BYTES, mark, slotted
from arneb_core.store.records import JournalState
from arneb_core.store.schema import TopicId

SIZES = st.lists(st.integers(0, 700), max_size=8)
SALT = 77


class File:
    """A journal file in memory, written as a broker writes it."""

    def __init__(self, number: int = 0) -> None:
        self.data = bytearray(JOURNAL_BYTES)
        self.state = JournalState(1, SALT, number, 5, number + 1, in_use=True)
        self.head, self.head_checksum = number + 1, 0
        self.offsets: list[int] = []
        """Where each record of this round begins, and where the next one belongs."""
        self.numbers: list[int] = []
        self.end = 0
        self._checksum = 5
        self.begin()

    def begin(self) -> None:
        first = mark(1, self.state.number + 1, self._checksum, SALT)
        self.data[: len(first)] = first

    def append(self, size: int) -> None:
        number = (self.numbers[-1] if self.numbers else self.state.number) + 1
        changes = Changes([(TopicId(1), position(1, number), [bytes(size)])])
        made, self._checksum = slotted(1, number, self._checksum, SALT, changes, self.end)
        if not self.end:
            self.head, self.head_checksum = number, self._checksum
        self.data[self.end : self.end + len(made)] = made
        self.offsets.append(self.end)
        self.numbers.append(number)
        self.end += len(made) - SLOT_BYTES

    def take_over(self, *, goes_on: bool = False) -> None:
        """LMDB has everything; the next round begins at the start, or goes on behind what LMDB
        has, because some of it came while that was taken over."""
        number = self.numbers[-1] if self.numbers else self.state.number
        self.state = JournalState(
            1, SALT, number, self._checksum, self.head, self.head_checksum, in_use=True
        )
        self.offsets, self.numbers = [], []
        self.end = self.end if goes_on else 0

    def read(self, data: bytes | None = None) -> Reading:
        return parse_journal(bytes(self.data) if data is None else data, self.state)


def made(rounds: list[list[int]], *, goes_on: Sequence[bool] = ()) -> File:
    file = File()
    for index, sizes in enumerate(rounds):
        if index:
            file.take_over(goes_on=bool(sizes) and any(goes_on[index - 1 : index]))
        for size in sizes:
            file.append(size)
    return file


def numbers(found: Reading) -> list[int]:
    return [each.number for each in found.records]


GOES_ON = st.lists(st.booleans(), min_size=3, max_size=3)
FILES = st.builds(made, st.lists(SIZES, min_size=1, max_size=4), goes_on=GOES_ON)
FULL = st.builds(made, st.lists(SIZES.filter(bool), min_size=1, max_size=4), goes_on=GOES_ON)


@given(FILES)
def test_a_sound_file_gives_the_last_round_and_no_fault(file: File) -> None:
    found = file.read()
    assert numbers(found) == file.numbers
    assert not found.faults
    assert found.is_sound
    assert found.end == file.end


@given(FULL, st.data())
def test_a_damaged_record_is_lost_and_said_and_nothing_else_is(
    file: File, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(file.numbers) - 1))
    bounds = [*file.offsets, file.end]
    at = data.draw(st.integers(bounds[index], bounds[index + 1] - 1))
    file.data[at] ^= data.draw(st.integers(1, 255))
    found = file.read()
    assert numbers(found) == [each for each in file.numbers if each != file.numbers[index]]
    (fault,) = found.faults
    assert str(file.numbers[index]) in str(fault)
    assert not found.is_sound
    if index < len(file.numbers) - 1:
        assert fault.kind is FaultKind.LOST
    else:
        assert fault.kind in (FaultKind.CUT_OFF, FaultKind.UNREADABLE)


@given(FULL, st.data())
def test_a_stretch_that_was_wiped_out_is_noticed(file: File, data: st.DataObject) -> None:
    """Zeros, or noise, over any stretch of what was written in this round and before it."""
    low = data.draw(st.integers(0, file.end))
    high = data.draw(st.integers(low, file.end + SLOT_BYTES - 1)) + 1
    filler = data.draw(st.sampled_from([b"\0", b"\xff", b"aRc\x01"]))
    before = bytes(file.data)
    file.data[low:high] = (filler * (high - low))[: high - low]
    found = file.read()
    hit = [
        number
        for number, start, end in zip(
            file.numbers, file.offsets, [*file.offsets[1:], file.end], strict=True
        )
        if bytes(file.data[start:end]) != before[start:end]
    ]
    kept = numbers(found)
    assert set(file.numbers) - set(hit) <= set(kept) <= set(file.numbers)
    if kept != file.numbers:
        assert found.faults
        assert not found.is_sound


@pytest.mark.parametrize("first", [1, 60, 150, 300])
def test_what_stood_behind_records_that_lmdb_has_is_not_wiped_out_in_silence(first: int) -> None:
    """From the body of the first of them on, all is zeros: what LMDB lacks as well."""
    file = made([[10, 10, 10], [10, 10]], goes_on=[True])
    file.data[first + 32 :] = bytes(JOURNAL_BYTES - first - 32)
    found = file.read()
    assert not found.records
    assert [str(file.numbers[0]) in str(fault) for fault in found.faults] == [True]
    assert not found.is_sound


@given(FULL, st.data())
def test_a_file_that_was_cut_off_is_noticed(file: File, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, JOURNAL_BYTES - 1) | st.integers(0, file.end + SLOT_BYTES))
    found = file.read(bytes(file.data[:size]))
    ends = [*file.offsets[1:], file.end]
    assert (
        numbers(found)
        == [each for each, end in zip(file.numbers, ends, strict=True) if end <= size]
        or numbers(found) == file.numbers
    )
    assert found.faults[0].kind is FaultKind.SHORT
    assert found.is_damaged


@given(FILES, st.integers(0, 3000), st.data())
def test_a_power_cut_in_a_write_is_no_certain_damage(
    file: File, size: int, data: st.DataObject
) -> None:
    """Sectors of the last write are there or not, in any order."""
    before = bytes(file.data)
    start, confirmed = file.end, list(file.numbers)
    file.append(size)
    torn = bytearray(before)
    sectors = range(start // 512, -(-(file.end + SLOT_BYTES) // 512))
    for sector in data.draw(st.lists(st.sampled_from(sectors), unique=True)):
        torn[sector * 512 : sector * 512 + 512] = file.data[sector * 512 : sector * 512 + 512]
    found = file.read(bytes(torn))
    assert numbers(found) in (confirmed, file.numbers)
    assert not found.is_damaged
    assert all(str(file.numbers[-1]) in str(fault) for fault in found.faults)


def test_a_record_with_the_next_number_and_a_bad_checksum_is_always_said() -> None:
    file = made([[100, 100]])
    file.data[file.offsets[1] + 60] ^= 1
    (fault,) = file.read().faults
    assert not fault.is_certain
    assert str(fault) == (
        "the journal ends with a record that is cut off or damaged, which cannot be told apart: "
        "record 2; if it was confirmed, it is lost, and so is what came behind it"
    )


def test_a_write_that_the_disk_lost_is_noticed_by_what_follows() -> None:
    file = made([[10, 10]])
    stale = bytes(file.data)
    file.append(10)
    third = file.end
    file.append(10)
    file.data[file.offsets[2] : third] = stale[file.offsets[2] : third]
    found = file.read()
    assert numbers(found) == [1, 2, 4]
    assert [str(each) for each in found.faults] == ["the journal lacks records: record 3 is lost"]


def test_several_faults_are_all_said() -> None:
    file = made([[50] * 9])
    for index in (1, 4, 5, 8):
        file.data[file.offsets[index] + 40] ^= 1
    found = file.read()
    assert numbers(found) == [1, 3, 4, 7, 8]
    assert [each.detail.split(";")[0] for each in found.faults] == [
        "record 2 is lost",
        "records 5 to 6 are lost",
        "record 9",
    ]


def test_a_record_that_a_client_wrote_is_none() -> None:
    """A body may hold what looks like a record; it does not know the salt."""
    file = made([[100]])
    forged, _ = encode_record(
        1, 9, 0, Changes([(TopicId(1), position(1, 9), [b"forged"])]), SALT + 1
    )
    file.data[file.offsets[0] + 64 : file.offsets[0] + 64 + len(forged)] = forged
    assert numbers(file.read()) == []


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_file_of_another_time_is_noticed(epoch: int) -> None:
    file = made([[10], [10, 10]])
    stale = bytes(file.data)
    file.state = replace(file.state, epoch=epoch, number=3)
    assert file.read(stale).is_damaged
    file.state = replace(file.state, epoch=1, salt=SALT + 1, head_checksum=9)
    assert file.read(stale).is_damaged


def test_what_nobody_wants_is_not_read(tmp_path: Path) -> None:
    assert read_journal(tmp_path, JournalState()) == Reading()
    (tmp_path / JOURNAL_NAME).write_bytes(b"anything")
    assert read_journal(tmp_path, JournalState()) == Reading()


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    (fault,) = read_journal(tmp_path, File(41).state).faults
    assert fault.is_certain
    assert str(fault) == (
        "the journal is missing: what it held behind record 41, if anything, is lost"
    )


def test_an_empty_file_is_said(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_NAME).touch()
    found = read_journal(tmp_path, File(41).state)
    assert [each.kind for each in found.faults] == [FaultKind.SHORT, FaultKind.UNREADABLE]


def test_sectors_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    file = made([[3_000] * 6])
    path = tmp_path / JOURNAL_NAME
    path.write_bytes(file.data)
    real = os.pread

    def refused(self: Path) -> bytes:
        raise OSError(errno.EIO, "unreadable")

    def pread(fd: int, size: int, at: int) -> bytes:
        if at <= file.offsets[2] < at + size:
            raise OSError(errno.EIO, "unreadable")
        return real(fd, size, at)

    with patch.object(Path, "read_bytes", refused), patch.object(os, "pread", pread):
        found = read_journal(tmp_path, file.state)
    assert 3 not in numbers(found)
    assert {1, 5, 6} <= set(numbers(found))
    assert found.is_damaged


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    file = made([[10, 20, 30]])
    write_file(tmp_path, file.state, file.read().records)
    found = read_journal(tmp_path, file.state)
    assert found.is_sound
    assert numbers(found) == [1, 2, 3]
    assert found.data == bytes(file.data)
    assert isinstance(found.records[0], CommitRecord)


def test_a_file_is_made_of_single_pages(tmp_path: Path) -> None:
    # Or each later write makes the whole file dirty in the cache of the system.
    file = made([[10]])
    sizes: list[int] = []

    def pwrite(fd: int, data: memoryview, at: int) -> int:
        sizes.append(len(data))
        return real(fd, data, at)

    real = os.pwrite
    with patch.object(os, "pwrite", pwrite):
        write_file(tmp_path, file.state)
    assert set(sizes) == {PAGE_BYTES}
    assert sum(sizes) == JOURNAL_BYTES
