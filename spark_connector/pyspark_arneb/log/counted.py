"""A counted source: a block source that knows how many messages its open ledgers hold.

The rule: a directory has exact counts for closed ledgers only, and an estimate for the open one. A
query that has read a ledger to its end, and later finds it gone, must know whether more had come.
An open ledger only grows at its end, so a count of its beginning stays true, and only newer entries
are counted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import Position, entry_of, ledger_of
from arneb_core.store.format.block import BlockCorrupt
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent
from arneb_core.store.reading.stored_blocks import StoredBlock
from pyspark_arneb.log.block_source import BlockSource

COUNT_BYTES: Final = 1024 * 1024
"""Bytes read at a time for counting."""


class CountedSource:
    """See :class:`.BlockSource`. Counts are kept as long as the source."""

    def __init__(self, source: BlockSource) -> None:
        self._source = source
        self._counted: dict[TopicId, tuple[Position, int]] = {}
        """By topic, for its open ledger: the first entry not counted yet, and the messages before
        it."""

    def __repr__(self) -> str:
        return f"<CountedSource of {self._source!r}, {len(self._counted)} open ledgers>"

    def topics(self) -> Collection[str]:
        return self._source.topics()

    def extents(self, topics: Iterable[str]) -> list[Extent]:
        return [self._true(extent) for extent in self._source.extents(topics)]

    def read(
        self, topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        return self._source.read(topic_id, first, last, bytes_max)

    def schemas(self, topic: str) -> Mapping[int, bytes]:
        return self._source.schemas(topic)

    def _true(self, extent: Extent) -> Extent:
        if not extent.ledgers or extent.ledgers[-1].closed_ms or entry_of(extent.ledgers[-1].first):
            return extent
        *closed, newest = extent.ledgers
        messages = self._count(extent.topic_id, newest.first, newest.last)
        if messages is None:
            return extent
        return replace(extent, ledgers=(*closed, replace(newest, messages=messages)))

    def _count(self, topic_id: TopicId, first: Position, last: Position) -> int | None:
        """Return the number of messages in [first, last]; None if some of it cannot be read."""
        position, messages = self._counted.get(topic_id, (first, 0))
        if ledger_of(position) != ledger_of(first) or position > last + 1:
            position, messages = first, 0
        while position <= last:
            blocks = self._source.read(topic_id, position, last, COUNT_BYTES)
            if not blocks:
                return None
            for block in blocks:
                try:
                    at, entries = block.decode()
                except BlockCorrupt:
                    return None
                new = entries[position - at : last + 1 - at]
                messages += sum(map(messages_in, new))
                position = Position(position + len(new))
        self._counted[topic_id] = position, messages
        return messages
