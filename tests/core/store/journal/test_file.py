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

from arneb_core.api.entries.position import position_at
from arneb_core.store.commit.journal import RECORD_BYTES_MAX, Journal
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import HEADER, STAMP_BYTES, CommitRecord
from arneb_core.store.format.records import JournalLayout, JournalState
from arneb_core.store.format.schema import TopicId
from arneb_core.store.journal import writing as journal_writing
from arneb_core.store.journal.file import (
    Fault,
    FaultKind,
    Reading,
    parse_journal,
    read_journal,
)
from arneb_core.store.journal.record import BLOCK_BYTES, in_blocks, stamps_of
from arneb_core.store.journal.slots import SLOT_BYTES, in_slots
from arneb_core.store.journal.writing import (
    JOURNAL_BYTES,
    JOURNAL_NAME,
    OpenJournal,
    whole_file,
    write_file,
)

SIZES = st.lists(st.integers(0, 700) | st.integers(3_900, 13_000), max_size=8)
SALT = 77
BODIES = [b"\0", b"\xff", b"x", b"message "]


class InMemory(OpenJournal):
    """The journal's file, in memory, and each write into it by itself."""

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.writes: list[tuple[int, bytes]] = []
        self._stamps = bytearray(stamps_of(data))
        self._view = memoryview(bytearray(RECORD_BYTES_MAX))
        self._buffer = self._view.obj  # type: ignore[assignment]
        self._fd, self.is_direct, self.is_refused = -1, True, False

    def pwrite(self, _: int, data: memoryview, at: int) -> None:
        assert at % BLOCK_BYTES == len(data) % BLOCK_BYTES == 0
        self.data[at : at + len(data)] = data
        self.writes.append((at, bytes(data)))

    def close(self) -> None:
        pass


class File:
    """A journal file in memory, written by a broker's own journal."""

    unit = BLOCK_BYTES
    mark_bytes = STAMP_BYTES

    def __init__(self, number: int = 0) -> None:
        self.state = JournalState(1, SALT, number, 5, number + 1, in_use=True)
        self.offsets: list[int] = []
        """Where each record of this round begins, and where its bytes end."""
        self.ends: list[int] = []
        self.numbers: list[int] = []
        self.begin()

    def begin(self) -> None:
        self._file = InMemory(whole_file(self.state))
        self._journal = Journal(Path(), self.state, self.read())
        self._journal._file = self._file
        self._journal.taken_over(self.state)  # as a process that goes on has to be
        self._due: JournalState | None = None

    @property
    def data(self) -> bytearray:
        return self._file.data

    @property
    def end(self) -> int:
        """Where the next record belongs."""
        return self._journal._offset

    def append(self, size: int, body: bytes = b"\0") -> list[tuple[int, bytes]]:
        """A record; the writes that were made."""
        number, offset = self._journal.number + 1, self.end
        changes = Changes([(TopicId(1), position_at(1, number), [(body * (size + 1))[:size]])])
        self._file.writes = []
        with patch.object(journal_writing, "write_at", self._file.pwrite):
            self._journal.append(changes)
        if self._due is not None:  # it came beside a takeover
            self._journal.taken_over(self._due)
            self.state, self._due = self._due, None
        self.offsets.append(offset)
        self.ends.append(offset + 32 + HEADER.unpack_from(self.data, offset)[-1])
        self.numbers.append(number)
        return self._file.writes

    def take_over(self, *, goes_on: bool = False) -> None:
        """LMDB has everything; the next round begins at the start, or goes on behind what LMDB
        has, because some of it came while that was taken over."""
        due = self._journal.due
        self.offsets, self.ends, self.numbers = [], [], []
        if due is None:
            return
        if goes_on:
            self._due = due
        else:
            self._journal.taken_over(due)
            self.state = due

    def read(self, data: bytes | None = None) -> Reading:
        return parse_journal(bytes(self.data) if data is None else data, self.state)


