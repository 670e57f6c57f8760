"""A sealing: the keys in memory, written as one bucket.

The rule: it goes on in steps, each a slice of time, so that no turn sorts and packs all keys:
50,000 keys in no order take 11 ms. All of its rows are one commit, at the end.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from arneb_core.api.errors import StoreFailed
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.delayed.bucket import Bucket, BucketWriter, Put, cut
from arneb_core.delayed.segment_store import Segments, SegmentStore
from arneb_core.delayed.sorted_runs import SortedRuns
from arneb_core.store.format.schema import TopicId

SLICE_ENTRIES: Final = 4_096
"""Keys packed in one step, or up to twice as many: about a millisecond."""

K = TypeVar("K", bound=float)
"""A key in a form that sorts as keys do."""

OnMade = Callable[[Bucket, Sequence[Put]], None]
"""Gets the bucket, which is not on disk yet, and all its rows."""


class Sealing:
    """One sealing under way."""

    def __init__(
        self,
        topic_id: TopicId,
        bucket_id: int,
        runs: SortedRuns,
        settings: DelayedSettings,
        store: SegmentStore,
    ) -> None:
        """``runs``: the keys, at least one."""
        self._writer = BucketWriter(topic_id, bucket_id, runs.members)
        self._slices = slices(runs.parts, SLICE_ENTRIES)
        self._records_of = runs.records
        self._settings = settings
        self._store = store
        self._ready = b""
        """Sorted records that are not in a row yet."""
        self._rows: list[Put] = []

    def __repr__(self) -> str:
        return f"<Sealing, {len(self._rows)} rows made, {self._writer!r}>"

    def start(self, then: OnMade, failed: Callable[[StoreFailed], None]) -> None:
        """Begin; ``then`` or ``failed`` is called at the end, perhaps at once."""
        self._then, self._failed = then, failed
        self._step()

    def _step(self) -> None:
        keys = next(self._slices, None)
        if keys is None:
            self._rows.append(self._writer.add(self._ready))
            bucket, rows = self._writer.finish()
            self._then(bucket, [*self._rows, *rows])
            return
        records = self._ready + self._records_of(keys)
        *full, self._ready = cut(records, self._settings.segment_entries, self._settings.segment_ms)
        self._rows += [self._writer.add(part) for part in full]
        # Through the store, so that others get their turn.
        self._store.get((), self._next)

    def _next(self, found: Segments | StoreFailed) -> None:
        if isinstance(found, StoreFailed):
            self._failed(found)
        else:
            self._step()


def slices(parts: Sequence[Sequence[K]], size: int) -> Iterator[list[K]]:
    """Yield all keys of sorted ``parts``, in order, in slices of at most twice ``size`` (or of two
    keys from each part, if that is more)."""
    step = max(1, size // len(parts))
    # With a pivot at every len(parts)-th sample, a slice spans that many steps, whole or begun.
    samples = sorted([key for part in parts for key in part[::step]])
    starts = [0] * len(parts)
    for pivot in (*samples[len(parts) :: len(parts)], None):
        found: list[K] = []
        for index, part in enumerate(parts):
            start = starts[index]
            end = len(part) if pivot is None else bisect_left(part, pivot, start)
            found += part[start:end]
            starts[index] = end
        if found:
            found.sort()  # sorted runs: cheap
            yield found
