"""Reading: what a topic's log holds, and how to find something in it.

The rule: nothing here knows of subscriptions, and what is not in memory is read off the event loop.
"""

from functools import partial
from typing import Final

import trio

from arneb_core.api.entries.entry import messages_in, read_header
from arneb_core.api.entries.position import (
    BEFORE_ALL,
    LedgerId,
    Position,
    before,
    position_at,
    render,
)
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.waiting import answered
from arneb_core.log.durable_log import Runs
from arneb_core.log.memory_log import Log
from arneb_core.log.offsets import find_offset, offset_of

SCAN_BYTES: Final = 1024 * 1024
"""Bytes read at a time to find a publish time."""


class TopicReading:
    """The reading half of :class:`arneb_core.engine.topics.topic.LogTopic`."""

    log: Log
    gone: bool
    """The topic is deleted: entries on their way to it are dropped."""

    @property
    def first(self) -> Position | None:
        return self.log.after(BEFORE_ALL)

    @property
    def last(self) -> Position | None:
        return self.log.last

    @property
    def next_append(self) -> Position:
        return self.log.ledgers.next_append

    async def last_entry(self) -> tuple[Position, bytes] | None:
        """Return the last committed entry with its bytes."""
        last = self.last
        if last is None:
            await trio.lowlevel.checkpoint()
            return None
        runs = await self.read(last, 1)
        return (runs[0][0], runs[0][1][0]) if runs else None

    @property
    def messages(self) -> int:
        return self.log.ledgers.messages

    @property
    def stored_bytes(self) -> int:
        return self.log.ledgers.bytes

    def first_offset(self, ledger: LedgerId) -> int | None:
        info = self.log.ledgers.at(ledger)
        return None if info is None else info.messages_before

    async def offset_of(self, position: Position) -> int:
        """Return the offset of the first message at ``position``; see the interface."""
        return await offset_of(self, position)

    async def find_offset(self, offset: int) -> Position | None:
        """Return the position of the message with that offset; see the interface."""
        return await find_offset(self, offset)

    async def first_published(self, publish_time_ms: int) -> Position | None:
        """Return the first entry published at or after that time; None when there is none."""
        start: Position | None = None
        for info in self.log.ledgers:
            # A ledger opens with its first entry, so entries of earlier ledgers are not newer.
            if info.created_ms < publish_time_ms or start is None:
                start = position_at(info.id, 0)
        position = None if start is None else self.log.after(before(start))
        while position is not None and position <= (self.last or BEFORE_ALL):
            runs = await self.read(position, SCAN_BYTES)
            if not runs:
                # Trimmed meanwhile, or damaged; if damaged, it is not known where.
                floor = self.log.after(before(position))
                if floor == position and not self.gone:
                    raise StoreFailed(f"expected an entry at {render(position)}, got none")
                position = None if self.gone else floor
                continue
            for first, entries in runs:
                for index, entry in enumerate(entries):
                    if read_header(entry).publish_time_ms >= publish_time_ms:
                        return Position(first + index)
                position = Position(first + len(entries) - 1)
            position = self.log.after(position)
        return None

    async def size_at(self, position: Position) -> int:
        """Return how many messages the entry at ``position`` holds; 0 if there is no such entry."""
        if not self.log.ledgers.contains(position):
            return 0
        runs = await self.read(position, 1)
        return messages_in(runs[0][1][0]) if runs and runs[0][0] == position else 0

    @property
    def floor(self) -> Position:
        """The beginning of the oldest ledger, even if that is empty."""
        for info in self.log.ledgers:
            return position_at(info.id, 0)
        return self.log.ledgers.next_append

    async def read(self, position: Position, bytes_max: int) -> Runs:
        """Return runs of entries from ``position`` on, read off the event loop if not in memory.

        Raises :class:`StoreFailed` when they cannot be read.
        """
        hot = self.log.read_hot(position, 1 << 30)
        if hot is not None:
            await trio.lowlevel.checkpoint()
            return [hot]
        return await answered(partial(self.log.read_cold, position, bytes_max))
