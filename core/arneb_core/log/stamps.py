"""Stamps: the publish times of a log's entries, which never go backwards.

The rule: a search for a time in a ledger may stop at the first entry that is not older. Only what
was written ahead may be older than the ledgers before it, by as long as the writing took. So after
the clock was set back, entries get the last stamp of their log until the clock has caught up. Their
delays still follow the clock; their expiry counts from the stamp, so that it is not over before it
began.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from arneb_core.api.entries.entry import TIMES, TIMES_OFFSET

STAMP: Final = Struct(">Q")
STAMP_OFFSET: Final = TIMES_OFFSET
"""The publish time in an entry's header."""

_TIMES_END: Final = TIMES_OFFSET + TIMES.size


def stamp_of(entry: bytes) -> int:
    """Return when ``entry`` was published, in ms since 1970; reads only that field."""
    stamp_ms: int = STAMP.unpack_from(entry, STAMP_OFFSET)[0]
    return stamp_ms


def stamped_from(entries: Sequence[bytes], floor_ms: int, made: dict[int, bytes]) -> list[bytes]:
    """Return ``entries`` with none older than ``floor_ms``. ``made`` maps the identity of each
    replaced entry to its replacement."""
    return [_of(entry, floor_ms, made) for entry in entries]


def _of(entry: bytes, floor_ms: int, made: dict[int, bytes]) -> bytes:
    published_ms, deliver_ms, expires_ms = TIMES.unpack_from(entry, TIMES_OFFSET)
    if published_ms >= floor_ms:
        return entry
    known = made.get(id(entry))
    if known is None:
        if expires_ms:
            expires_ms += floor_ms - published_ms
        times = TIMES.pack(floor_ms, deliver_ms, expires_ms)
        known = made[id(entry)] = entry[:TIMES_OFFSET] + times + entry[_TIMES_END:]
    return known