class Slots(File):
    """One of the layout before, written as a broker wrote it."""

    unit = mark_bytes = SLOT_BYTES

    def begin(self) -> None:
        self.state = replace(self.state, layout=JournalLayout.SLOTS)
        self._data = whole_file(self.state)
        self._checksum, self._end = self.state.checksum, 0
        self._head = self._head_checksum = 0

    @property
    def data(self) -> bytearray:
        return self._data

    @property
    def end(self) -> int:
        return self._end

    def append(self, size: int, body: bytes = b"\0") -> list[tuple[int, bytes]]:
        number = (self.numbers[-1] if self.numbers else self.state.number) + 1
        changes = Changes([(TopicId(1), position_at(1, number), [(body * (size + 1))[:size]])])
        made, self._checksum = in_slots(1, number, self._checksum, SALT, changes, self.end)
        if not self.end:
            self._head, self._head_checksum = number, self._checksum
        at = self.end
        self.data[at : at + len(made)] = made
        self.offsets.append(at)
        self.numbers.append(number)
        self._end += len(made) - SLOT_BYTES
        self.ends.append(self._end)
        return [(at, made)]

    def take_over(self, *, goes_on: bool = False) -> None:
        if self.numbers:
            self.state = replace(
                self.state,
                number=self.numbers[-1],
                checksum=self._checksum,
                head=self._head,
                head_checksum=self._head_checksum,
            )
        self.offsets, self.ends, self.numbers = [], [], []
        self._end = self._end if goes_on else 0


def made(
    rounds: list[list[int]],
    *,
    goes_on: Sequence[bool] = (),
    body: bytes = b"\0",
    kind: type[File] = File,
) -> File:
    file = kind()
    for index, sizes in enumerate(rounds):
        if index:
            file.take_over(goes_on=bool(sizes) and any(goes_on[index - 1 : index]))
        for size in sizes:
            file.append(size, body)
    return file


def numbers(found: Reading) -> list[int]:
    return [each.number for each in found.records]


def files(sizes: st.SearchStrategy[list[int]]) -> st.SearchStrategy[File]:
    return st.builds(
        made,
        st.lists(sizes, min_size=1, max_size=4),
        goes_on=st.lists(st.booleans(), min_size=3, max_size=3),
        body=st.sampled_from(BODIES),
        kind=st.sampled_from([File, File, Slots]),
    )


FILES = files(SIZES)
FULL = files(SIZES.filter(bool))


@given(FILES)
def test_a_sound_file_gives_the_last_round_and_no_fault(file: File) -> None:
    found = file.read()
    assert numbers(found) == file.numbers
    assert not found.faults
    assert found.is_sound is (type(file) is File)  # of the layout before none is written on
    assert found.end == file.end


@given(FULL, st.data())
def test_a_damaged_record_is_lost_and_said_and_nothing_else_is(
    file: File, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(file.numbers) - 1))
    at = data.draw(st.integers(file.offsets[index], file.ends[index] - 1))
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
    high = data.draw(st.integers(low, file.end + file.mark_bytes - 1)) + 1
    filler = data.draw(st.sampled_from([b"\0", b"\xff", b"aRc\x01", b"aRc\x02"]))
    before = bytes(file.data)
    file.data[low:high] = (filler * (high - low))[: high - low]
    found = file.read()
    hit = [
        number
        for number, start, end in zip(file.numbers, file.offsets, file.ends, strict=True)
        if bytes(file.data[start:end]) != before[start:end]
    ]
    kept = numbers(found)
    assert set(file.numbers) - set(hit) <= set(kept) <= set(file.numbers)
    if kept != file.numbers:
        assert found.faults
        assert not found.is_sound


@pytest.mark.parametrize("kind", [File, Slots])
@pytest.mark.parametrize("first", [1, 20, 60, 100])
def test_what_followed_records_that_lmdb_has_is_not_erased_silently(
    first: int, kind: type[File]
) -> None:
    """From the body of the first of them on, all is zeros: what LMDB lacks as well."""
    file = made([[10, 10, 10], [10, 10]], goes_on=[True], kind=kind)
    file.data[first + 32 :] = bytes(JOURNAL_BYTES - first - 32)
    found = file.read()
    assert not found.records
    assert [str(file.numbers[0]) in str(fault) for fault in found.faults] == [True]
    assert not found.is_sound


