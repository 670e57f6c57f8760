"""The journal reader: what LMDB lacks of the journal, read beside a broker in another process.

The rule: it reads what is there at one instant, though the broker writes the journal from its
start again once LMDB has taken it over, and may be writing a record just now; and it is never
silent on damage.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from arneb_core.api.errors import StoreUnusable
from arneb_core.store.journal_file import Fault, Reading, read_journal
from arneb_core.store.records import JournalState
from arneb_core.store.schema import META_CLEAN, META_JOURNAL

JOURNAL_TRIES: Final = 100
"""Reading it past the page cache takes 12 ms on a disk that reads 350 MB/s, and a broker takes over
no more often than every 50."""

FAULT_TRIES: Final = 5
FAULT_WAIT_S: Final = 0.01
"""A fault that goes in that time was a record that the broker was just writing."""

logger = logging.getLogger(__name__)


class JournalReader:
    """The journal of a directory of which somebody else has the lock."""

    def __init__(self, directory: Path, meta: Callable[[bytes], bytes | None]) -> None:
        """``meta`` reads a row of META as it is now."""
        self._directory = directory
        self._meta = meta
        self._warned_of: tuple[Fault, ...] = ()

    def __repr__(self) -> str:
        return f"<JournalReader {self._directory}>"

    def read(self) -> Reading:
        """What LMDB did not have a moment ago, and what is wrong with the journal. Raises
        :class:`StoreUnusable` when it cannot be read at all."""
        faulty = 0
        for _ in range(JOURNAL_TRIES):
            state = self._state()
            try:
                found = read_journal(self._directory, state)
            except (OSError, ValueError) as error:
                raise StoreUnusable(f"cannot read the journal: {error}") from error
            if self._state() != state:
                continue
            if not found.faults:
                return found
            faulty += 1
            if faulty == FAULT_TRIES:
                return found
            time.sleep(FAULT_WAIT_S)
        raise StoreUnusable(f"the journal changed {JOURNAL_TRIES} times while it was read")

    def read_whole(self) -> Reading:
        """As :meth:`read`. Raises :class:`StoreUnusable` on damage, too; what may be none is said
        once."""
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

    def _state(self) -> JournalState:
        state = JournalState.unpack(self._meta(META_JOURNAL))
        # A broker that stopped in order left nothing in the journal.
        is_clean = self._meta(META_CLEAN) is not None
        return replace(state, in_use=False) if is_clean else state
