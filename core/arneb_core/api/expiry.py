"""Expiry: when an entry's time is up.

The rule: pure functions of entries, the queue's time to live and the time it is. An entry's own
expiry holds besides the queue's, whichever comes first. A queue's time to live may change, and what
was published before keeps the one that held then, as in RabbitMQ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

TIMES: Final = Struct(">Q8xQ")
TIMES_OFFSET: Final = 8
"""Publish time and expiry in an entry's header."""

NEVER: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class ChangedTtl:
    """A time to live in ms that has changed; None = for ever."""

    now_ms: int | None
    before: tuple[tuple[int, int | None], ...]
    """The earlier ones in their order, each with the time at which another one took its place:
    what was published before that has it."""

    def of(self, published_ms: int) -> int | None:
        """That of what was published then."""
        for until_ms, ttl_ms in self.before:
            if published_ms < until_ms:
                return ttl_ms
        return self.now_ms


Ttl: TypeAlias = int | ChangedTtl | None
"""A time to live in ms; None = for ever."""


def expires_ms(entry: bytes, ttl: Ttl) -> int:
    """When ``entry`` expires; :data:`NEVER` if it does not."""
    published, expires = TIMES.unpack_from(entry, TIMES_OFFSET)
    own: int = expires or NEVER
    if isinstance(ttl, ChangedTtl):
        ttl = ttl.of(published)
    return own if ttl is None else min(own, published + ttl)


def lives_no_time(entry: bytes, ttl: Ttl) -> bool:
    """It is expired at once, but a consumer that is there to take it may have it once."""
    published: int = TIMES.unpack_from(entry, TIMES_OFFSET)[0]
    return expires_ms(entry, ttl) <= published


def count_expired(entries: Sequence[bytes], ttl: Ttl, now_ms: int, *, is_new: bool = False) -> int:
    """How many of ``entries``, from the first on, have expired. ``is_new``: a consumer may be there
    for them, so those that live no time have not."""
    for index, entry in enumerate(entries):
        if expires_ms(entry, ttl) > now_ms or (is_new and lives_no_time(entry, ttl)):
            return index
    return len(entries)


def count_alive(entries: Sequence[bytes], ttl: Ttl, now_ms: int, *, is_new: bool) -> int:
    """How many of ``entries``, from the first on, may be delivered. ``is_new``: nobody had them
    before."""
    for index, entry in enumerate(entries):
        is_up = expires_ms(entry, ttl) <= now_ms
        if is_up and not (is_new and lives_no_time(entry, ttl)):
            return index
    return len(entries)