@given(FULL, st.data())
def test_a_file_that_was_cut_off_is_noticed(file: File, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, JOURNAL_BYTES - 1) | st.integers(0, file.end + file.mark_bytes))
    found = file.read(bytes(file.data[:size]))
    assert (
        numbers(found)
        == [each for each, end in zip(file.numbers, file.ends, strict=True) if end <= size]
        or numbers(found) == file.numbers
    )
    assert found.faults[0].kind is FaultKind.SHORT
    assert found.is_damaged


@given(FILES, st.integers(0, 13_000), st.sampled_from(BODIES), st.data())
def test_a_power_cut_in_a_write_is_no_certain_damage(
    file: File, size: int, body: bytes, data: st.DataObject
) -> None:
    """The writes before it are there. Sectors of the one that was cut are there or not, in any
    order."""
    torn = bytearray(file.data)
    confirmed = list(file.numbers)
    writes = file.append(size, body)
    if len(file.numbers) != len(confirmed) + 1:
        confirmed = []  # it was the first beside a takeover
    last = data.draw(st.integers(0, len(writes) - 1))
    for at, written in writes[:last]:
        torn[at : at + len(written)] = written
    at, written = writes[last]
    sectors = range(at // 512, -(-(at + len(written)) // 512))
    after = bytearray(torn)
    after[at : at + len(written)] = written
    for sector in data.draw(st.lists(st.sampled_from(sectors), unique=True)):
        torn[sector * 512 : sector * 512 + 512] = after[sector * 512 : sector * 512 + 512]
    found = file.read(bytes(torn))
    assert numbers(found) in (confirmed, file.numbers)
    assert not found.is_damaged
    assert all(str(file.numbers[-1]) in str(fault) for fault in found.faults)


def test_a_long_record_over_old_ones_is_no_certain_damage_whatever_block_of_it_is_there() -> None:
    file = made([[100]])
    file.take_over()
    torn = bytearray(file.data)
    for at, written in file.append(9_000):
        for block in range(at, at + len(written), BLOCK_BYTES):
            one = bytearray(torn)
            one[block : block + BLOCK_BYTES] = written[block - at : block - at + BLOCK_BYTES]
            found = file.read(bytes(one))
            assert not found.is_damaged, f"the block at {block} alone"
            assert not found.records
        torn[at : at + len(written)] = written
    assert numbers(file.read(bytes(torn))) == [2]


def test_a_file_in_which_a_record_was_undone_is_sound_and_is_given_up() -> None:
    file = made([[10]])
    journal = file._journal
    changes = Changes([(TopicId(1), position_at(1, 2), [bytes(9_000)])])

    def failing(_: int, data: memoryview, at: int) -> None:
        file._file.pwrite(-1, data, at)
        raise OSError(errno.EIO, "told to fail")

    with patch.object(journal_writing, "write_at", failing), pytest.raises(OSError, match="told"):
        journal.append(changes)
    with patch.object(journal_writing, "write_at", file._file.pwrite):
        journal.erase()
    found = file.read()
    assert numbers(found) == [1]
    assert not found.faults
    assert not journal.is_ready  # nobody knows what else of that write is there
    assert journal.due is not None
    assert not journal.due.in_use


@pytest.mark.parametrize("left", [b"\0", b"\xff"])
def test_what_a_disk_leaves_of_a_sector_is_no_end(left: bytes) -> None:
    """Also where the same stood before: in the middle of a record of an earlier round."""
    file = made([[12_000], [10, 10]], body=left)
    assert numbers(file.read()) == [2, 3]
    file.data[BLOCK_BYTES : 2 * BLOCK_BYTES] = left * BLOCK_BYTES
    found = file.read()
    assert numbers(found) == [2]
    assert found.is_damaged


@given(FULL, st.integers(0, 13_000), st.sampled_from(BODIES))
def test_no_block_of_a_record_that_counts_is_written_again(
    file: File, size: int, body: bytes
) -> None:
    if type(file) is Slots:
        return
    kept = [
        (start, end, bytes(file.data[start:end]))
        for start, end in zip(file.offsets, file.ends, strict=True)
    ]
    writes = file.append(size, body)
    for start, end, before in kept:
        assert bytes(file.data[start:end]) == before
        assert all(at >= end or at + len(written) <= start for at, written in writes)


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
    run = Changes([(TopicId(1), position_at(1, 9), [b"forged"])])
    forged, _ = in_blocks(1, 9, 0, SALT + 1, run, BLOCK_BYTES, lambda _: b"anything")
    file.append(9_000)
    file.data[2 * BLOCK_BYTES : 2 * BLOCK_BYTES + len(forged)] = forged
    found = file.read()
    assert numbers(found) == [1]
    assert [str(each) for each in found.faults] == [str(made_cut_off(2))]


def made_cut_off(number: int) -> Fault:
    return Fault(
        FaultKind.CUT_OFF,
        f"record {number}; if it was confirmed, it is lost, and so is what came behind it",
    )


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_file_of_another_time_is_noticed(epoch: int) -> None:
    file = made([[10], [10, 10]])
    stale = bytes(file.data)
    file.state = replace(file.state, epoch=epoch, number=3)
    assert file.read(stale).is_damaged
    file.state = replace(file.state, epoch=1, salt=SALT + 1, head_checksum=9)
    assert file.read(stale).is_damaged


def test_what_is_not_needed_is_not_read(tmp_path: Path) -> None:
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
    real = os.preadv

    def preadv(fd: int, buffers: list[memoryview], at: int) -> int:
        if at <= file.offsets[2] < at + len(buffers[0]):
            raise OSError(errno.EIO, "unreadable")
        return real(fd, buffers, at)

    with patch.object(os, "preadv", preadv):
        found = read_journal(tmp_path, file.state)
    assert 3 not in numbers(found)
    assert {1, 5, 6} <= set(numbers(found))
    assert found.is_damaged


def test_a_journal_is_read_past_the_page_cache_where_that_goes(tmp_path: Path) -> None:
    file = made([[3_000] * 6])
    path = tmp_path / JOURNAL_NAME
    real, opened, asked = os.open, list[int](), list[int]()

    def opening(name: Path, flags: int, mode: int) -> int:
        opened.append(flags & os.O_DIRECT)
        return real(name, flags, mode)

    def refused(fd: int, buffers: list[memoryview], at: int) -> int:
        asked.append(fd)
        if len(asked) == 1:
            raise OSError(errno.EINVAL, "Invalid argument")
        return preadv(fd, buffers, at)

    preadv = os.preadv
    for data in (bytes(file.data), bytes(file.data[:5_000]), b""):
        path.write_bytes(data)
        asked.clear()
        opened.clear()
        with patch.object(os, "open", opening):
            assert read_journal(tmp_path, file.state).data == data
        assert all(opened)
        with patch.object(os, "open", opening), patch.object(os, "preadv", refused):
            assert read_journal(tmp_path, file.state).data == data
        assert [bool(each) for each in opened] == [True, True, False]


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    file = made([[10, 20, 30]])
    write_file(tmp_path, file.state, file.read().records)
    found = read_journal(tmp_path, file.state)
    assert found.is_sound
    assert numbers(found) == [1, 2, 3]
    assert found.data == bytes(file.data)
    assert isinstance(found.records[0], CommitRecord)


def test_a_copy_of_a_store_of_the_layout_before_is_laid_out_so(tmp_path: Path) -> None:
    file = made([[10, 20, 9_000]], kind=Slots)
    write_file(tmp_path, file.state, file.read().records)
    found = read_journal(tmp_path, file.state)
    assert numbers(found) == [1, 2, 3]
    assert found.data == bytes(file.data)
    assert not found.is_sound


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
    assert set(sizes) == {BLOCK_BYTES}
    assert sum(sizes) == JOURNAL_BYTES
