"""The engine: every topic of one data directory, in one event loop.

The rule: it implements :class:`arneb_core.api.core.Core` and owns what the parts share: the two
threads, the pump, the committer and the catalog. Topics and subscriptions change only through a
commit; memory follows the disk, never the reverse. The module is longer than most because it has a
method for each of the interface's; the parts do the work.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType

import trio

from arneb_core.api.core import Companion, TopicWatcher, Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import (
    CommitFailed,
    StoreUnusable,
    TopicFenced,
    TopicNotFound,
    describe,
)
from arneb_core.api.nodes.lease import Lease
from arneb_core.api.process.callbacks import Appended, Done
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.process.resource_alarms import Resource, Short
from arneb_core.api.process.supervision import shielded_nursery, supervise
from arneb_core.api.process.waiting import durable
from arneb_core.api.statistics import READER_LIMIT_S, EngineStatistics
from arneb_core.api.topics.settings import (
    DEFAULT_DELAYS,
    NOTHING_KEPT,
    DelayedSettings,
    Retention,
    TopicSettings,
)
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.catalog.catalog import Catalog
from arneb_core.engine.catalog.open_counts import OpenCounts
from arneb_core.engine.group_commit.committer import Committer
from arneb_core.engine.group_commit.recording import keep_history
from arneb_core.engine.group_commit.request import Finish, Request
from arneb_core.engine.group_commit.units import is_refused, metadata_puts, request_of
from arneb_core.engine.lease import WITHOUT_END
from arneb_core.engine.scheduling.steps import Steps
from arneb_core.engine.statistics import statistics_of
from arneb_core.engine.threads.loop_calls import LoopCalls
from arneb_core.engine.threads.reader import Reader
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log.memory_log import MemoryLog
from arneb_core.log.tail_cache import CacheBudget
from arneb_core.store.commit.commit_log import CommitLog
from arneb_core.store.commit.local import CommittingStore, InLoop, LocalCommitLog
from arneb_core.store.data_file.readers import ReaderWatch
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import META_CLEAN, Table
from arneb_core.subscription.sources.backlog import AheadBudget

MakeLog = Callable[[CommittingStore, InLoop], CommitLog]
"""Makes the commit log of a store, given how to call into the event loop."""


class Engine(Steps):
    """The shared log of one data directory (:class:`arneb_core.api.core.Core`)."""

    def __init__(
        self,
        store: Store,
        log: CommitLog,
        call_soon: InLoop,
        now_ms: Callable[[], int],
        retention: Retention,
        delays: DelayedSettings = DEFAULT_DELAYS,
        lease: Lease = WITHOUT_END,
    ) -> None:
        self._store = store
        self.retention = retention
        """For topics that set none of their own."""
        self.delays = delays
        self.now_ms = now_ms
        self._log = log
        self.reader = Reader(store, call_soon)
        self.budget = CacheBudget()
        self.ahead = AheadBudget()
        super().__init__(Committer(log, now_ms, self._leadership_lost), now_ms, lease)
        self.catalog = Catalog(self)

    def __repr__(self) -> str:
        return f"<Engine {len(self.catalog.topics)} topics, {self._committer!r}>"

    # What frontends call (arneb_core.api.core.Core)

    def append(
        self,
        topic: Topic,
        entries: list[bytes],
        done: Appended,
        messages: int | None = None,
        metadata: Sequence[tuple[str, bytes | None]] = (),
        *,
        passes_over_gone: bool = False,
        size: int | None = None,
    ) -> None:
        """Append one run to one topic; see the interface."""
        assert isinstance(topic, LogTopic), "topics come from this engine"
        if topic.fenced and topic.refuses(passes_over_gone):
            refusal = self._refusal(topic)
            self._completed.append(lambda: done(refusal, Position(0)))
        elif isinstance(topic.log, MemoryLog) and not topic.appends_held_up:
            first = topic.append_now(entries, messages)
            self._completed.append(lambda: done(None, first))
        elif isinstance(topic.log, MemoryLog):
            self._append_after(topic, entries, messages, done)
        else:
            request = Request(
                appended=done,
                appends=[(topic, entries, messages)],
                entries=len(entries),
                size=sum(map(len, entries)) if size is None else size,
                passes_over_gone=passes_over_gone,
            )
            if metadata:
                request.puts = metadata_puts(metadata)
                request.on_commit = partial(self.catalog.metadata_changed, metadata)
            self.submit(request)
            return
        self._pump.wake()

    def expect_expiry(self, topic: Topic) -> None:
        """Announce entries with an expiry; see the interface."""
        assert isinstance(topic, LogTopic), "topics come from this engine"
        self.catalog.expect_expiry(topic)

    def expect_delays(self, topic: Topic) -> None:
        """Announce delayed entries; see the interface."""
        assert isinstance(topic, LogTopic), "topics come from this engine"
        self.catalog.expect_delays(topic)

    def commit(self, unit: Unit, done: Done) -> bool:
        """Commit a unit atomically; see the interface."""
        if is_refused(unit):
            self.tell(done, self._refusal(unit))
            return False
        request = self.request(unit, lambda error, firsts: done(error))
        at_once = not request.is_durable and not request.is_held_up
        if at_once:
            if request.on_commit is not None:
                request.on_commit()
            self.tell(done, None)
        else:
            self.submit(request)
        return at_once

    async def committed(self, unit: Unit) -> None:
        """Commit a unit and wait until it is durable."""
        await durable(lambda done: self.commit(unit, done))

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not stored yet."""
        return self._committer.waiting_bytes

    @property
    def crowded(self) -> bool:
        """Publishers must pause."""
        return self._committer.crowded

    async def room(self) -> None:
        """Wait until not :attr:`crowded`."""
        await self._committer.room()

    def topic(self, name: str) -> LogTopic:
        """Return the topic of that name."""
        topic = self.catalog.topics.get(name)
        if topic is None:
            raise TopicNotFound(f"no topic {name!r}")
        return topic

    @property
    def topics(self) -> Mapping[str, LogTopic]:
        return MappingProxyType(self.catalog.topics)

    async def create_topic(
        self,
        name: str,
        settings: TopicSettings | None = None,
        *,
        unit: Unit | None = None,
        subscriptions: Sequence[str] = (),
    ) -> LogTopic:
        """Create a topic, with ``unit`` in the same commit; see the interface."""
        settings = settings or TopicSettings()
        return await self.catalog.create_topic(name, settings, unit, subscriptions)

    async def delete_topic(
        self,
        name: str,
        *,
        unit: Unit | None = None,
        only_if: Callable[[Topic], bool] | None = None,
        as_owner: bool = False,
    ) -> None:
        """Delete a topic and everything in it; see the interface."""
        await self.catalog.delete_topic(name, unit, only_if, as_owner=as_owner)

    async def keep_history(self, topic: Topic, subscription: str) -> None:
        """Record what happens to a subscription; see the interface."""
        await keep_history(self, topic, subscription)

    def accompany_deletions(self, companion: Companion) -> None:
        """Have ``companion`` take part when a topic is deleted; see the interface."""
        self.catalog.companions.append(companion)

    def watch_topics(self, watcher: TopicWatcher) -> None:
        """Tell ``watcher`` of topics that come and go."""
        self.catalog.watchers.append(watcher)

    def metadata(self, prefix: str) -> Mapping[str, bytes]:
        """Frontend metadata by key, in key order."""
        found = sorted(each for each in self.catalog.metadata.items() if each[0].startswith(prefix))
        return MappingProxyType(dict(found))

    def statistics(self) -> EngineStatistics:
        """The engine at this instant."""
        return statistics_of(
            len(self.catalog.topics), self._committer, self._store, self._maintenance, self.reader,
            self.budget,
        )  # fmt: skip

    def room_inside(self) -> int:
        """Return the free bytes inside the data file, which are used before it grows. Reads the
        store; may be called in any thread. Raises :class:`StoreFailed`."""
        return self._store.free_bytes

    def alarms_changed(self, short: Short) -> None:
        """Note whether the disk is short: if so, ledgers end once they are fully acknowledged."""
        self._maintenance.room_is_short = Resource.DISK in short

    @property
    def commits_at_once(self) -> int:
        """How many commits may be under way at once."""
        return self._log.depth

    @property
    def is_quiet(self) -> bool:
        """No commit is under way, nothing waits for one, and nothing is to be dispatched."""
        return self._committer.is_idle and not (self.has_more or self.reader.requests_open)

    # What the catalog calls

    def request(self, unit: Unit, finish: Finish) -> Request:
        """Return ``unit`` as a request."""
        return request_of(unit, finish, self.catalog.metadata_changed)

    # Inside

    def _refusal(self, asked: object) -> CommitFailed:
        """Return the reason why a fenced topic takes nothing in."""
        if self._committer.breakage.error is not None:
            return self._committer.breakage.refusal
        return TopicFenced(f"{asked!r:.200} is being deleted, or has gone")

    def _leadership_lost(self) -> None:
        """Deliver and take in nothing more: another node takes over."""
        for topic in self.catalog.topics.values():
            topic.fenced, topic.takes_along = True, False
            for subscription in list(topic.subscriptions.values()):
                subscription.machine.put_out("leadership lost")

    def _append_after(
        self, topic: LogTopic, entries: list[bytes], messages: int | None, done: Appended
    ) -> None:
        """Append to a topic kept in memory, after requests that wait for a commit."""
        placed: list[Position] = []
        request = Request(
            lambda error, firsts: done(error, placed[0] if placed else Position(0)),
            size=sum(map(len, entries)),
            in_memory=[topic],
            on_commit=lambda: placed.append(topic.append_now(entries, messages)),
        )
        self._committer.add(request)

    async def broken(self) -> None:
        """Wait until the engine cannot continue; see :mod:`.group_commit.breakage`. It is then
        about to be closed by an :class:`EngineBroken` out of :func:`open_engine`."""
        await self._committer.breakage.wait()

    async def _begin(self, store: Store, counts: OpenCounts) -> StoreUnusable | None:
        """Take in what ``store`` holds; return the reason if that is impossible."""
        if self._log.needs_takeover:
            with suppress(CommitFailed):  # on a full disk it stays in the log, and counts
                await self.catalog.put(Changes())
            self._committer.needs_takeover = self._log.needs_takeover
        self._log.prepare()
        try:
            if await self.catalog.load(store, counts):
                await self.catalog.put(Changes(deletes=[(Table.META, META_CLEAN)]))
        except Exception as error:
            # Damaged rows can say anything, so any exception may come of them here. `arneb check`
            # reports more than the first thing that went wrong.
            refused = StoreUnusable(f"cannot use the store in {store.path}: {describe(error)}")
            refused.__cause__ = error
            return refused
        return None

    async def _stop(self) -> None:
        """Write the cursors and mark the stop as clean."""
        if self._committer.breakage.error is not None:
            return  # memory may differ from disk
        self._committer.stop()
        for topic in self.catalog.topics.values():
            topic.fenced = True
            for subscription in list(topic.subscriptions.values()):
                subscription.machine.put_out("shutdown")  # some go with their last consumer
                if subscription.durable and not subscription.machine.is_stored:
                    self._committer.cursor_changed(subscription, None)
        await self._committer.idle()
        self._committer.flush_cursors()
        self._committer.start()
        await self._committer.idle()
        if not self._committer.has_dirty:
            request = Request(lambda error, firsts: None)
            request.puts = [(Table.META, META_CLEAN, b"")]
            self._committer.add(request)
            self._committer.start()
            await self._committer.idle()


