"""A merging: several buckets rewritten as one.

The rule: it goes on in steps of a few segments, so that neither memory nor a commit grows with the
buckets. The last step writes the new bucket's head and deletes the old buckets in one commit; rows
written before that belong to no bucket, and the next start would drop them.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from arneb_core.api.entries.due_key import BEFORE_ALL_TIME, DueKey
from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.delayed.bucket import Bucket, BucketWriter, Put, cut, records_between
from arneb_core.delayed.segment_store import SegmentName, Segments, SegmentStore
from arneb_core.store.format.delayed_rows import split_records
from arneb_core.store.format.schema import TopicId

logger = logging.getLogger(__name__)

STEP_SEGMENTS: Final = 4
"""Segments written in one commit: some hundred kilobytes."""

OnMerged = Callable[[Bucket | None, Sequence[Bucket]], None]
"""Gets the new bucket, which is on disk, or None if it failed, and the buckets it was made of."""


class Merging:
    """One merging under way."""

    def __init__(
        self,
        topic_id: TopicId,
        bucket_id: int,
        sources: Sequence[Bucket],
        settings: DelayedSettings,
        store: SegmentStore,
    ) -> None:
        self._topic_id = topic_id
        self._sources = sources
        self._settings = settings
        self._store = store
        self._writer = BucketWriter(topic_id, bucket_id)
        self._reached: DueKey = BEFORE_ALL_TIME
        self._held: Segments = {}
        self._ready: list[bytes] = []
        """Sorted records that are not in a row yet."""
        self._rows: list[Put] = []

    def __repr__(self) -> str:
        return f"<Merging of {len(self._sources)} buckets>"

    def start(self, then: OnMerged) -> None:
        """Begin; ``then`` is called at the end."""
        self._then = then
        self._step()

    def _step(self) -> None:
        """Read the missing segments, or take the records that are complete and write some."""
        names: list[SegmentName] = []
        for bucket in self._sources:
            index = bucket.segment_after(self._reached)
            if index is not None:
                names.append((bucket.id, index))
        if not names:
            self._finish()
            return
        missing = [name for name in names if name not in self._held]
        if missing:
            self._held = {name: self._held[name] for name in names if name in self._held}
            self._store.get(missing, lambda found: self._read(missing, found))
            return
        # Complete up to where the first of these segments ends.
        spans = {bucket.id: bucket.spans for bucket in self._sources}
        end = min(spans[bucket][index].last for bucket, index in names)
        for name in names:
            self._ready += records_between(self._held[name], self._reached, end)
        self._ready.sort()  # sorted runs: cheap
        self._reached = end
        self._write_full()

    def _read(self, missing: Sequence[SegmentName], found: Segments | StoreFailed) -> None:
        if isinstance(found, StoreFailed) or any(name not in found for name in missing):
            logger.error("cannot merge buckets of the delayed index: %s", found)
            self._then(None, self._sources)
            return
        self._held.update(found)
        self._step()

    def _write_full(self) -> None:
        """Put whole segments into rows, and write the rows when there are enough."""
        size = self._settings.segment_entries
        parts = list(cut(b"".join(self._ready), size, self._settings.segment_ms))
        self._ready = list(split_records(parts.pop()))  # the last one may go on
        self._rows += [self._writer.add(part) for part in parts]
        if len(self._rows) < STEP_SEGMENTS:
            # Through the store even so, so that others get their turn.
            self._store.get((), self._next)
            return
        rows, self._rows = self._rows, []
        self._store.put(rows, self._written)

    def _next(self, found: Segments | StoreFailed) -> None:
        self._step()

    def _written(self, error: CommitFailed | None) -> None:
        if error is not None:
            self._then(None, self._sources)
        else:
            self._step()

    def _finish(self) -> None:
        if self._ready:
            self._rows.append(self._writer.add(b"".join(self._ready)))
        made, rows = self._writer.finish()
        for bucket in self._sources:
            rows += bucket.removal(self._topic_id)
        self._store.put([*self._rows, *rows], lambda error: self._finished(made, error))

    def _finished(self, made: Bucket, error: CommitFailed | None) -> None:
        self._then(None if error is not None else made, self._sources)
