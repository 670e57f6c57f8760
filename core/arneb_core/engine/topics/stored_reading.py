"""Stored reading: what the store holds, as a process that has only the store would see it.

The rule: everything is read from a snapshot, in the reader's thread, so the answers are those that
a reader of the directory gets: the same extents, the same blocks. One figure is better: the store
knows only about how many messages an open ledger holds, and the engine knows it exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import trio

from arneb_core.api.entries.position import Position, entry_of, ledger_of, render
from arneb_core.api.process.waiting import answered
from arneb_core.engine.threads.reader import Reader
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.format.schema import Table, TopicId, frontend_key
from arneb_core.store.reading.exported_blocks import ExportedBlocks, export_blocks
from arneb_core.store.reading.extents import Extent, find_extents
from arneb_core.store.reading.snapshot import Snapshot

COUNTED_PER_TURN: Final = 250
"""Topics whose open ledgers are looked at in one turn: some 2 ms. A request may name ten
thousand."""


class StoredReading:
    """Reads for other processes. Raises :class:`.StoreFailed`."""

    def __init__(self, reader: Reader, topics: Mapping[str, LogTopic] | None = None) -> None:
        """``topics``: the engine's, which know how many messages their open ledgers hold."""
        self._reader = reader
        self._topics = {} if topics is None else topics

    def __repr__(self) -> str:
        return f"<StoredReading, {self._reader.requests_open} reads open>"

    async def extents(self, topics: Sequence[str]) -> list[Extent]:
        """Return what the stored ones of ``topics`` hold, all at one instant."""
        found = await answered(
            partial(self._reader.ask, "what topics hold", lambda found: find_extents(found, topics))
        )
        counted: list[Extent] = []
        while piece := found[len(counted) : len(counted) + COUNTED_PER_TURN]:
            if counted:
                await trio.lowlevel.checkpoint()
            counted += map(self._counted, piece)
        return counted

    async def blocks(
        self, topic_id: int, first: Position, last: Position, bytes_max: int
    ) -> ExportedBlocks:
        """Return the blocks that hold something of [first, last]: at most about ``bytes_max``
        bytes, but at least one block."""
        what = f"blocks of topic {topic_id} from {render(first)} on"

        def job(snapshot: Snapshot) -> ExportedBlocks:
            return export_blocks(snapshot, TopicId(topic_id), first, last, bytes_max)

        return await answered(partial(self._reader.ask, what, job))

    async def metadata(self, prefix: str) -> Mapping[str, bytes]:
        """Return the frontend metadata whose keys begin with ``prefix``, by the rest of the key."""
        start = frontend_key(prefix)

        def job(snapshot: Snapshot) -> dict[str, bytes]:
            rows = snapshot.scan(Table.CATALOG, start)
            return {key.removeprefix(start).decode(): value for key, value in rows}

        return await answered(partial(self._reader.ask, f"what begins with {prefix}", job))

    def _counted(self, extent: Extent) -> Extent:
        topic = self._topics.get(extent.topic)
        if topic is None or topic.id != extent.topic_id or not extent.ledgers:
            return extent
        *closed, newest = extent.ledgers
        ledger = topic.log.ledgers.at(ledger_of(newest.first))
        # If more came since the snapshot, the engine's count covers more than the extent.
        if newest.closed_ms or ledger is None or ledger.last != newest.last:
            return extent
        if entry_of(newest.first):
            return extent
        messages = max(newest.entries, ledger.messages)
        if messages == newest.messages:
            return extent
        true = replace(newest, messages=messages)
        return replace(extent, ledgers=(*closed, true))