@asynccontextmanager
async def open_engine(
    path: str | os.PathLike[str],
    *,
    store: Store | None = None,
    committing: CommittingStore | None = None,
    commit_log: MakeLog | None = None,
    now_ms: Callable[[], int] = wall_clock_ms,
    retention: Retention = NOTHING_KEPT,
    delays: DelayedSettings = DEFAULT_DELAYS,
    reader_limit_s: float = READER_LIMIT_S,
    lease: Lease = WITHOUT_END,
    counts: OpenCounts | None = None,
) -> AsyncIterator[Engine]:
    """Open the engine over the data directory ``path``, and run it while the block runs.

    Raises :class:`.StoreUnusable`; out of the block, :class:`.EngineBroken` when a commit could not
    be carried through in memory, and :class:`.EngineFenced` when another node leads. Leaving the
    block, by an exception too, detaches all consumers, writes what is not written yet and marks the
    stop as clean. ``retention`` is for topics that set none of their own. Readers of the store that
    take longer than ``reader_limit_s`` are told to start over. ``commit_log`` makes commits
    durable, by default LMDB and its journal; while ``lease`` does not hold, nothing is delivered.
    ``counts`` were made before. Tests pass ``store`` and a faulty ``committing``."""
    opened = await trio.to_thread.run_sync(Store.open, path) if store is None else store
    try:
        log = (commit_log or LocalCommitLog)(committing or opened, calls := LoopCalls())
        engine = Engine(opened, log, calls, now_ms, retention, delays, lease)
        calls.waits_for_others = engine.others_came
        refused: StoreUnusable | None = None
        try:
            async with trio.open_nursery() as outer:
                nursery: trio.Nursery = await outer.start(shielded_nursery)
                nursery.start_soon(
                    supervise, "calls from threads", calls.run, name="calls from threads"
                )
                nursery.start_soon(
                    supervise, "the dispatch pump", engine._pump.run, name="the dispatch pump"
                )
                # Outside the pump's nursery: the pump has to tell everybody that requests fail.
                outer.start_soon(engine._committer.breakage.end)
                try:
                    lease.listen(engine._pump.wake)
                    refused = await engine._begin(opened, counts or OpenCounts())
                    if refused is None:
                        engine._maintenance.readers = ReaderWatch(
                            opened.path, opened.readers, limit_s=reader_limit_s
                        )
                        engine._maintenance.start(nursery, opened, engine.catalog.topics.values)
                        try:
                            yield engine
                        finally:
                            with trio.CancelScope(shield=True):
                                await engine._stop()
                finally:
                    lease.leave(engine._pump.wake)
                    nursery.cancel_scope.cancel()
                    outer.cancel_scope.cancel()
        finally:
            log.close()
            engine.reader.stop()
            calls.close()
        if refused is not None:
            raise refused
    finally:
        if store is None:
            opened.close()
