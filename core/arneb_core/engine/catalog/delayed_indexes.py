"""Delayed indexes: created for a topic, restored at a start, and kept in the store.

The rule: the log is authoritative. Buckets are believed if they are whole; entries after them are
found by reading the log; a damaged index is discarded and rebuilt from the whole log, one bucket at
a time, so that memory does not grow with the log.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

import trio
from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey, keys_in, position_of
from arneb_core.api.entries.position import BEFORE_ALL, Position, render
from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.topics.settings import DelayedSettings, TrackerKind
from arneb_core.delayed.bucket import Bucket, Put, all_members, sealed
from arneb_core.delayed.buckets import BucketDelayedDeliveryTracker
from arneb_core.delayed.index import DelayedIndex
from arneb_core.delayed.memory import InMemoryDelayedDeliveryTracker
from arneb_core.delayed.segment_store import SegmentName, Segments
from arneb_core.delayed.tracker import DelayedDeliveryTracker
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.threads.reader import Reader
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log.tail_cache import CacheBudget
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.delayed_rows import (
    pack_through,
    unpack_head,
    unpack_members,
    unpack_segment,
    unpack_through,
)
from arneb_core.store.format.schema import (
    DelayedKind,
    Table,
    TopicId,
    bucket_key,
    parse_delayed_key,
    segment_key,
    through_key,
    topic_prefix,
)
from arneb_core.store.reading.snapshot import Snapshot

Commit = Callable[[Changes], Awaitable[None]]
"""Commits rows with whatever else is waiting, and returns when they are durable."""

STRAY_ROWS_MAX: Final = 1_000
"""Rows deleted in one commit."""

logger = logging.getLogger(__name__)


class IndexEngine(Protocol):
    """What an index asks of the engine."""

    @property
    def delays(self) -> DelayedSettings: ...

    @property
    def now_ms(self) -> Callable[[], int]:
        """The time of day."""

    @property
    def budget(self) -> CacheBudget:
        """The cache memory that all topics share."""

    @property
    def reader(self) -> Reader:
        """Reads the store off the event loop."""

    def submit(self, request: Request) -> None:
        """Queue ``request`` for a commit."""


def new_index(topic: LogTopic, engine: IndexEngine) -> DelayedIndex:
    """Return the index of a topic that has had no delayed entry so far."""
    tracker: DelayedDeliveryTracker
    settings = engine.delays
    if topic.durable and settings.tracker is TrackerKind.BUCKET:
        through = topic.last or BEFORE_ALL
        tracker = BucketDelayedDeliveryTracker(
            topic.id, TopicSegmentStore(topic, engine), settings, through=through
        )
    else:
        tracker = InMemoryDelayedDeliveryTracker()
    return _index_of(topic, engine, tracker)


def _index_of(
    topic: LogTopic, engine: IndexEngine, tracker: DelayedDeliveryTracker
) -> DelayedIndex:
    return DelayedIndex(
        topic.name,
        topic.log,
        tracker,
        engine.delays,
        engine.budget,
        topic.index_readers,
        engine.now_ms(),
    )


def first_row(topic: LogTopic) -> Put:
    """Return the row which says that the log has no delayed entry before the index begins."""
    assert topic.delayed is not None, f"expected an index of {topic!r}"
    return Table.DELAYED, through_key(topic.id), pack_through(topic.delayed.since)


async def restore_index(
    topic: LogTopic, engine: IndexEngine, store: Store, commit: Commit
) -> DelayedIndex:
    """Return the index of a durable topic that may have delayed entries, read off the event loop.
    Raises :class:`.CommitFailed`."""
    tracker: DelayedDeliveryTracker
    if engine.delays.tracker is TrackerKind.MEMORY:
        end = topic.log.ledgers.last or BEFORE_ALL
        tracker = await trio.to_thread.run_sync(_all_in_memory, store, topic.id, end)
    else:
        tracker = await _restore_buckets(topic, engine, store, commit)
    return _index_of(topic, engine, tracker)


async def _restore_buckets(
    topic: LogTopic, engine: IndexEngine, store: Store, commit: Commit
) -> BucketDelayedDeliveryTracker:
    settings = engine.delays
    in_thread = trio.to_thread.run_sync
    try:
        through, buckets, stray = await in_thread(_read, store, topic.id)
    except ValueError as error:
        logger.error("rebuilding the delayed index of topic %r: %s", topic, error)
        await commit(Changes(prefixes=[(Table.DELAYED, topic_prefix(topic.id))]))
        through, buckets, stray = BEFORE_ALL, [], []
    for start in range(0, len(stray), STRAY_ROWS_MAX):
        rows = [(Table.DELAYED, key) for key in stray[start : start + STRAY_ROWS_MAX]]
        await commit(Changes(deletes=rows))
    after, end = max(through, topic.log.ledgers.floor), topic.log.ledgers.last or BEFORE_ALL
    known = all_members(buckets)
    while True:
        found = await in_thread(_after, store, topic.id, after, end, known, settings.seal_entries)
        unsealed, last = found
        if last is None:
            break
        made, rows_of_it = await in_thread(_sealed, topic.id, settings, buckets, unsealed, last)
        await commit(rows_of_it)
        buckets.append(made)
        after = through = last
    return BucketDelayedDeliveryTracker(
        topic.id,
        TopicSegmentStore(topic, engine),
        settings,
        buckets=buckets,
        unsealed=unsealed,
        through=through,
    )


# In a thread


def _all_in_memory(
    store: Store, topic_id: TopicId, end: Position
) -> InMemoryDelayedDeliveryTracker:
    """Return a tracker of all delayed entries in the log, whose last entry is ``end``."""
    with store.snapshot() as snapshot:
        keys = [key for part in _delayed(snapshot, topic_id, BEFORE_ALL, end) for key in part]
    return InMemoryDelayedDeliveryTracker(keys)


def _after(
    store: Store, topic_id: TopicId, after: Position, end: Position, known: BitMap64, most: int
) -> tuple[list[DueKey], Position | None]:
    """Return the keys of delayed entries beyond ``after`` that are not ``known``. At ``most`` keys
    the scan stops, and the last entry read is returned too: there may be others after it."""
    unsealed: list[DueKey] = []
    with store.snapshot() as snapshot:
        for keys in _delayed(snapshot, topic_id, after, end):
            unsealed += [key for key in keys if position_of(key) not in known]
            if len(unsealed) >= most:
                return sorted(unsealed), Position(max(map(position_of, keys)))
    return unsealed, None


def _sealed(
    topic_id: TopicId,
    settings: DelayedSettings,
    buckets: list[Bucket],
    keys: list[DueKey],
    through: Position,
) -> tuple[Bucket, Changes]:
    """Return the next bucket, and the changes that make it durable."""
    number = max((each.id for each in buckets), default=0) + 1
    made, rows = sealed(topic_id, number, keys, settings.segment_entries, settings.segment_ms)
    covered = (Table.DELAYED, through_key(topic_id), pack_through(through))
    return made, Changes(puts=[*rows, covered])


def _delayed(
    snapshot: Snapshot, topic_id: TopicId, after: Position, last: Position
) -> Iterator[list[DueKey]]:
    """Yield the keys of the delayed entries beyond ``after`` and up to ``last``, block by block."""
    for position, entries in snapshot.iter_blocks(topic_id, Position(after + 1), last):
        keys = keys_in(position, entries)
        if keys:
            yield keys


def _read(store: Store, topic_id: TopicId) -> tuple[Position, list[Bucket], list[bytes]]:
    """Return the position up to which buckets cover the log, the buckets, and the keys of rows that
    belong to none. Raises :class:`ValueError` when something is missing or damaged."""
    with store.snapshot() as snapshot:
        return _read_rows(snapshot, topic_id)


def _read_rows(snapshot: Snapshot, topic_id: TopicId) -> tuple[Position, list[Bucket], list[bytes]]:
    keys: dict[int, list[bytes]] = {}
    segments: dict[int, int] = {}
    for key in snapshot.keys(Table.DELAYED, topic_prefix(topic_id)):
        _, number, kind, _ = parse_delayed_key(key)
        keys.setdefault(number, []).append(key)
        if kind is DelayedKind.SEGMENT:
            segments[number] = segments.get(number, 0) + 1
    row = snapshot.get(Table.DELAYED, through_key(topic_id))
    if row is None:
        raise ValueError(f"topic {topic_id}: expected to know where the index ends")
    through = Position(unpack_through(row))
    buckets: list[Bucket] = []
    stray: list[bytes] = []
    for number in sorted(keys.keys() - {0}):
        head = snapshot.get(Table.DELAYED, bucket_key(topic_id, number, DelayedKind.HEAD))
        members = snapshot.get(Table.DELAYED, bucket_key(topic_id, number, DelayedKind.MEMBERS))
        if head is None and members is None:
            stray += keys[number]  # an unfinished merge
            continue
        spans = unpack_head(head or b"")
        if members is None or segments.get(number, 0) != len(spans):
            raise ValueError(f"topic {topic_id}: bucket {number} is not whole")
        bucket = Bucket(number, spans, unpack_members(members))
        if len(bucket.members) != bucket.entries:
            where = render(Position(bucket.members.max()))
            raise ValueError(f"topic {topic_id}: bucket {number} to {where} miscounts")
        buckets.append(bucket)
    return through, buckets, stray


class TopicSegmentStore:
    """The segments of a durable topic's index."""

    def __init__(self, topic: LogTopic, engine: IndexEngine) -> None:
        self._topic = topic
        self._engine = engine

    def __repr__(self) -> str:
        return f"<TopicSegmentStore of {self._topic.name}>"

    def put(self, rows: Sequence[Put], done: Callable[[CommitFailed | None], None]) -> None:
        """Write and delete ``rows``, unless the topic is being deleted."""
        topic = self._topic
        if topic.fenced or topic.gone:
            done(StoreFailed(f"{topic!r} is being deleted"))
            return
        request = Request(lambda error, firsts: done(error))
        request.puts = rows
        self._engine.submit(request)

    def get(
        self, names: Sequence[SegmentName], then: Callable[[Segments | StoreFailed], None]
    ) -> None:
        """Read segments off the event loop."""
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
        self._engine.reader.ask(what, job, then)

    def look_up(
        self, members: BitMap64, then: Callable[[list[DueKey] | StoreFailed], None]
    ) -> None:
        """Read from the log, off the event loop, when the entries at ``members`` come due."""
        topic_id = self._topic.id
        first, last = Position(members.min()), Position(members.max())

        def job(snapshot: Snapshot) -> list[DueKey]:
            return [
                key
                for position, entries in snapshot.iter_blocks(topic_id, first, last)
                for key in keys_in(position, entries)
                if position_of(key) in members
            ]

        self._engine.reader.ask(f"the log of {self._topic.name}", job, then)
