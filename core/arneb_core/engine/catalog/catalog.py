"""The catalog: which topics exist, and the frontends' own metadata.

The rule: it changes only through a commit. Memory holds what the disk holds, so a topic that is
found here survives a crash.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, Protocol, TypeAlias

import trio

from arneb_core.api.core import Companion, TopicWatcher, Unit
from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, LedgerId, Position
from arneb_core.api.errors import CommitFailed, TopicBusy, TopicExists, TopicNotFound
from arneb_core.api.process.callbacks import Done, call
from arneb_core.api.process.name_locks import NameLocks
from arneb_core.api.process.waiting import durable
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic
from arneb_core.cursor.cursor import Cursor
from arneb_core.delayed.bucket import Put
from arneb_core.engine.catalog.delayed_indexes import (
    IndexEngine,
    first_row,
    new_index,
    restore_index,
)
from arneb_core.engine.catalog.open_counts import OpenCounts
from arneb_core.engine.catalog.recovery import Stored, StoredCursor, recover
from arneb_core.engine.group_commit.request import Finish, Request
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic, TopicEngine
from arneb_core.log.durable_log import DurableLog
from arneb_core.log.ledgers import LedgerIndex
from arneb_core.log.memory_log import MemoryLog
from arneb_core.log.planning import LEDGER_BYTES_MAX, NO_LEDGER
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, Trim
from arneb_core.store.format.records import TopicRecord, pack_number
from arneb_core.store.format.schema import (
    META_NEXT_TOPIC_ID,
    Table,
    TopicId,
    prefixes_of,
    topic_key,
    topic_prefix,
)


class CatalogEngine(TopicEngine, IndexEngine, Protocol):
    """What the catalog asks of the engine."""

    def request(self, unit: Unit, finish: Finish) -> Request:
        """Return ``unit`` as a request."""


OnlyIf: TypeAlias = Callable[[Topic], bool] | None
"""Asked of a topic about to be deleted, if at all: it goes if the answer is yes."""

LOADED_MAX: Final = 100
"""Topics and subscriptions that a start creates in one turn: some 5 ms of work."""


class _Pieces:
    """Splits the creation of topics and subscriptions into turns."""

    def __init__(self) -> None:
        self._made = 0

    async def next(self) -> None:
        """Count one more, and let others run after every :data:`LOADED_MAX`."""
        if self._made % LOADED_MAX == LOADED_MAX - 1:
            await trio.lowlevel.checkpoint()
        self._made += 1


class Catalog:
    """The topics of one engine."""

    def __init__(self, engine: CatalogEngine) -> None:
        self._engine = engine
        self.topics: dict[str, LogTopic] = {}
        self.metadata: dict[str, bytes] = {}
        self.watchers: list[TopicWatcher] = []
        self.companions: list[Companion] = []
        self._next_topic_id = 1
        self._delays_unrecorded: set[LogTopic] = set()
        """Topics whose delayed index the disk may not know of yet."""
        self._expiry_unrecorded: set[LogTopic] = set()
        """Topics whose expiring entries the disk may not know of yet."""
        self.locks = NameLocks()
        """Held until a change of topics or subscriptions is durable. A topic's change holds its
        name; a subscription's change holds the pair of names and shares the topic's."""

    def __repr__(self) -> str:
        return f"<Catalog {len(self.topics)} topics>"

    async def load(self, store: Store, counts: OpenCounts) -> bool:
        """Take in what ``store`` holds, read off the event loop; True when the last stop was clean.
        Raises :class:`ValueError`, and :class:`CommitFailed` when a repaired index cannot be
        committed."""
        found = await trio.to_thread.run_sync(_recovered, store, counts)
        self._next_topic_id = found.next_topic_id
        self.metadata = found.metadata
        pieces = _Pieces()
        for stored in found.topics:
            await pieces.next()
            topic = self._make_topic(
                stored.id, stored.name, stored.settings, stored.ledgers, stored.gaps, stored.used
            )
            topic.log.stamped_ms = stored.stamped_ms
            topic.log.has_expiring = stored.expiring
            if stored.delayed:
                topic.delayed = await restore_index(topic, self._engine, store, self.put)
            self.topics[topic.name] = topic
            for cursor in stored.cursors:
                await pieces.next()
                self._bring_back(topic, cursor, clean=found.clean)
        return found.clean

    def _bring_back(self, topic: LogTopic, cursor: StoredCursor, *, clean: bool) -> None:
        """Restore a stored subscription. ``clean``: the last stop was clean."""
        # Suspect entries, which may have been delivered before, stay suspect however this run ends.
        # After a crash every entry on disk may have been delivered.
        stored = Position(cursor.read_position - 1)
        suspect = stored if clean else topic.last or BEFORE_ALL
        label = f"subscription {cursor.name!r} of topic {topic.name!r}"
        position = Cursor(
            topic.log, cursor.acks, furthest=suspect, label=label, is_stored=suspect <= stored
        )
        position.skip_missing()
        topic.adopt(
            LogSubscription(
                self._engine,
                topic,
                cursor.name,
                cursor.id,
                position,
                suspect_until=suspect,
                properties=cursor.properties,
            )
        )

    def expect_expiry(self, topic: LogTopic) -> None:
        """Record that entries with their own expiry follow; durable with the first of them."""
        if topic.log.has_expiring and topic not in self._expiry_unrecorded:
            return
        topic.log.has_expiring = True
        self._record(topic, self._expiry_unrecorded, [])

    def expect_delays(self, topic: LogTopic) -> None:
        """Give the topic an index for delayed entries; durable with the first of them."""
        if topic.delayed is None:
            topic.delayed = new_index(topic, self._engine)
            for subscription in topic.subscriptions.values():
                subscription.expect_delays()
        elif topic not in self._delays_unrecorded:
            return
        self._record(topic, self._delays_unrecorded, [first_row(topic)] if topic.durable else [])

    def _record(self, topic: LogTopic, unrecorded: set[LogTopic], rows: list[Put]) -> None:
        """Commit the topic's current record and ``rows``, with the entries about to be appended or
        before them."""
        if not topic.durable or self.topics.get(topic.name) is not topic:
            return
        # Repeated until it is on disk: whichever commit fails, each entry is in a commit that has
        # the record, or after one.
        unrecorded.add(topic)

        def done(error: CommitFailed | None, _: object) -> None:
            if error is None:
                unrecorded.discard(topic)

        request = Request(done, rows_of=topic)
        request.puts = [_record_of(topic), *rows]
        self._engine.submit(request)

    async def create_topic(
        self, name: str, settings: TopicSettings, unit: Unit | None, subscriptions: Sequence[str]
    ) -> LogTopic:
        """Create a topic; see :meth:`arneb_core.api.core.Core.create_topic`."""
        async with self.locks.holding(name):
            if name in self.topics:
                raise TopicExists(f"topic {name!r} already exists")
            topic_id = TopicId(self._next_topic_id)
            self._next_topic_id += 1
            topic = self._make_topic(topic_id, name, settings, LedgerIndex())
            puts: list[tuple[Table, bytes, bytes | None]] = []
            if settings.durable:
                puts.append(_record_of(topic))
                puts.append((Table.META, META_NEXT_TOPIC_ID, pack_number(self._next_topic_id)))
            made = [topic.new_subscription(each) for each in subscriptions]
            for _, rows in made:
                puts += rows

            def came() -> None:
                for subscription, _ in made:
                    topic.come(subscription)
                self._topic_came(topic)

            # Do not await between taking the topic's number and this: the last of several requests
            # in one commit sets the next number.
            await self.change(puts=puts, unit=unit, on_commit=came)
            return topic

    async def change_settings(self, topic: LogTopic, settings: TopicSettings) -> None:
        """Change a topic's settings, and check its retention again."""

        def changed() -> None:
            topic.settings = settings
            if isinstance(topic.log, DurableLog):
                topic.log.ledger_bytes_max = settings.ledger_bytes_max or LEDGER_BYTES_MAX
            self._engine.ledger_closed(topic)

        async with self.locks.holding(topic.name):
            if self.topics.get(topic.name) is not topic:
                raise TopicNotFound(f"no topic {topic.name!r}")
            puts = [_record_of(topic, settings)] if topic.durable else []
            await self.change(puts=puts, on_commit=changed)

    async def delete_topic(
        self, name: str, unit: Unit | None, only_if: OnlyIf, *, as_owner: bool
    ) -> None:
        """Remove a topic; see :meth:`arneb_core.api.core.Core.delete_topic`."""
        if as_owner:
            await self._delete_topic(name, unit, only_if, takes_along=True)
            return
        # Companions are not disturbed for a deletion that is refused anyway.
        self._topic_to_delete(name, only_if)
        unit = unit or Unit()
        async with AsyncExitStack() as stack:
            for companion in self.companions:
                await stack.enter_async_context(companion(name, unit))
            await self._delete_topic(name, unit, only_if, takes_along=False)

    def _topic_to_delete(self, name: str, only_if: OnlyIf) -> LogTopic:
        topic = self.topics.get(name)
        if topic is None:
            raise TopicNotFound(f"no topic {name!r}")
        if only_if is not None and not only_if(topic):
            raise TopicBusy(f"{topic!r} is in use")
        return topic

    async def _delete_topic(
        self, name: str, unit: Unit | None, only_if: OnlyIf, *, takes_along: bool
    ) -> None:
        async with self.locks.holding(name):
            # Do not await from here to the fence: what was checked must stay true.
            topic = self._topic_to_delete(name, only_if)
            topic.fence(takes_along=takes_along)
            deletes: list[tuple[Table, bytes]] = []
            prefixes: list[tuple[Table, bytes]] = []
            trims: list[Trim] = []
            if topic.durable:
                deletes.append((Table.CATALOG, topic_key(name)))
                prefixes += [(Table.CATALOG, each) for each in prefixes_of(topic.id)]
                tables = (Table.CURSORS, Table.LEDGERS, Table.DELAYED, Table.GAPS)
                prefixes += [(table, topic_prefix(topic.id)) for table in tables]
                trims.append((topic.id, Position(0), AFTER_ALL))
            try:
                await self.change(
                    deletes=deletes,
                    prefixes=prefixes,
                    trims=trims,
                    unit=unit,
                    deletes_topic=topic,
                    leaving=tuple(topic.subscriptions.values()),
                    on_commit=lambda: self._topic_gone(topic),
                )
            except BaseException:
                if not topic.gone:
                    topic.unfence()
                raise

    async def change(
        self,
        *,
        on_commit: Callable[[], None],
        puts: Sequence[tuple[Table, bytes, bytes | None]] = (),
        deletes: Sequence[tuple[Table, bytes]] = (),
        prefixes: Sequence[tuple[Table, bytes]] = (),
        trims: Sequence[Trim] = (),
        unit: Unit | None = None,
        deletes_topic: LogTopic | None = None,
        leaving: tuple[LogSubscription, ...] = (),
        rolls: LogTopic | None = None,
    ) -> None:
        """Commit a change of topics or subscriptions; visible and durable when this returns.

        Shielded from cancellation: a change that may be on disk must be in memory too.
        """

        def submit(done: Done) -> None:
            request = self._engine.request(unit or Unit(), lambda error, firsts: done(error))
            with_unit = request.on_commit

            def both() -> None:
                if with_unit is not None:
                    with_unit()
                on_commit()

            request.on_commit = both
            deleted = ((table, key, None) for table, key in deletes)
            request.puts = [*request.puts, *puts, *deleted]
            request.prefixes = prefixes
            request.trims = trims
            request.deletes_topic = deletes_topic
            request.rolls = rolls
            request.leaving = leaving
            self._engine.submit(request)

        with trio.CancelScope(shield=True):
            await durable(submit)

    async def put(self, changes: Changes) -> None:
        """Commit rows that change nothing in memory. Raises :class:`CommitFailed`."""
        await self.change(
            puts=changes.puts,
            deletes=changes.deletes,
            prefixes=changes.prefixes,
            on_commit=lambda: None,
        )

    def metadata_changed(self, changed: Sequence[tuple[str, bytes | None]]) -> None:
        """Take in frontend metadata that a commit changed."""
        for key, value in changed:
            if value is None:
                self.metadata.pop(key, None)
            else:
                self.metadata[key] = value

    def _topic_came(self, topic: LogTopic) -> None:
        self.topics[topic.name] = topic
        for watcher in self.watchers:
            call(watcher, topic.name, True)

    def _topic_gone(self, topic: LogTopic) -> None:
        topic.gone = True
        self._delays_unrecorded.discard(topic)
        self._expiry_unrecorded.discard(topic)
        self.topics.pop(topic.name, None)
        for subscription in topic.subscriptions.values():
            self._engine.forget(subscription)
        if isinstance(topic.log, DurableLog):
            topic.log.tail.clear()
        if topic.delayed is not None:
            topic.delayed.cache.clear()
        for watcher in self.watchers:
            call(watcher, topic.name, False)

    def _make_topic(
        self,
        topic_id: TopicId,
        name: str,
        settings: TopicSettings,
        ledgers: LedgerIndex,
        gaps: Sequence[tuple[Position, Position]] = (),
        used: LedgerId = NO_LEDGER,
    ) -> LogTopic:
        log: DurableLog | MemoryLog
        if settings.durable:
            log = DurableLog(
                topic_id,
                ledgers,
                self._engine.reader,
                self._engine.budget,
                ledger_bytes_max=settings.ledger_bytes_max or LEDGER_BYTES_MAX,
                gaps=gaps,
                used=used,
            )
        else:
            log = MemoryLog()
        return LogTopic(self._engine, topic_id, name, settings, log)


def _recovered(store: Store, counts: OpenCounts) -> Stored:
    """Recover in a worker thread."""
    with store.snapshot() as snapshot:
        return recover(snapshot, counts)


def _record_of(
    topic: LogTopic, settings: TopicSettings | None = None
) -> tuple[Table, bytes, bytes | None]:
    """Return the topic's row, with ``settings`` in place of its own if given."""
    settings = settings or topic.settings
    record = TopicRecord(
        topic.id,
        settings.durable,
        settings.retention_ms,
        settings.retention_bytes,
        dict(settings.properties),
        topic.log.has_expiring,
        settings.ledger_bytes_max,
        topic.delayed is not None,
    )
    return Table.CATALOG, topic_key(topic.name), record.pack()
