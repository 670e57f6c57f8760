"""The journal: small commits that are on disk already and in LMDB a moment later.

The rule: a commit counts once its record is on disk here, and it stays in memory and in this file
until a commit of LMDB has taken it over. An LMDB commit flushes twice (its pages, then the page
that makes them count); a journal record is one synchronous write past the page cache, into a file
that has all its blocks already: a third of the time. Why that is worth a second file:
docs/decisions/0010-tiny-commits-go-to-a-journal.md.

Records (:mod:`.journal.record`) follow each other from the start of the file. After a takeover the
next one is written at the start again, unless more were written during it (:mod:`.beside`): then
the records that LMDB lacks follow those that it has. LMDB keeps the number of the last record that
it has taken over, so older records after the newest are recognised by their numbers;
:mod:`.journal.file` explains how damage is distinguished from the end.

A file is good for one *epoch*: as long as every write to it has succeeded and all of it was read
back. After that LMDB first records that the journal is not in use, then the file is rewritten,
and then LMDB records the new epoch, so that a crash in between leaves nothing to be missed.
"""

import logging
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import CommitRecord
from arneb_core.store.format.records import JournalLayout, JournalState
from arneb_core.store.journal.file import Reading
from arneb_core.store.journal.overlay import can_be_laid_over, rows_of
from arneb_core.store.journal.reconciliation import Gap, Reconciliation
from arneb_core.store.journal.record import (
    BLOCK_BYTES,
    WEAK,
    blank,
    end_of_block,
    in_blocks,
    mark,
    stamp_behind,
    stamps_of,
)
from arneb_core.store.journal.writing import JOURNAL_BYTES, OpenJournal, write_file

RUNS_MAX: Final = 512
"""Runs pending at most. More would make takeovers longer, and readers' overlays larger."""

ROWS_MAX: Final = 128
"""Rows pending at most: each costs a takeover some pages, a run only part of one."""

RUN_BYTES_MAX: Final = 448 * 1024
"""Bytes of entries and rows in one record: more gain nothing, since writing them takes longer than
the flush that is saved."""

AROUND_BYTES_MAX: Final = 224 * 1024
"""Bytes around that many entries and rows; empty bodies do not deserve a larger record."""

RECORD_BYTES_MAX: Final = RUN_BYTES_MAX + AROUND_BYTES_MAX

USED_BYTES_MAX: Final = RUNS_MAX * BLOCK_BYTES + AROUND_BYTES_MAX
"""Of the file's 4 MiB, which is the size that stores have: so many small runs, a block each. Its
records are in memory until they are taken over, and a second time in the pages of that commit: with
all of the file, a busy broker needs 5 MiB more and is no faster."""


logger = logging.getLogger(__name__)

NOTHING_FOUND: Final = Reading()


