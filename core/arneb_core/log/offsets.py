"""Offsets: a topic's messages counted from 0, without gaps, for as long as the topic lives.

The rule: a ledger's record holds the number of all messages before it, so offsets outlive restarts
and the trimming of older ledgers. Inside a ledger of single messages the offset follows from the
position; only a ledger with batches is read, up to the entry in question.
"""

from typing import Final, Protocol

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import (
    ENTRY_MASK,
    Position,
    before,
    entry_of,
    ledger_of,
    position_at,
)
from arneb_core.log.durable_log import Runs
from arneb_core.log.ledgers import LedgerInfo
from arneb_core.log.memory_log import Log

READ_BYTES: Final = 1024 * 1024
"""Bytes read at a time to count batches."""


class Readable(Protocol):
    """A log whose entries can be awaited."""

    log: Log

    async def read(self, position: Position, bytes_max: int) -> Runs:
        """Return runs of entries from ``position`` on. Raises :class:`.StoreFailed`."""
        ...


async def offset_of(topic: Readable, position: Position) -> int:
    """Return the offset of the first message of the entry at ``position``, or of the next to come.

    Raises :class:`~arneb_core.api.errors.StoreFailed`.
    """
    info = topic.log.ledgers.at(ledger_of(position))
    if info is None:
        following = topic.log.after(before(position))
        if following is None:
            return topic.log.ledgers.messages_ever
        info = topic.log.ledgers.at(ledger_of(following))
        assert info is not None, f"{topic!r} has an entry at {following} in no ledger"
        position = following
    index = min(entry_of(position), info.entries)
    if info.messages == info.entries:
        return info.messages_before + index
    counted, _ = await _count(topic, info, index, info.messages)
    return info.messages_before + counted


async def find_offset(topic: Readable, offset: int) -> Position | None:
    """Return the entry with the message of that offset; see
    :meth:`arneb_core.api.topics.topic.Topic.find_offset`.

    Raises :class:`~arneb_core.api.errors.StoreFailed`.
    """
    ledgers = topic.log.ledgers
    if offset >= ledgers.messages_ever:
        return None
    for info in ledgers:
        if offset < info.messages_before + info.messages:
            wanted = max(0, offset - info.messages_before)
            if info.messages == info.entries:
                return position_at(info.id, wanted)
            _, index = await _count(topic, info, info.entries, wanted)
            return position_at(info.id, index)
    return None


async def _count(topic: Readable, info: LedgerInfo, entries: int, messages: int) -> tuple[int, int]:
    """Count the messages of the ledger's first entries, until ``entries`` are counted or one more
    would make more than ``messages``. Return them with the number of entries."""
    counted = index = 0
    while index < entries:
        runs = await topic.read(position_at(info.id, index), READ_BYTES)
        if not runs or ledger_of(runs[0][0]) != info.id:
            break  # trimmed meanwhile
        for first, run in runs:
            if ledger_of(first) != info.id:
                break
            # A lost entry counts as one message; see recovery.
            missing = max(0, (first & ENTRY_MASK) - index)
            passed = min(missing, entries - index, messages - counted)
            counted, index = counted + passed, index + passed
            if passed < missing:
                return counted, index
            for entry in run:
                size = messages_in(entry)
                if index >= entries or counted + size > messages:
                    return counted, index
                counted, index = counted + size, index + 1
    return counted, index
