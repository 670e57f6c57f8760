"""Stamps: the publish times of a log's entries, which never go backwards.

The rule: whoever looks for a time in a log may stop at the first entry that is not older. So when
the clock was set back, entries are stamped with the last stamp of their log until the clock has
caught up. What they are to wait for counts by the clock all the same; what they are to live for
counts from the stamp, so that it is not up before it has begun.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from arneb_core.api.entry import TIMES, TIMES_OFFSET

if TYPE_CHECKING:
    from arneb_core.engine.request import Request

STAMP: Final = Struct(">Q")
STAMP_OFFSET: Final = TIMES_OFFSET
"""The publish time in an entry's header."""

_TIMES_END: Final = TIMES_OFFSET + TIMES.size


def stamp_of(entry: bytes) -> int:
    """When ``entry`` was published, in ms since 1970; reads only that field."""
    stamp_ms: int = STAMP.unpack_from(entry, STAMP_OFFSET)[0]
    return stamp_ms


def keep_order(requests: Iterable["Request"]) -> None:
    """What ``requests`` append is about to be placed in their order: have it follow what is in its
    logs."""
    unpack = STAMP.unpack_from
    for request in requests:
        appends = request.appends
        if len(appends) == 1:  # as most are
            ((topic, entries, _),) = appends
            if not entries:
                continue
            log = topic.log
            (first_ms,) = unpack(entries[0], STAMP_OFFSET)
            if first_ms >= log.stamped_ms:
                log.stamped_ms = (
                    first_ms if len(entries) == 1 else unpack(entries[-1], STAMP_OFFSET)[0]
                )
                continue
        for topic, entries, _ in appends:
            if entries and unpack(entries[0], STAMP_OFFSET)[0] < topic.log.stamped_ms:
                _stamp_again(request)
                break
        for topic, entries, _ in request.appends:
            if entries:
                topic.log.stamped_ms = unpack(entries[-1], STAMP_OFFSET)[0]


def _stamp_again(request: "Request") -> None:
    """Stamp all of it with what may follow in each of its logs: what stands in several topics stays
    one object."""
    floor_ms = max(topic.log.stamped_ms for topic, entries, _ in request.appends if entries)
    made: dict[int, bytes] = {}
    request.appends = [
        (topic, stamped_from(entries, floor_ms, made), count)
        for topic, entries, count in request.appends
    ]
    request.shared = [made.get(id(entry), entry) for entry in request.shared]


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
