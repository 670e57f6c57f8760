"""A shelf: where an index puts its buckets, and gets their segments from.

The rule: it never waits. What is put there is told of when it is on disk, and what is read comes
later, in the event loop; an index that is gone is told nothing.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from pyroaring import BitMap64

from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.position import Position
from arneb_core.delayed.bucket import Put
from arneb_core.engine.request import Request
from arneb_core.store.delayed_rows import unpack_segment
from arneb_core.store.due_key import DueKey, keys_in, place_of
from arneb_core.store.schema import Table, segment_key
from arneb_core.store.snapshot import Snapshot

if TYPE_CHECKING:
    from arneb_core.engine.topic import LogTopic

SegmentName = tuple[int, int]
"""Bucket and segment."""

Segments = dict[SegmentName, bytes]
"""The records of segments; one that is not there, or is damaged, is left out."""


class Shelf(Protocol):
    """What an index needs of the store."""

    def put(self, rows: Sequence[Put], done: Callable[[CommitFailed | None], None]) -> None:
        """Write and delete ``rows`` in one commit."""
        ...

    def get(
        self, names: Sequence[SegmentName], then: Callable[[Segments | StoreFailed], None]
    ) -> None:
        """Read segments."""
        ...

    def look_up(
        self, members: BitMap64, then: Callable[[list[DueKey] | StoreFailed], None]
    ) -> None:
        """Read out of the log when the entries at ``members`` come due."""
        ...


class TopicShelf:
    """The shelf of a durable topic."""

    def __init__(self, topic: "LogTopic") -> None:
        self._topic = topic

    def __repr__(self) -> str:
        return f"<TopicShelf of {self._topic.name}>"

    def put(self, rows: Sequence[Put], done: Callable[[CommitFailed | None], None]) -> None:
        """Write and delete ``rows``, unless the topic is going."""
        topic = self._topic
        if topic.fenced or topic.gone:
            done(StoreFailed(f"{topic!r} is being deleted"))
            return
        request = Request(lambda error, firsts: done(error))
        request.puts = rows
        topic.engine.submit(request)

    def get(
        self, names: Sequence[SegmentName], then: Callable[[Segments | StoreFailed], None]
    ) -> None:
        """Read segments, off the event loop."""
        topic_id = self._topic.id

        def job(snapshot: Snapshot) -> Segments:
            found: Segments = {}
            for bucket, segment in names:
                value = snapshot.get(Table.DELAYED, segment_key(topic_id, bucket, segment))
                with suppress(ValueError):
                    if value is not None:
                        found[bucket, segment] = unpack_segment(value)
            return found

        what = f"the delayed index of {self._topic.name}"
        self._topic.engine.reader.ask(what, job, then)

    def look_up(
        self, members: BitMap64, then: Callable[[list[DueKey] | StoreFailed], None]
    ) -> None:
        """Read out of the log when the entries at ``members`` come due, off the event loop."""
        topic_id = self._topic.id
        first, last = Position(members.min()), Position(members.max())

        def job(snapshot: Snapshot) -> list[DueKey]:
            return [
                key
                for place, entries in snapshot.iter_blocks(topic_id, first, last)
                for key in keys_in(place, entries)
                if place_of(key) in members
            ]

        self._topic.engine.reader.ask(f"the log of {self._topic.name}", job, then)
