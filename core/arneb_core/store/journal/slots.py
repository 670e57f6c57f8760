"""Records in slots: the layout of a journal's file until 2026-11-24.

The rule: such a file is read, with all its faults noticed, and never written to: its records are
taken over, and then it is rewritten in blocks (:mod:`.journal.record`). Only a copy of a store
on which no broker has been started since is laid out this way again.

A record begins and ends at multiples of :data:`SLOT_BYTES`, so that no header is in two sectors,
and none ends where a sector ends. After it, in the same sector, is the *mark* of the next record,
which overwrites the mark.
"""

from typing import Final

from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import HEADER_BYTES, encode_record
from arneb_core.store.journal.record import MARK_BYTES, mark

SLOT_BYTES: Final = HEADER_BYTES
SECTOR_BYTES: Final = 512


def in_slots(
    epoch: int, number: int, before: int, salt: int, changes: Changes, offset: int
) -> tuple[bytes, int]:
    """Return a record followed by the next one's mark, as written at ``offset``, and the record's
    checksum. The next record takes the mark's place."""
    record, checksum = encode_record(epoch, number, before, changes, salt, SLOT_BYTES)
    if (offset + len(record)) % SECTOR_BYTES == 0:
        longer = len(record) + SLOT_BYTES
        record, checksum = encode_record(epoch, number, before, changes, salt, longer)
    return record + mark(epoch, number + 1, checksum, salt), checksum


assert MARK_BYTES == SLOT_BYTES
