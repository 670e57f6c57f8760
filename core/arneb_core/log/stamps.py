"""Stamps: the publish times of a log's entries, which never go backwards.

The rule: whoever looks for a time in a ledger may stop at the first entry that is not older; only
what was written ahead may be older than the ledgers before its own, by as long as it took. So when
the clock was set back, entries are stamped with the last stamp of their log until the clock has
caught up. What they are to wait for counts by the clock all the same; what they are to live for
counts from the stamp, so that it is not up before it has begun.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from arneb_core.api.entry import TIMES, TIMES_OFFSET

STAMP: Final = Struct(">Q")
STAMP_OFFSET: Final = TIMES_OFFSET
"""The publish time in an entry's header."""

_TIMES_END: Final = TIMES_OFFSET + TIMES.size


def stamp_of(entry: bytes) -> int:
    """When ``entry`` was published, in ms since 1970; reads only that field."""
    stamp_ms: int = STAMP.unpack_from(entry, STAMP_OFFSET)[0]
    return stamp_ms


def stamped_from(entries: Sequence[bytes], floor_ms: int, made: dict[int, bytes]) -> list[bytes]:
    """``entries``, none of them older than ``floor_ms``; ``made`` has, by identity, what others
    were replaced by."""
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
