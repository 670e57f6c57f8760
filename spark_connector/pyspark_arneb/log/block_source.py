"""Block sources: the ways to a log, all of which hand out the same stored blocks.

The rule: a source knows where blocks are kept and how to fetch them, and nothing of what stands in
them; what decodes blocks knows nothing of where they came from. So every way in gives the same
rows. A :class:`Location` says where a log is: it is a plain value that travels from the driver
to the executors, and opens the source in whichever process it is asked.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from arneb_core.api.position import Position
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent
from arneb_core.store.reading.stored_blocks import StoredBlock


class BlockSource(Protocol):
    """An open log. Used by one thread at a time.

    Everything raises :class:`arneb_core.api.errors.StoreUnusable`, whose text is one line for the
    user, when the log cannot be read.
    """

    def topics(self) -> Collection[str]:
        """The full names of all topics that may be read, internal logs among them."""
        ...

    def extents(self, topics: Iterable[str]) -> list[Extent]:
        """What those of ``topics`` that exist hold, all as of one instant."""
        ...

    def read(
        self, topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        """The blocks that hold something of [first, last], in order, to the end of the one with
        which ``bytes_max`` is reached; empty only when there are none. Damaged blocks are among
        them. What is held back from the broker for it is given back before this returns."""
        ...

    def schemas(self, topic: str) -> Mapping[int, bytes]:
        """The versions of the topic's schema, as the registry keeps them, by their numbers."""
        ...


class Location(Protocol):
    """Where a log is; picklable."""

    def open(self) -> BlockSource:
        """The log's source, opened in this process; cheap when it is open already."""
        ...
