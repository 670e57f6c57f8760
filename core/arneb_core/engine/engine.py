"""The engine: every topic of one data directory, in one event loop.

The rule: it implements :class:`arneb_core.api.core.Core` and owns what the parts share,
that is the two threads, the pump, the committer and the catalog. Topics and
subscriptions change only through a commit; memory follows the disk, never the reverse.
It is longer than most because it has one method for each of the interface's; what they do
stands in the parts.
"""

import logging
import os
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Final, ParamSpec

import trio

from arneb_core.api.callbacks import Appended, Done, call
from arneb_core.api.clock import wall_clock_ms
from arneb_core.api.core import Companion, TopicWatcher, Unit
from arneb_core.api.errors import (
    CommitFailed,
    StoreUnusable,
    TopicFenced,
    TopicNotFound,
    describe,
)
from arneb_core.api.position import Position
from arneb_core.api.resource_alarms import Resource, Short
from arneb_core.api.settings import (
    DEFAULT_DELAYS,
    NOTHING_KEPT,
    DelayedSettings,
    Retention,
    TopicSettings,
)
from arneb_core.api.statistics import READER_LIMIT_S, EngineStatistics
from arneb_core.api.supervision import shielded_nursery, supervise
from arneb_core.api.topics import Topic
from arneb_core.api.waiting import durable
from arneb_core.engine.catalog import Catalog, metadata_puts
from arneb_core.engine.committer import Committer
from arneb_core.engine.io_threads import Reader
from arneb_core.engine.loop_calls import LoopCalls
from arneb_core.engine.maintenance import Upkeep
from arneb_core.engine.pump import Pump
from arneb_core.engine.request import Finish, Request
from arneb_core.engine.subscription import LogSubscription
from arneb_core.engine.topic import LogTopic
from arneb_core.engine.units import is_refused, request_of
from arneb_core.log.log import MemoryLog
from arneb_core.log.stamps import stamp_of, stamped_from
from arneb_core.log.tail_cache import CacheBudget
from arneb_core.store.changes import Changes
from arneb_core.store.commit.commit_log import CommitLog
from arneb_core.store.commit.local import CommittingStore, InLoop, LocalCommitLog
from arneb_core.store.environment import Store
from arneb_core.store.readers import ReaderWatch
from arneb_core.store.schema import (
    META_CLEAN,
    Table,
)
from arneb_core.subscription.dispatch_loop import DISPATCH_ENTRIES_MAX
from arneb_core.subscription.sources.backlog import AheadBudget

STEP_ENTRIES_MAX: Final = 4 * DISPATCH_ENTRIES_MAX
"""What all subscriptions together dispatch before connections get their turn."""

TURN_ENTRIES: Final = 8
"""What a subscription's turn costs of that at least, so that many with little to do do not
take the loop for long either."""

MakeLog = Callable[[CommittingStore, InLoop], CommitLog]
"""Makes the commit log of a store, given how to call into the event loop."""

logger = logging.getLogger(__name__)

P = ParamSpec("P")


