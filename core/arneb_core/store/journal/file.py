"""The journal's file: what a start finds there.

The rule: nothing missing or damaged goes unnoticed. A record says what followed it when it was
written, which the next record overwrites. So where the records end there is either that, or a
record that was cut off; anything else is damage, and so is a whole record of a later number further
on. In a new file, and where a record was undone, there is a *mark*, which names the next number.
LMDB knows the record with which the file begins (:class:`.records.JournalState`), so a file that is
missing, empty, shorter, of another time or of another store is noticed too. Only a file whose last
records are, byte for byte, what was there before they were written goes unnoticed.
:mod:`.journal.record` has the layout of a record, and :mod:`.journal.slots` the former layout, in
which a mark follows every record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from arneb_core.store.format.commit_record import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAGIC_WITH_STAMP,
    STAMP_BYTES,
    CommitRecord,
    parse_record,
    stamp_in,
    unseal,
)
from arneb_core.store.format.records import JournalLayout, JournalState
from arneb_core.store.journal.file_bytes import bytes_of
from arneb_core.store.journal.record import BLOCK_BYTES, MARK_MAGIC
from arneb_core.store.journal.slots import SLOT_BYTES
from arneb_core.store.journal.writing import JOURNAL_BYTES, JOURNAL_NAME

JOURNAL_BYTES_BEFORE: Final = 1 << 20
"""Size until 2026-11-23. The records of such a file are taken over; then it is rewritten."""


class FaultKind(Enum):
    """The kinds of damage to a journal."""

    MISSING = "is missing"
    SHORT = "has the wrong size"
    LOST = "lacks records"
    UNREADABLE = "is damaged"
    FOREIGN = "does not fit together"
    CUT_OFF = "ends with a record that is cut off or damaged, which cannot be told apart"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a journal."""

    kind: FaultKind
    detail: str

    @property
    def is_certain(self) -> bool:
        """Whether something is surely damaged. A power cut can leave a cut-off record, of a write
        that nobody was told of."""
        return self.kind is not FaultKind.CUT_OFF

    def __str__(self) -> str:
        return f"the journal {self.kind.value}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a journal file holds that LMDB does not."""

    records: tuple[CommitRecord, ...] = ()
    """Oldest first; there may be faults between them."""
    faults: tuple[Fault, ...] = ()
    is_sound: bool = False
    """The file may be written to as it is."""
    end: int = 0
    """Where the next record belongs, if the file is sound."""
    passed_over: bool = False
    """Records that LMDB has come before these."""
    data: bytes = b""
    """The bytes of the file."""
    reached: int = 0
    """Where the next record would be, which is not here."""

    @property
    def is_damaged(self) -> bool:
        return any(each.is_certain for each in self.faults)


def read_journal(directory: Path, state: JournalState) -> Reading:
    """Return what the file in ``directory`` holds after ``state``; nothing if that uses no file.

    Raises :class:`OSError` when the file exists and cannot be opened.
    """
    if not state.in_use:
        return Reading()
    try:
        data = bytes_of(directory / JOURNAL_NAME)
    except FileNotFoundError:
        return missing(state)
    return parse_journal(data, state)


def missing(state: JournalState) -> Reading:
    """Return the reading for a file that ``state`` uses and that is missing."""
    lost = f"what it held behind record {state.number}, if anything, is lost"
    return Reading(faults=(Fault(FaultKind.MISSING, lost),))


def parse_journal(data: bytes, state: JournalState) -> Reading:
    """Return what ``data``, a whole file, holds after ``state``."""
    walk = _Walk(data, state)
    walk.go()
    sound = walk.is_sound and not walk.faults and state.layout is JournalLayout.BLOCKS
    return Reading(
        tuple(walk.records), tuple(walk.faults), sound, walk.offset, walk.passed_over, data,
        walk.reached,
    )  # fmt: skip


