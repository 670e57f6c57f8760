"""Expiry: when an entry's time is up.

The rule: pure functions of entries, the queue's time to live and the current time. An entry expires
by its own expiry or the queue's, whichever comes first. When a queue's time to live changes,
entries published before keep the earlier one, as in RabbitMQ.
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
    """A time to live in ms that has changed; None: for ever."""

    now_ms: int | None
    before: tuple[tuple[int, int | None], ...]
    """The earlier values in order, each with the time at which it was replaced: entries published
    before that time have it."""

    def of(self, published_ms: int) -> int | None:
        """Return the time to live of an entry published at that time."""
        for until_ms, ttl_ms in self.before:
            if published_ms < until_ms:
                return ttl_ms
        return self.now_ms


Ttl: TypeAlias = int | ChangedTtl | None
"""A time to live in ms; None: for ever."""


def expires_ms(entry: bytes, ttl: Ttl) -> int:
    """Return when ``entry`` expires; :data:`NEVER` if it does not."""
    published, expires = TIMES.unpack_from(entry, TIMES_OFFSET)
    own: int = expires or NEVER
    if isinstance(ttl, ChangedTtl):
        ttl = ttl.of(published)
    return own if ttl is None else min(own, published + ttl)


def lives_no_time(entry: bytes, ttl: Ttl) -> bool:
    """Whether it expires at once; a consumer that can take it right away may still have it once."""
    published: int = TIMES.unpack_from(entry, TIMES_OFFSET)[0]
    return expires_ms(entry, ttl) <= published


def count_expired(entries: Sequence[bytes], ttl: Ttl, now_ms: int, *, is_new: bool = False) -> int:
    """Return how many of ``entries``, from the first on, have expired. ``is_new``: entries that
    expire at once have not, since a consumer may be there for them."""
    for index, entry in enumerate(entries):
        if expires_ms(entry, ttl) > now_ms or (is_new and lives_no_time(entry, ttl)):
            return index
    return len(entries)


def count_alive(entries: Sequence[bytes], ttl: Ttl, now_ms: int, *, is_new: bool) -> int:
    """Return how many of ``entries``, from the first on, may be delivered. ``is_new``: they were
    not delivered before."""
    for index, entry in enumerate(entries):
        is_up = expires_ms(entry, ttl) <= now_ms
        if is_up and not (is_new and lives_no_time(entry, ttl)):
            return index
    return len(entries)
