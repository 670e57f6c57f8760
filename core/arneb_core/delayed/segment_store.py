"""A segment store: where an index puts its buckets, and gets their segments from.

The rule: it never waits. A put is answered when it is on disk, a read later, in the event loop; an
index that is gone gets no answers.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey
from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.delayed.bucket import Put

SegmentName = tuple[int, int]
"""The bucket's id, and the segment's index in it."""

Segments = dict[SegmentName, bytes]
"""The records of segments; missing and damaged ones are left out."""


class SegmentStore(Protocol):
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
        """Read from the log when the entries at ``members`` come due."""
        ...
