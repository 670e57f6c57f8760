"""The journal reader: what LMDB lacks of the journal, read beside a broker in another process.

The rule: it reads the state of one instant, although the broker overwrites the journal from its
start once LMDB has taken it over, and may just be writing a record; and it always
reports damage.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from arneb_core.api.errors import StoreUnusable
from arneb_core.store.format.records import JournalState
from arneb_core.store.format.schema import META_CLEAN, META_JOURNAL
from arneb_core.store.journal.file import Fault, Reading, missing, parse_journal
from arneb_core.store.journal.file_bytes import bytes_of
from arneb_core.store.journal.record import BLOCK_BYTES
from arneb_core.store.journal.writing import JOURNAL_NAME

JOURNAL_TRIES: Final = 100
"""Between two takeovers, at most one in 50 ms, only what came since the last one must be read: it
was written in that time, record by record, and is read in much less."""

FIRST_BYTES: Final = 256 << 10
"""Bytes of it read at first, doubled until its end is there."""

FAULT_TRIES: Final = 5
FAULT_WAIT_S: Final = 0.01
"""A fault that disappears in this time was a record that the broker was just writing."""

logger = logging.getLogger(__name__)


class JournalReader:
    """The journal of a directory that another process has locked."""

    def __init__(self, directory: Path, meta: Callable[[bytes], bytes | None]) -> None:
        """``meta`` reads a row of META as it is now."""
        self._directory = directory
        self._meta = meta
        self._warned_of: tuple[Fault, ...] = ()

    def __repr__(self) -> str:
        return f"<JournalReader {self._directory}>"

    def read(self) -> Reading:
        """Return what LMDB lacked a moment ago, and what is wrong with the journal. Raises
        :class:`StoreUnusable` when it cannot be read at all."""
        faulty, epoch, early = 0, -1, b""
        for _ in range(JOURNAL_TRIES):
            state = self._state()
            try:
                if state.in_use and state.epoch != epoch:
                    # The whole file, however long that takes: for what is after the last record.
                    epoch, early = state.epoch, self._bytes()
                    state = self._state()
                found = self._found(state, early)
            except FileNotFoundError:
                epoch, found = -1, missing(state)
            except (OSError, ValueError) as error:
                raise StoreUnusable(f"cannot read the journal: {error}") from error
            if self._state() != state or (state.in_use and epoch not in (-1, state.epoch)):
                continue
            if not found.faults:
                return found
            faulty += 1
            if faulty == FAULT_TRIES:
                return found
            time.sleep(FAULT_WAIT_S)
        raise StoreUnusable(f"the journal changed {JOURNAL_TRIES} times while it was read")

    def read_whole(self) -> Reading:
        """Do as :meth:`read`, but raise :class:`StoreUnusable` on damage; log once what may be
        none."""
        found = self.read()
        if found.is_damaged:
            what = "; ".join(map(str, found.faults))
            raise StoreUnusable(
                f"cannot read all of the store in {self._directory}: {what} (the broker keeps "
                "the damaged file aside at its next start and serves what is whole)"
            )
        if self._warned_of != found.faults:
            self._warned_of = found.faults
            for fault in found.faults:
                logger.warning("%s: %s", self._directory, fault)
        return found

    def _bytes(self, early: bytes = b"", up_to: int | None = None) -> bytes:
        return bytes_of(self._directory / JOURNAL_NAME, early, up_to)

    def _found(self, state: JournalState, early: bytes) -> Reading:
        """Return what LMDB lacked in ``state``, if that stays so meanwhile. A disk of 80 MB/s reads
        the whole file no faster than a busy broker takes it over; so only the part with records is
        read now, up to where the next one would begin. The part after was read ``early``: a record
        there that does not follow from these was lost, now as then."""
        if not state.in_use:
            return Reading()
        size, data = FIRST_BYTES, early
        while True:
            data = self._bytes(data, size)
            found = parse_journal(data, state)
            is_all = not found.faults and found.reached + BLOCK_BYTES <= size
            if is_all or size >= len(data):
                return found
            size *= 2

    def _state(self) -> JournalState:
        state = JournalState.unpack(self._meta(META_JOURNAL))
        # A broker that stopped cleanly left nothing in the journal.
        is_clean = self._meta(META_CLEAN) is not None
        return replace(state, in_use=False) if is_clean else state
