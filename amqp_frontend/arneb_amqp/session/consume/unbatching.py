"""Unbatching: entries of other protocols as the AMQP messages that are in them.

The rule: what cannot be read goes out as it was kept, and says so in a header.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final

from arneb_amqp.codec import encode_message
from arneb_core.api.codec import Message, codecs
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import HEADER_BYTES, Origin, messages_in
from arneb_core.api.position import Position

UNREADABLE: Final = "arneb-unreadable"
"""The header of a message that could not be translated; its value is the origin."""

LARGE_BATCH: Final = 32
"""A batch with more messages is remembered once it was opened: a consumer with a prefetch of one
gets it message by message, and to open one of 100,000 each time would take a second each."""

OPENED_MAX: Final = 2
"""Of which so many are remembered, for they may be as large as what a batch may unpack to."""


@lru_cache(OPENED_MAX)
def _opened(entry: bytes) -> Sequence[Message]:
    return codecs()[Origin(entry[1])].decode(entry)


def unbatched(run: Deliveries, queue: str) -> tuple[list[Position], list[bytes], dict[int, int]]:
    """The run as AMQP messages: entries of another origin translated, batches opened.

    Positions and entries by message, and for each that is only a part of its entry which one of
    the batch it is. Message by message, because every one of them must be encoded anyway.
    """
    positions: list[Position] = []
    entries: list[bytes] = []
    parts: dict[int, int] = {}
    wanted = run.masks or {}
    for position, entry in zip(run.positions, run.entries, strict=True):
        if entry[1] == Origin.AMQP:
            positions.append(position)
            entries.append(entry)
            continue
        whole = messages_in(entry) == 1
        mask = wanted.get(position, -1)
        messages: Sequence[Message]
        try:
            is_large = messages_in(entry) > LARGE_BATCH
            messages = _opened(entry) if is_large else codecs()[Origin(entry[1])].decode(entry)
        except ValueError:
            messages, whole, mask = [_unreadable(entry)], True, -1
        for index in _wanted(mask, len(messages)):
            if not whole:
                parts[len(positions)] = index
            positions.append(position)
            entries.append(encode_message(messages[index], queue))
    return positions, entries, parts


def _wanted(mask: int, count: int) -> Iterable[int]:
    """Which of ``count`` messages; a negative mask has them all. One of thousands of bits is looked
    through in one go: to shift it for each message would take milliseconds each time."""
    return range(count) if mask < 0 else takewhile(count.__gt__, _ones(bin(mask)[:1:-1]))


def _ones(bits: str) -> Iterator[int]:
    at = bits.find("1")
    while at >= 0:
        yield at
        at = bits.find("1", at + 1)


def _unreadable(entry: bytes) -> Message:
    """What a broker cannot read, because it is encrypted, goes out as it was kept: losing it or
    holding the queue up for ever would be worse."""
    return Message(entry[HEADER_BYTES:], properties={UNREADABLE: Origin(entry[1]).name.lower()})
