"""Maintenance: what an engine does from time to time without being asked.

The rule: a few loops, each asleep while it has nothing to do; the work that they find is done by
the committer and the pump like all other work. A loop that ends with an error is restarted, and
first looks for what was left undone.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, NoReturn

import trio

from arneb_core.api.errors import describe
from arneb_core.api.process.callbacks import call
from arneb_core.api.process.supervision import supervise
from arneb_core.api.subscriptions.consumer import ACK_DURABLE_WITHIN_MS
from arneb_core.engine.group_commit.committer import Committer
from arneb_core.engine.scheduling.wakeups import WakeUps
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.data_file.readers import ReaderWatch
from arneb_core.store.environment import Store

CURSOR_FLUSH_S: Final = ACK_DURABLE_WITHIN_MS / 2 / 1000
"""Half of the promised time, so that the flush itself may take the other half."""

TAKEOVER_S: Final = 0.05
"""How long commits stay only in the journal. Reading them there is twice as much work, but a
takeover costs as much as three tiny commits, so it is worth waiting for several."""

STALE_CHECK_INTERVAL_S: Final = 30.0
"""Between looks for stale readers (killed Spark jobs), for retention by time, and for subscriptions
whose last consumer has left, or never came."""

ALARM_WAIT_S_MAX: Final = 1.0
"""Longest wait for a time of day, so that a clock that was set is noticed this soon."""

SHORT_OF_ROOM_S: Final = 1.0
"""Between trims while room is short, or after a commit failed because the store is full."""

LOOKED_AT_PER_TURN: Final = 2_000
"""Topics whose subscriptions are looked at in one turn: some 2 ms."""

WAKE_UPS_PER_TURN: Final = 500
"""Subscriptions woken in one turn: thousands of queues may have the same time."""

TOPICS_AT_ONCE: Final = 500
BETWEEN_TOPICS_S: Final = 0.05
"""Topics looked at, and trimmed with one commit, between two pauses of this length."""

READ_RETRY_S: Final = 5.0
"""Until a failed read of the store is tried again. A disk may come back; a damaged block does not,
and must not cost more than one read in that time."""

logger = logging.getLogger(__name__)


class Maintenance:
    """The loops of one engine."""

    def __init__(
        self, committer: Committer, wake: Callable[[], None], now_ms: Callable[[], int]
    ) -> None:
        self._now_ms = now_ms
        self.wake_ups = WakeUps()
        self._earlier = trio.Event()
        self._committer = committer
        self._wake = wake
        self._dirty = trio.Event()
        self._flushed_at = float("-inf")
        """When cursors were flushed last."""
        self._unreadable: dict[LogSubscription, None] = {}
        self._stuck = trio.Event()
        self.read_failures_total = 0
        self.readers: ReaderWatch | None = None
        self.room_is_short = False
        """Ledgers go as soon as they may, however small."""

    def __repr__(self) -> str:
        return f"<Maintenance {len(self._unreadable)} unreadable>"

    def start(
        self, nursery: trio.Nursery, store: Store, topics: Callable[[], Iterable[LogTopic]]
    ) -> None:
        """Run all loops in ``nursery``, until it is cancelled."""
        loops: dict[str, Callable[[], Awaitable[object]]] = {
            "the flush of cursors": self.flush_cursors,
            "the takeover of the journal": self.take_over_journal,
            "the retry of failed reads": self.retry_reads,
            "the alarm clock": self.keep_time,
            "the look for what is stale": partial(self.look_for_stale, store, topics),
            "the making of room": partial(self.make_room, topics),
        }
        if self.readers is not None:
            loops["the look for long readers"] = partial(self.watch_readers, self.readers)
        for name, loop in loops.items():
            nursery.start_soon(supervise, name, loop, name=name)

    def cursor_changed(self) -> None:
        """Note that some cursor differs from disk, and nobody waits for it."""
        self._dirty.set()

    def wake_at(self, subscription: LogSubscription, when_ms: int) -> None:
        """Wake ``subscription`` at ``when_ms``; of several times only the earliest counts."""
        if self.wake_ups.set(subscription, when_ms):
            self._earlier.set()

    def unreadable(self, subscription: LogSubscription) -> None:
        """Count a failed read for ``subscription``, and have it tried again."""
        self.read_failures_total += 1
        self.try_again(subscription)

    def try_again(self, subscription: LogSubscription) -> None:
        """Have ``subscription``, which is stuck, go on a little later."""
        self._unreadable[subscription] = None
        self._stuck.set()

    async def flush_cursors(self) -> NoReturn:
        """Keep the promise that every acknowledgement is durable within a tenth of a second."""
        while True:
            await self._dirty.wait()
            await trio.sleep(CURSOR_FLUSH_S)
            # Reset only now: if this task ends during the sleep, the next run still finds it set.
            self._dirty = trio.Event()
            if self._committer.has_dirty:
                self._dirty.set()  # if this flush fails, the next one comes by itself
            if self._committer.flush_cursors():
                self._flushed_at = trio.current_time()
                self._wake()

    async def take_over_journal(self) -> NoReturn:
        """Have the journal's commits put where other processes look first."""
        while True:
            await self._committer.until_takeover_needed()
            since = trio.current_time()
            await trio.sleep_until(since + TAKEOVER_S)
            while self._flushed_at > since:
                # A flush of cursors took over the journal: what it holds now is younger.
                since = self._flushed_at
                await trio.sleep_until(since + TAKEOVER_S)
            self._committer.take_over()
            self._wake()

    async def retry_reads(self) -> NoReturn:
        """Let stuck subscriptions read again."""
        while True:
            await self._stuck.wait()
            await trio.sleep(READ_RETRY_S)
            self._stuck = trio.Event()
            self._retry()

    def _retry(self) -> None:
        # Not in the loop: its frame would keep removed subscriptions alive while it waits.
        unreadable, self._unreadable = self._unreadable, {}
        for subscription in unreadable:
            call(subscription.machine.retry)

    async def watch_readers(self, readers: ReaderWatch) -> NoReturn:
        """Log which readers keep the store's pages from being reused."""
        try:
            while True:
                await trio.sleep(min(STALE_CHECK_INTERVAL_S, max(0.1, readers.limit_s / 4)))
                try:
                    late = await trio.to_thread.run_sync(readers.look)
                except Exception as error:
                    logger.warning("cannot read the table of store readers: %s", describe(error))
                    continue
                for reader in late:
                    logger.warning(
                        "process %d has been reading the store for %.0f s: %.1f MB freed since "
                        "then cannot be reused and the data file grows; Arneb's own readers start "
                        "over now, any other process has to be stopped",
                        reader.pid,
                        reader.age_s,
                        reader.held_bytes / 1e6,
                    )
        finally:
            readers.close()

    async def keep_time(self) -> NoReturn:
        """Wake subscriptions at the times they asked for."""
        while True:
            self._earlier = trio.Event()
            now_ms = self._now_ms()
            for subscription in self.wake_ups.take_due(now_ms, WAKE_UPS_PER_TURN):
                call(subscription.machine.tick)
            soonest_ms = self.wake_ups.soonest_ms
            wait_s = float("inf")
            if soonest_ms is not None:
                wait_s = min(ALARM_WAIT_S_MAX, (soonest_ms - now_ms) / 1000)
            with trio.move_on_after(wait_s):
                await self._earlier.wait()
            if wait_s <= 0:
                await trio.lowlevel.checkpoint()  # the scope may have ended without one

    async def look_for_stale(
        self, store: Store, topics: Callable[[], Iterable[LogTopic]]
    ) -> NoReturn:
        """Clear dead readers, unused subscriptions and expired ledgers from time to time."""
        while True:
            await trio.sleep(STALE_CHECK_INTERVAL_S)
            try:
                await trio.to_thread.run_sync(store.reader_check)
            except Exception:
                logger.exception("cannot clear the slots of dead store readers")
            await forget_unused(topics())
            await self.trim(topics, at_once=False)

    async def make_room(self, topics: Callable[[], Iterable[LogTopic]]) -> NoReturn:
        """While room is short, trim what would otherwise be kept for more entries or longer."""
        while True:
            await trio.sleep(SHORT_OF_ROOM_S)
            if self.is_short:
                await self.trim(topics, at_once=True)

    @property
    def is_short(self) -> bool:
        """Whether an alarm says that the disk is short, or the last commit found the store full."""
        return self.room_is_short or self._committer.full

    async def trim(self, topics: Callable[[], Iterable[LogTopic]], *, at_once: bool) -> None:
        """Have the ledgers trimmed that may go by now, some topics at a time."""
        now_ms = self._now_ms()
        for index, topic in enumerate(list(topics()), 1):
            ends = topic.trimming.last_ledger_ends(topic.retention, now_ms, at_once=at_once)
            if ends or (topic.durable and topic.retention.ms > 0):
                self._committer.trim_due(topic, at_once=at_once)
            if index % TOPICS_AT_ONCE == 0:
                self._wake()
                await trio.sleep(BETWEEN_TOPICS_S)
        self._wake()


async def forget_unused(topics: Iterable[LogTopic]) -> None:
    """Have each topic drop subscriptions that nobody has used, some topics per turn."""
    for number, topic in enumerate(list(topics), 1):
        call(topic.forget_unused)
        if number % LOOKED_AT_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
