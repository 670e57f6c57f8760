"""Unbatching: entries of other protocols as AMQP messages.

The rule: an unreadable entry goes out as it is stored, with a header that says so. Everything here
may be called in any thread.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final

from arneb_amqp.codec import encode_message
from arneb_amqp.session.compressed_runs import Messages
from arneb_core.api.entries.codec import Message, codecs
from arneb_core.api.entries.entry import HEADER_BYTES, Origin, messages_in
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries

UNREADABLE: Final = "arneb-unreadable"
"""The header of a message that could not be translated; its value is the entry's origin."""

LARGE_BATCH: Final = 32
"""A batch with more messages stays cached once opened: a consumer with a prefetch of one gets it
message by message, and opening one of 100,000 each time would take a second each."""

OPENED_MAX: Final = 2
"""Cached batches: few, because each may be as large as a batch may unpack to."""


@lru_cache(OPENED_MAX)
def _opened(entry: bytes) -> Sequence[Message]:
    return codecs()[Origin(entry[1])].decode(entry)


def unbatched(run: Deliveries, queue: str) -> Messages:
    """Return the run as AMQP messages: entries of another origin translated, batches opened.

    The result is positions and entries by message, and by index the number of each message that is
    only a part of its entry. One by one, because every message must be encoded anyway.
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
    """Return which of ``count`` messages the mask has; a negative one has them all. A mask of
    thousands of bits is scanned in one go: shifting it for each message would take milliseconds
    each time."""
    return range(count) if mask < 0 else takewhile(count.__gt__, _ones(bin(mask)[:1:-1]))


def _ones(bits: str) -> Iterator[int]:
    at = bits.find("1")
    while at >= 0:
        yield at
        at = bits.find("1", at + 1)


def _unreadable(entry: bytes) -> Message:
    """An entry that a broker cannot read, because it is encrypted, goes out as it is stored: losing
    it or blocking the queue forever would be worse."""
    return Message(entry[HEADER_BYTES:], properties={UNREADABLE: Origin(entry[1]).name.lower()})
