"""Readers: who reads the store, since when, and what that costs.

The rule: a read transaction keeps every page freed since it began from being reused, so the data
file grows as long as it is open. Long readers are named, with the bytes they hold; a reader of ours
that exceeds the limit while the broker needs pages is told to start over or fail, in the file
:data:`ASKED_NAME`. The broker cannot end another process's transaction; only whoever runs that
process can.

LMDB's table of readers has no times: the age of a reader is how long it has been seen with the same
transaction.
"""

import json
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from arneb_core.api.errors import StoreUnusable
from arneb_core.api.statistics import READER_LIMIT_S, LongReader
from arneb_core.store.data_file.meta_pages import newest, read_metas
from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.data_file.page_release import PageRelease
from arneb_core.store.data_file.page_walk import pages_given_up_since
from arneb_core.store.data_file.pages import PageFile

ASKED_NAME: Final = "arneb.readers"
"""The readers that were told, as a list of [process, transaction]."""

LONG_S: Final = 10.0
"""Readers older than this are shown; a batch takes far less."""

HELD_BYTES_MIN: Final = 16 << 20
"""Below this nobody is told: reading a store that hardly changes may take any time."""

ASK_EVERY_S: Final = 0.5
ASK_EVERY_READS: Final = 64
"""How often a reader checks whether it was told, whichever is rarer."""


class _Slot(NamedTuple):
    """One row of LMDB's table of readers."""

    pid: int
    thread: str
    transaction: int


class ReaderWatch:
    """Looks at the readers of one store from time to time; in one thread at a time."""

    def __init__(
        self,
        directory: Path,
        table: Callable[[], str],
        *,
        limit_s: float = READER_LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``table`` returns LMDB's printed table of readers."""
        self._directory = directory
        self._table = table
        self.limit_s = limit_s
        self._clock = clock
        self._since: dict[_Slot, float] = {}
        self._reported: list[list[int]] = []
        self.long: tuple[LongReader, ...] = ()
        """Long readers, the oldest first."""
        with suppress(OSError):  # readers that an earlier broker asked to end
            (directory / ASKED_NAME).unlink()

    def __repr__(self) -> str:
        return f"<ReaderWatch {len(self._since)} reading, {len(self.long)} for long>"

    def look(self) -> list[LongReader]:
        """Look at the readers, ask those beyond the limit to end, and return those newly asked.

        Raises :class:`OSError`, and :class:`StoreUnusable` when the file is damaged.
        """
        now = self._clock()
        slots = parse_readers(self._table())
        self._since = {slot: self._since.get(slot, now) for slot in slots}
        old = sorted(
            (slot for slot in slots if now - self._since[slot] >= min(LONG_S, self.limit_s)),
            key=lambda slot: slot.transaction,
        )
        held = _held_bytes(self._directory, {slot.transaction for slot in old}) if old else {}
        self.long = tuple(
            LongReader(slot.pid, slot.transaction, now - self._since[slot], held[slot.transaction])
            for slot in old
        )
        late = [
            reader
            for reader in self.long
            if reader.age_s >= self.limit_s and reader.held_bytes >= HELD_BYTES_MIN
        ]
        reported = [[reader.pid, reader.transaction] for reader in late]
        fresh = [each for each in late if [each.pid, each.transaction] not in self._reported]
        if reported != self._reported:
            self._write(reported)
            self._reported = reported
        return fresh

    def close(self) -> None:
        """No longer ask any reader to end."""
        with suppress(OSError):
            self._write([])

    def _write(self, reported: list[list[int]]) -> None:
        file = self._directory / ASKED_NAME
        if not reported:
            file.unlink(missing_ok=True)
            return
        made = file.with_suffix(".new")
        made.write_text(json.dumps(reported))
        os.replace(made, file)


class WatchedReading(PageRelease):
    """The read counter of a snapshot outside the broker's process: it checks from time to time
    whether the broker told it to end."""

    def __init__(self, page_release: PageRelease, directory: Path, transaction: int) -> None:
        self._inner = page_release
        self._file = directory / ASKED_NAME
        self._me = [os.getpid(), transaction]
        self._reads = 0
        self._asked = time.monotonic()

    def __repr__(self) -> str:
        return f"<WatchedReading {self._me}, {self._reads} reads>"

    def read(self, size: int) -> None:
        """Count as :meth:`.PageRelease.read`. Raises :class:`AskedToEnd`."""
        self._inner.read(size)
        self._reads += 1
        if self._reads % ASK_EVERY_READS == 0 and time.monotonic() - self._asked >= ASK_EVERY_S:
            self._asked = time.monotonic()
            if was_asked_to_end(self._file, self._me):
                raise AskedToEnd(
                    "reading took so long that the broker asked for its pages back "
                    "(store.reader_limit_s): read again, or read a copy"
                )

    def forget(self) -> None:
        self._inner.forget()


class AskedToEnd(StoreUnusable):
    """The broker needs the pages that a snapshot keeps."""


def was_asked_to_end(file: Path, me: list[int]) -> bool:
    """Whether ``me``, a process and a transaction, is among those asked to end."""
    try:
        return me in json.loads(file.read_text())
    except (OSError, ValueError, TypeError):
        return False  # nobody was told, or the file is being written


def parse_readers(table: str) -> list[_Slot]:
    """Parse LMDB's printed table into the readers that are reading."""
    found = []
    for line in table.splitlines()[1:]:
        with suppress(ValueError):  # "-": a kept slot whose owner reads nothing now
            pid, thread, transaction = line.split()
            found.append(_Slot(int(pid), thread, int(transaction)))
    return found


def _held_bytes(directory: Path, transactions: Collection[int]) -> dict[int, int]:
    """Return the bytes freed since each of these transactions, as far as the free list can be read:
    what is newer than the transaction is held."""
    with PageFile(directory / DATA_NAME) as file:
        meta = newest(read_metas(file), file.path)
        pages = pages_given_up_since(file, meta.free, meta.last_page, transactions)
        return {transaction: count * file.page_bytes for transaction, count in pages.items()}
