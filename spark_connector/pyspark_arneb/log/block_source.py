"""Block sources: the ways to a log, all of which return the same stored blocks.

The rule: a source knows where blocks are kept and how to fetch them, not what they contain;
decoders do not know where blocks came from. So every way gives the same rows. A :class:`Location`
says where a log is: a plain value that is sent from the driver to the executors, and opens the
source in the process that uses it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from arneb_core.api.entries.position import Position
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent
from arneb_core.store.reading.stored_blocks import StoredBlock


class BlockSource(Protocol):
    """An open log. Used by one thread at a time.

    Everything raises :class:`arneb_core.api.errors.StoreUnusable`, whose text is one line for the
    user, when the log cannot be read.
    """

    def topics(self) -> Collection[str]:
        """Return the full names of all topics that may be read, including internal logs."""
        ...

    def extents(self, topics: Iterable[str]) -> list[Extent]:
        """Return the extents of those of ``topics`` that exist, all as of one instant."""
        ...

    def read(
        self, topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        """Return the blocks that overlap [first, last], in order, ending with the block that
        reaches ``bytes_max``; empty only when there are none. Damaged blocks are included. Whatever
        the read holds back from the broker is released before this returns."""
        ...

    def schemas(self, topic: str) -> Mapping[int, bytes]:
        """Return the versions of the topic's schema, as the registry stores them, by number."""
        ...


class Location(Protocol):
    """Where a log is; picklable."""

    def open(self) -> BlockSource:
        """Return the log's source, opened in this process; cheap when it is open already."""
        ...
