"""Stored reading: what the store holds, as one who has only the store would see it.

The rule: everything is read from a snapshot, in the reader's thread, so it says what a reader of
the directory would be told: the same extents, the same blocks.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from arneb_core.api.position import Position, render
from arneb_core.api.waiting import answered
from arneb_core.engine.reader import Reader
from arneb_core.store.extents import Extent, find_extents
from arneb_core.store.handing_out import HandedOut, hand_out
from arneb_core.store.schema import Table, TopicId, frontend_key
from arneb_core.store.snapshot import Snapshot


class StoredReading:
    """Reads for those who are not in this process. Raises :class:`.StoreFailed`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __repr__(self) -> str:
        return f"<StoredReading, {self._reader.requests_open} reads open>"

    async def extents(self, topics: Sequence[str]) -> list[Extent]:
        """What those of ``topics`` that are stored hold, all as of one instant."""
        return await answered(
            partial(self._reader.ask, "what topics hold", lambda found: find_extents(found, topics))
        )

    async def blocks(
        self, topic_id: int, first: Position, last: Position, bytes_max: int
    ) -> HandedOut:
        """The blocks that hold something of [first, last], about ``bytes_max`` bytes at most, at
        least one."""
        what = f"blocks of topic {topic_id} from {render(first)} on"

        def job(snapshot: Snapshot) -> HandedOut:
            return hand_out(snapshot, TopicId(topic_id), first, last, bytes_max)

        return await answered(partial(self._reader.ask, what, job))

    async def metadata(self, prefix: str) -> Mapping[str, bytes]:
        """Frontend metadata whose key begins with ``prefix``, without it."""
        start = frontend_key(prefix)

        def job(snapshot: Snapshot) -> dict[str, bytes]:
            rows = snapshot.scan(Table.CATALOG, start)
            return {key.removeprefix(start).decode(): value for key, value in rows}

        return await answered(partial(self._reader.ask, f"what begins with {prefix}", job))
