"""Expiry: when an entry's time is up.

The rule: pure functions of entries, the queue's time to live and the time it is. An entry's own
expiry holds besides the queue's, whichever comes first.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

TIMES: Final = Struct(">Q8xQ")
TIMES_OFFSET: Final = 8
"""Publish time and expiry in an entry's header."""

NEVER: Final = 1 << 63


def expires_ms(entry: bytes, ttl_ms: int | None) -> int:
    """When ``entry`` expires; :data:`NEVER` if it does not."""
    published, expires = TIMES.unpack_from(entry, TIMES_OFFSET)
    own: int = expires or NEVER
    return own if ttl_ms is None else min(own, published + ttl_ms)


def lives_no_time(entry: bytes, ttl_ms: int | None) -> bool:
    """It is expired at once, but a consumer that is there to take it may have it once."""
    published: int = TIMES.unpack_from(entry, TIMES_OFFSET)[0]
    return expires_ms(entry, ttl_ms) <= published


def count_expired(
    entries: Sequence[bytes], ttl_ms: int | None, now_ms: int, *, is_new: bool = False
) -> int:
    """How many of ``entries``, from the first on, have expired. ``is_new``: a consumer may be there
    for them, so those that live no time have not."""
    for index, entry in enumerate(entries):
        if expires_ms(entry, ttl_ms) > now_ms or (is_new and lives_no_time(entry, ttl_ms)):
            return index
    return len(entries)


def count_alive(entries: Sequence[bytes], ttl_ms: int | None, now_ms: int, *, is_new: bool) -> int:
    """How many of ``entries``, from the first on, may be delivered. ``is_new``: nobody had them
    before."""
    for index, entry in enumerate(entries):
        is_up = expires_ms(entry, ttl_ms) <= now_ms
        if is_up and not (is_new and lives_no_time(entry, ttl_ms)):
            return index
    return len(entries)