class Journal:
    """The journal of one open store. It belongs to the committing thread; others may only copy
    :attr:`pending`."""

    def __init__(
        self,
        directory: Path,
        state: JournalState,
        found: Reading = NOTHING_FOUND,
        reconciled: Reconciliation | None = None,
    ) -> None:
        """``state``: what LMDB knows. ``reconciled``: the records of ``found`` that have a place,
        and what must be committed with them to record what is missing."""
        self._directory = directory
        self.state = state
        self.pending = list(found.records) if reconciled is None else reconciled.records
        """Records that LMDB lacks, oldest first."""
        self.gaps: tuple[Gap, ...] = () if reconciled is None else tuple(reconciled.gaps)
        """Gaps between these that are not rows yet."""
        self._runs, self._rows = _counted(self.pending)
        self._repairs = None if reconciled is None else reconciled.repairs
        last = found.records[-1] if found.records else None
        self._number = last.number if last else state.number
        self._checksum = last.checksum if last else state.checksum
        self._offset = found.end
        # The record with which the file begins, and its checksum.
        self._head, self._head_checksum = state.head, state.head_checksum
        if found.records and not found.passed_over:
            first = found.records[0]
            self._head, self._head_checksum = first.number, first.checksum
        self._file: OpenJournal | None = None
        self._directly = True
        self._is_sound = found.is_sound
        self._stamps = stamps_of(found.data) if found.is_sound else b""
        """Stamps of the file's blocks, until it is opened."""
        # What was found is taken over before it is overwritten.
        self._usable = False
        self._is_hearsay = state.in_use
        """LMDB's state of the file was read, not written, by this process. If the disk failed in
        the commit that wrote it, it may be only in the kernel's cache, and after a power cut older
        records would count: they must not be overwritten before."""
        self.is_in_doubt = False
        """A record that was not accepted may be in the file all the same."""
        self._fresh: JournalState | None = None
        self.is_wanted = False
        """The journal should be ready, or be prepared again."""

    def __repr__(self) -> str:
        state = "usable" if self._usable else "in doubt" if self.is_in_doubt else "not usable"
        return f"<Journal {state}, {len(self.pending)} pending, last {self._number}>"

    @property
    def number(self) -> int:
        """The number of the last record, even if it was only begun."""
        return self._number

    @property
    def late(self) -> list[Changes]:
        """The changes that a takeover commits."""
        repairs = [] if self._repairs is None else [self._repairs]
        return repairs + [each.changes for each in self.pending]

    @property
    def due(self) -> JournalState | None:
        """What LMDB must be told with its next commit: that it has all of :attr:`late`, that failed
        records do not count, that a new file is in use, or, at a process's first commit, what it
        already knows. None: nothing."""
        if self._fresh is not None:
            return self._fresh
        state = self.state
        given_up = state.in_use and not self._is_sound
        behind = self._number > state.number  # records without a place are not pending
        repaired = self.pending or self._repairs
        if not (repaired or self.is_in_doubt or given_up or behind or self._is_hearsay):
            return None
        return replace(
            state,
            number=self._number,
            checksum=self._checksum,
            head=self._head,
            head_checksum=self._head_checksum,
            in_use=state.in_use and self._is_sound,
        )

    def taken_over(self, state: JournalState) -> None:
        """Note that LMDB durably has ``state``, which was :attr:`due`, and all that was
        :attr:`late` then. Later records stay."""
        self.state = state
        self._is_hearsay = False
        # A new list, so that a concurrent copy of the old one is whole.
        self.pending = [each for each in self.pending if each.number > state.number]
        self._runs, self._rows = _counted(self.pending)
        self.gaps = ()
        self._repairs = None
        if self._fresh is not None:
            self._fresh = None
            self._head, self._head_checksum = state.head, state.head_checksum
        if self._number > state.number:
            return  # the journal may still be in doubt, or unusable
        self._offset = 0
        self.is_in_doubt = False
        self._usable = state.in_use and self._file is not None

    @property
    def is_ready(self) -> bool:
        """Whether it takes records, if they are small and there is room."""
        return self._usable

    def takes(self, changes: Changes) -> bool:
        """Whether this commit can go here now, as one record."""
        runs = changes.blocks
        if not (self._usable and self._runs + len(runs) <= RUNS_MAX):
            return False
        size = sum([sum(map(len, each[2])) for each in runs])
        if not changes.is_plain:
            if not can_be_laid_over(changes) or self._rows + _rows_in(changes) > ROWS_MAX:
                return False
            size += sum([len(key) + len(value or b"") for _, key, value in rows_of(changes)])
        # At least one block must remain after it.
        has_room = self._offset + size + AROUND_BYTES_MAX < USED_BYTES_MAX
        return has_room and size <= RUN_BYTES_MAX

    def prepare(self) -> None:
        """Prepare the file, as far as possible without LMDB: if something is :attr:`due`
        afterwards, it is ready once LMDB has been told. Raises :class:`OSError`."""
        self.is_wanted = True
        if self._usable or self._fresh is not None or self.due is not None:
            return
        if self.state.in_use:
            if self._file is None:
                self._file = self._opened(self._stamps)
            self._usable = True
            return
        fresh = replace(
            self.state,
            epoch=self.state.epoch + 1,
            salt=secrets.randbits(32),
            head=self._number + 1,
            head_checksum=0,
            in_use=True,
            layout=JournalLayout.BLOCKS,
        )
        self.close()
        self._file = self._opened(write_file(self._directory, fresh))
        self._is_sound = True
        self._fresh = fresh

    def _opened(self, stamps: bytes) -> OpenJournal:
        file = OpenJournal(self._directory, stamps, RECORD_BYTES_MAX, directly=self._directly)
        if not file.is_direct:
            logger.info("%s: this file system cannot be written past the page cache", file)
        return file

    @property
    def is_direct(self) -> bool | None:
        """Whether it is written past the page cache. None: it has not been written yet."""
        return None if self._file is None else self._file.is_direct

    def append(self, changes: Changes) -> int:
        """Put a record on disk; return its size in bytes. Blocks until it is there.

        Raises :class:`OSError`; then the journal is in doubt, until :meth:`erase` or a takeover has
        made sure that a record which got there all the same does not count.
        """
        assert self._usable, f"expected a journal that takes records, got {self!r}"
        assert changes.is_plain or can_be_laid_over(changes), (
            "expected what snapshots can lay over LMDB, got more"
        )
        file = self._file
        assert file is not None
        state, number, offset = self.state, self._number + 1, self._offset
        data, checksum = in_blocks(
            state.epoch, number, self._checksum, state.salt, changes, offset, file.stamp_at
        )
        end = end_of_block(offset + len(data))
        assert end < JOURNAL_BYTES, f"{len(data)} bytes are too many"
        self._number = number
        self._usable = self._is_sound = False
        self.is_in_doubt = True
        try:
            if stamp_behind(data) in WEAK:
                file.write(blank(state.epoch, end), end)
                data, checksum = in_blocks(
                    state.epoch, number, self._checksum, state.salt, changes, offset, file.stamp_at
                )
            if not offset and len(data) > BLOCK_BYTES:
                # This overwrites records that LMDB has. Their first block must not outlive those
                # after it: after a power cut it would look as if more had been there.
                file.write(data[:BLOCK_BYTES], 0)
            file.write(data, offset)
        except OSError:
            self._directly = self._directly and not file.is_refused
            raise
        self._usable = self._is_sound = True
        self.is_in_doubt = False
        if not offset:
            self._head, self._head_checksum = number, checksum
        record = CommitRecord(state.epoch, number, self._checksum, changes, checksum)
        self._checksum = checksum
        self._offset = end
        self.pending.append(record)
        self._runs += len(changes.blocks)
        if not changes.is_plain:
            self._rows += _rows_in(changes)
        return end - offset

    def erase(self) -> None:
        """Make sure, by a write, that the record in doubt is not there. The write's other effects
        are unknown, so the file is given up. Raises :class:`OSError`."""
        assert self.is_in_doubt, f"expected a record in doubt, got {self!r}"
        assert self._file is not None
        data = mark(self.state.epoch, self._number, self._checksum, self.state.salt)
        self._file.write(data, self._offset)
        self._number -= 1
        self.is_in_doubt = False

    def close(self) -> None:
        """Close the file. Whoever opens it next finds what is pending."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._usable = False


def _counted(records: Iterable[CommitRecord]) -> tuple[int, int]:
    """Count the runs and rows in ``records``."""
    runs = rows = 0
    for each in records:
        runs += len(each.changes.blocks)
        rows += _rows_in(each.changes)
    return runs, rows


def _rows_in(changes: Changes) -> int:
    return len(changes.puts) + len(changes.deletes)