class _Walk:
    """The walk over the records, from the start of the file."""

    def __init__(self, data: bytes, state: JournalState) -> None:
        self.data = data
        self.state = state
        self.records: list[CommitRecord] = []
        self.faults: list[Fault] = []
        self.offset = 0
        self.number = state.number
        self.checksum = state.checksum
        self.stamp: bytes | None = None
        """What was here before, as the previous record says."""
        self.is_sound = True
        self.passed_over = False
        self.reached = 0
        in_blocks = state.layout is JournalLayout.BLOCKS
        self.magic = MAGIC_WITH_STAMP if in_blocks else MAGIC
        self.step = BLOCK_BYTES if in_blocks else SLOT_BYTES
        """Records begin at multiples of this."""
        self.sizes = (JOURNAL_BYTES,) if in_blocks else (JOURNAL_BYTES, JOURNAL_BYTES_BEFORE)

    def go(self) -> None:
        if len(self.data) not in self.sizes:
            sizes = f"expected {JOURNAL_BYTES} bytes, got {len(self.data)}"
            self.faults.append(Fault(FaultKind.SHORT, sizes))
        self._pass_over()
        self._walk()
        self.reached = self.offset
        if self.passed_over and not (self.records or self.faults):
            self.passed_over, self.offset = False, 0  # the next record may be written there

    def _walk(self) -> None:
        while True:
            if (found := self._record_at(self.offset)) is not None:
                record, end = found
                if record.number == self.number + 1 and record.before == self.checksum:
                    self._take(record, end)
                    continue
            ended = self._end()
            if (later := self._later()) is None:
                if ended is not None:
                    self.faults.append(ended)
                return
            self._jump(*later)

    def _pass_over(self) -> None:
        """Begin after the records that LMDB has, if all of them are there: records written during
        the takeover follow them."""
        state, offset, checksum = self.state, 0, self.state.head_checksum
        stamp = None
        for number in range(state.head, state.number + 1):
            if (found := self._record_at(offset)) is None:
                return
            record, end = found
            expected = record.checksum if number == state.head else record.before
            if (record.number, expected) != (number, checksum):
                return
            checksum = record.checksum
            offset, stamp = self._cut_after(end)
        if offset and checksum == state.checksum:
            self.passed_over, self.offset, self.stamp = True, offset, stamp

    def _take(self, record: CommitRecord, end: int) -> None:
        self.records.append(record)
        self.number, self.checksum = record.number, record.checksum
        self.offset, self.stamp = self._cut_after(end)

    def _cut_after(self, end: int) -> tuple[int, bytes | None]:
        """Return where the record after one that ends at ``end`` belongs, and what was there."""
        stamp = stamp_in(self.data, end) if self.step == BLOCK_BYTES else None
        return end + -end % self.step, stamp

    def _jump(self, record: CommitRecord, end: int) -> None:
        """Continue with a record that does not follow the previous one."""
        first, last = self.number + 1, record.number - 1
        if first > last:
            out = f"record {record.number} is whole, and not where or behind what it should be"
            self.faults.append(Fault(FaultKind.FOREIGN, out))
        else:
            which = f"record {first} is" if first == last else f"records {first} to {last} are"
            self.faults.append(Fault(FaultKind.LOST, f"{which} lost"))
        self._take(record, end)

    def _end(self) -> Fault | None:
        """Return what is wrong where no record follows; None when the records may end here."""
        state, number = self.state, self.number + 1
        found = unseal(MARK_MAGIC, self.data, self.offset, state.salt)
        if found is not None and found[1:4] == (state.epoch, number, self.checksum):
            return None
        if self.stamp is not None and self._stands(self.stamp):
            return None
        header = self._header_at(self.offset)
        head = (self.magic, state.head_checksum, state.epoch, state.head)
        if self.offset == 0 and state.head < number and header == head:
            # Records that were taken over are partly gone: an unconfirmed record was being written
            # over them, or they are damaged, and perhaps those after them.
            return self._cut_off(number)
        if header is not None and (header[0], *header[2:]) == (
            self.magic,
            state.epoch,
            number,
        ):
            return self._cut_off(number)
        return Fault(
            FaultKind.UNREADABLE,
            f"expected record {number} or the end at byte {self.offset}, got neither; "
            "what was there from that record on, if anything, is lost",
        )

    def _stands(self, stamp: bytes) -> bool:
        return self.data[self.offset : self.offset + STAMP_BYTES] == stamp

    @staticmethod
    def _cut_off(number: int) -> Fault:
        return Fault(
            FaultKind.CUT_OFF,
            f"record {number}; if it was confirmed, it is lost, and so is what came behind it",
        )

    def _later(self) -> tuple[CommitRecord, int] | None:
        """Return the next whole record from here on with a number still to come."""
        for offset in self._headers():
            header = self._header_at(offset)
            if header is None or header[2] != self.state.epoch or header[3] <= self.number:
                continue
            if (found := self._record_at(offset)) is not None:
                return found
        return None

    def _headers(self) -> Iterator[int]:
        """Yield where headers of records may be from here on."""
        at = self.data.find(self.magic, self.offset)
        while at >= 0:
            if at % self.step == 0:
                yield at
            at = self.data.find(self.magic, at + 1)

    def _header_at(self, offset: int) -> tuple[bytes, int, int, int] | None:
        """Return magic, checksum, epoch and number of a header, without checking it."""
        if offset + HEADER_BYTES > len(self.data):
            return None
        magic, checksum, epoch, number, _, _ = HEADER.unpack_from(self.data, offset)
        return magic, checksum, epoch, number

    def _record_at(self, offset: int) -> tuple[CommitRecord, int] | None:
        found = parse_record(self.data, offset, self.state.salt, self.magic)
        return None if found is None or found[0].epoch != self.state.epoch else found