class Engine:
    """The shared log of one data directory (:class:`arneb_core.api.core.Core`)."""

    def __init__(
        self,
        store: Store,
        log: CommitLog,
        call_soon: InLoop,
        now_ms: Callable[[], int],
        retention: Retention,
        delays: DelayedSettings = DEFAULT_DELAYS,
    ) -> None:
        self._store = store
        self.retention = retention
        """For topics that ask for none of their own."""
        self.delays = delays
        self.now_ms = self._now_ms = now_ms
        self._log = log
        self.reader = Reader(store, call_soon)
        self.budget = CacheBudget()
        self.ahead = AheadBudget()
        self._committer = Committer(log, now_ms, self._leadership_lost)
        self._pump = Pump(self._step)
        self._ready: OrderedDict[LogSubscription, None] = OrderedDict()
        self._trimmable: dict[LogTopic, None] = {}
        self._completed: deque[Callable[[], None]] = deque()
        self._after_dispatch: dict[Callable[[], None], None] = {}
        self._upkeep = Upkeep(self._committer, self._pump.wake, now_ms)
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
    ) -> None:
        """One run into one topic; see the interface."""
        assert isinstance(topic, LogTopic), "topics come from this engine"
        if topic.fenced and topic.refuses(passes_over_gone):
            refusal = self._refusal(topic)
            self._completed.append(lambda: done(refusal, Position(0)))
        elif isinstance(topic.log, MemoryLog) and not topic.appends_held_up:
            first = self._append_in_memory(topic, entries, messages)
            self._completed.append(lambda: done(None, first))
        elif isinstance(topic.log, MemoryLog):
            self._append_behind(topic, entries, messages, done)
        else:
            request = Request(
                lambda error, firsts: done(error, firsts[0] if firsts else Position(0)),
                [(topic, entries, messages)],
                entries=len(entries),
                size=sum(map(len, entries)),
                passes_over_gone=passes_over_gone,
            )
            if metadata:
                request.puts = metadata_puts(metadata)
                request.on_commit = partial(self.catalog.metadata_changed, metadata)
            self._committer.add(request)
        self._pump.wake()

    def expect_expiry(self, topic: Topic) -> None:
        """Entries with an expiry are about to come; see the interface."""
        assert isinstance(topic, LogTopic), "topics come from this engine"
        self.catalog.expect_expiry(topic)

    def expect_delays(self, topic: Topic) -> None:
        """Delayed entries are about to come; see the interface."""
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
            self._completed.append(lambda: done(None))
        else:
            self._committer.add(request)
        self._pump.wake()
        return at_once

    async def committed(self, unit: Unit) -> None:
        """:meth:`commit`, waited for."""
        await durable(lambda done: self.commit(unit, done))

    def after_dispatch(self, back: Callable[[], None]) -> bool:
        """Have ``back`` called behind the deliveries that are ready; see the interface."""
        if self._ready:
            self._after_dispatch[back] = None
            return True
        return False

    @property
    def crowded(self) -> bool:
        """Publishers must pause."""
        return self._committer.crowded

    async def room(self) -> None:
        """Wait until not :attr:`crowded`."""
        await self._committer.room()

    def topic(self, name: str) -> LogTopic:
        """The topic of that name."""
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
        """Make a topic, with ``unit`` in the same commit; see the interface."""
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
        """Remove a topic with all that it holds; see the interface."""
        await self.catalog.delete_topic(name, unit, only_if, as_owner=as_owner)

    def accompany_deletions(self, companion: Companion) -> None:
        """Have ``companion`` take part when a topic is deleted; see the interface."""
        self.catalog.companions.append(companion)

    def watch_topics(self, watcher: TopicWatcher) -> None:
        """Have ``watcher`` told of topics that come and go."""
        self.catalog.watchers.append(watcher)

    def metadata(self, prefix: str) -> Mapping[str, bytes]:
        """Frontend metadata by key, in key order."""
        found = sorted(each for each in self.catalog.metadata.items() if each[0].startswith(prefix))
        return MappingProxyType(dict(found))

    def statistics(self) -> EngineStatistics:
        """The engine at this instant."""
        return EngineStatistics(
            topics=len(self.catalog.topics),
            commits_total=self._committer.commits_total,
            entries_total=self._committer.entries_total,
            commit_failures_total=self._committer.failures_total,
            waiting_bytes=self._committer.waiting_bytes,
            cache_bytes=self.budget.bytes,
            store_bytes=self._store.size_bytes,
            full=self._committer.full,
            read_failures_total=self._upkeep.read_failures_total,
            long_readers=self._upkeep.readers.long if self._upkeep.readers else (),
        )

    def room_inside(self) -> int:
        """Bytes of the data file that hold nothing and are used again before it grows. Costs a
        read of the store; may be called in any thread. Raises :class:`StoreFailed`."""
        return self._store.free_bytes

    def shortages_changed(self, short: Short) -> None:
        """While the disk is short, ledgers end as soon as all of them is acknowledged."""
        self._upkeep.room_is_short = Resource.DISK in short

    @property
    def commits_at_once(self) -> int:
        """How many commits may be under way together."""
        return self._log.depth

    @property
    def is_quiet(self) -> bool:
        """No commit is under way, nothing waits for one, and nothing is to be dispatched."""
        reading = self.reader.requests_open
        return self._committer.is_idle and not (self._ready or self._completed or reading)

    # What topics and subscriptions call

    def has_work(self, subscription: LogSubscription) -> None:
        """Have ``subscription`` dispatch at the next step."""
        if subscription.machine.state.is_resting:
            return
        self._ready[subscription] = None
        self._pump.wake()

    def cursor_changed(self, subscription: LogSubscription, done: Done | None) -> None:
        """Have the cursor written: at once if somebody waits for it, else soon."""
        if subscription.durable and not subscription.gone:
            self._committer.cursor_changed(subscription, done)
            self._upkeep.cursor_changed()
        else:
            self._trimmable[subscription.topic] = None
            if done is not None:
                self.tell(done, None)
        if done is not None or not subscription.durable:
            self._pump.wake()

    def tell(self, done: Done, error: CommitFailed | None) -> None:
        """Call ``done`` soon, for what needs no commit."""
        self._completed.append(lambda: done(error))
        self._pump.wake()

    def complete(self, back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Have ``back`` called in the next step."""
        self._completed.append(partial(back, *args, **kwargs))
        self._pump.wake()

    def wake_at(self, subscription: LogSubscription, when_ms: int) -> None:
        """Have ``subscription`` dispatch at ``when_ms``."""
        self._upkeep.wake_at(subscription, when_ms)

    def unreadable(self, subscription: LogSubscription) -> None:
        """A read failed for ``subscription``; have it tried again."""
        self._upkeep.unreadable(subscription)

    def request(self, unit: Unit, finish: Finish) -> Request:
        """``unit`` as a request."""
        return request_of(unit, finish, self._append_in_memory, self.catalog.metadata_changed)

    def has_appends(self, topic: LogTopic) -> bool:
        """Something is on its way into ``topic``."""
        return self._committer.has_appends(topic)

    def turn_failed(self, subscription: LogSubscription, error: Exception) -> None:
        """A defect of ours showed in a turn of ``subscription``. It starts over a little later;
        the others go on."""
        logger.error("error in %r; it is rebuilt from the store", subscription, exc_info=error)
        call(subscription.machine.start_over)
        self._ready.pop(subscription, None)
        self.try_again(subscription)

    def try_again(self, subscription: LogSubscription) -> None:
        """Something of ``subscription`` failed; have it tried again a little later."""
        self._upkeep.try_again(subscription)

    def submit(self, request: Request) -> None:
        """Have ``request`` committed."""
        self._committer.add(request)
        self._pump.wake()

    def forget(self, subscription: LogSubscription) -> None:
        """The subscription is gone: nothing of it is to be written or dispatched any more."""
        subscription.machine.removed()
        self._upkeep.alarms.forget(subscription)
        self._committer.forget_cursor(subscription)
        self._ready.pop(subscription, None)

    def cursor_gone(self, subscription: LogSubscription) -> None:
        """The subscription was removed."""
        self.forget(subscription)
        self.ledger_closed(subscription.topic)

    def ledger_closed(self, topic: LogTopic) -> None:
        """A ledger of ``topic`` may be ready to go though no cursor moved."""
        if topic.durable:
            self._committer.trim_due(topic)
        else:
            self._trimmable[topic] = None
        self._pump.wake()

    # Inside

    def _refusal(self, asked: object) -> CommitFailed:
        """Why nothing comes into a topic that is fenced."""
        if self._committer.breakage.error is not None:
            return self._committer.breakage.refusal
        return TopicFenced(f"{asked!r:.200} is being deleted, or has gone")

    def _leadership_lost(self) -> None:
        """Another node goes on from here: nothing more is delivered or taken in."""
        for topic in self.catalog.topics.values():
            topic.fenced, topic.takes_along = True, False
            for subscription in list(topic.subscriptions.values()):
                subscription.machine.put_out("leadership lost")

    def _append_in_memory(
        self, topic: LogTopic, entries: list[bytes], messages: int | None
    ) -> Position:
        if topic.gone:
            return Position(0)
        if entries:
            if stamp_of(entries[0]) < topic.log.stamped_ms:
                entries = stamped_from(entries, topic.log.stamped_ms, {})
            topic.log.stamped_ms = stamp_of(entries[-1])
        run = topic.log.plan(entries, messages, self._now_ms())
        topic.confirm(run)
        return run.first

    def _append_behind(
        self, topic: LogTopic, entries: list[bytes], messages: int | None, done: Appended
    ) -> None:
        """Append to a topic kept in memory behind what waits for a commit."""
        placed: list[Position] = []
        request = Request(
            lambda error, firsts: done(error, placed[0] if placed else Position(0)),
            size=sum(map(len, entries)),
            in_memory=[topic],
            on_commit=lambda: placed.append(self._append_in_memory(topic, entries, messages)),
        )
        self._committer.add(request)

    def _step(self) -> bool:
        """One step of the pump; True when there is more to do at once."""
        # The commit first: the disk works while the rest of the step is done.
        self._committer.start()
        for _ in range(len(self._completed)):  # what these bring about is for the next step
            call(self._completed.popleft())
        self._dispatch()
        trimmable, self._trimmable = self._trimmable, {}
        for topic in trimmable:
            call(topic.trim_memory)
        self._committer.start()
        return bool(self._ready or self._completed)

    def _dispatch(self) -> None:
        """Give the subscriptions that are ready their turns, first come first served."""
        left = STEP_ENTRIES_MAX
        topics: dict[LogTopic, None] = {}
        for _ in range(len(self._ready)):
            if left <= 0 or not self._ready:  # a turn may end others
                break
            subscription, _none = self._ready.popitem(last=False)
            try:
                taken = subscription.turn()
            except Exception as error:
                self.turn_failed(subscription, error)
                taken = 0
            if taken >= DISPATCH_ENTRIES_MAX:
                self._ready[subscription] = None
            left -= max(taken, TURN_ENTRIES)
            topics[subscription.topic] = None
        for topic in topics:
            call(topic.dispatched)
        if self._after_dispatch:
            backs, self._after_dispatch = self._after_dispatch, {}
            for back in backs:
                call(back)

    async def broken(self) -> None:
        """Wait until the engine cannot go on; see :mod:`.breakage`. It is about to be
        closed then, by an :class:`EngineBroken` out of :func:`open_engine`."""
        await self._committer.breakage.wait()

    async def _begin(self, store: Store) -> StoreUnusable | None:
        """Take in what ``store`` holds; why that cannot be."""
        if self._log.is_unsettled:
            with suppress(CommitFailed):  # on a full disk it stays in the log, and counts
                await self.catalog.put(Changes())
            self._committer.unsettled = self._log.is_unsettled
        self._log.prepare()
        try:
            if await self.catalog.load(store):
                await self.catalog.put(Changes(deletes=[(Table.META, META_CLEAN)]))
        except Exception as error:
            # Rows that are damaged can say anything, and so anything may come of them here.
            # `arneb check` tells more than the first thing that went wrong.
            refused = StoreUnusable(f"cannot use the store in {store.path}: {describe(error)}")
            refused.__cause__ = error
            return refused
        return None

    async def _stop(self) -> None:
        """Write the cursors and say that all is well."""
        if self._committer.breakage.error is not None:
            return  # what is in memory may not be what is on disk
        self._committer.stop()
        for topic in self.catalog.topics.values():
            topic.fenced = True
            for subscription in list(topic.subscriptions.values()):
                subscription.machine.put_out("shutdown")  # some go with their last consumer
                if subscription.durable:
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
) -> AsyncIterator[Engine]:
    """The engine over the data directory ``path``, running while the block does.

    Raises :class:`.StoreUnusable`, and out of the block :class:`.EngineBroken` when a commit could
    not be carried through in memory, and :class:`.EngineFenced` when another node leads. Leaving
    the block detaches all consumers, writes what is not written yet and marks the stop as clean; a
    block left by an exception is closed the same way. ``retention`` is for topics that ask for none
    of their own. Who reads the store for longer than ``reader_limit_s`` is told to begin anew. What
    makes commits durable is ``commit_log``, else LMDB and its journal. Tests pass ``store`` and a
    faulty ``committing``.
    """
    opened = store or Store.open(path)
    try:
        calls = LoopCalls()
        log = (commit_log or LocalCommitLog)(committing or opened, calls)
        engine = Engine(opened, log, calls, now_ms, retention, delays)
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
                # Not beside the pump, which has to tell everybody that nothing comes of it.
                outer.start_soon(engine._committer.breakage.end)
                try:
                    refused = await engine._begin(opened)
                    if refused is None:
                        engine._upkeep.readers = ReaderWatch(
                            opened.path, opened.readers, limit_s=reader_limit_s
                        )
                        engine._upkeep.start(nursery, opened, engine.catalog.topics.values)
                        try:
                            yield engine
                        finally:
                            with trio.CancelScope(shield=True):
                                await engine._stop()
                finally:
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
