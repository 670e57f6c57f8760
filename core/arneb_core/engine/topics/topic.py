"""A topic: one log and the subscriptions over it.

The rule: the log grows whether or not anybody reads it. A ledger is trimmed when every durable
subscription is past it and retention does not hold it. That includes the last one: an empty ledger
then takes its place.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import trio

from arneb_core.api.entries.position import (
    AFTER_ALL,
    LedgerId,
    Position,
    before,
    ledger_of,
    position_at,
)
from arneb_core.api.errors import NotAllowed, SubscriptionBusy, SubscriptionNotFound, TopicFenced
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import Retention, TopicSettings
from arneb_core.api.topics.statistics import TopicStatistics
from arneb_core.cursor.acks import AckState
from arneb_core.cursor.cursor import Cursor
from arneb_core.delayed.index import DelayedIndex, IndexReader
from arneb_core.engine.subscriptions.admin import SubscriptionCatalog
from arneb_core.engine.subscriptions.listening import NOTIFY_ALL_MAX, Listening
from arneb_core.engine.subscriptions.subscription import LogSubscription, SubscriptionEngine
from arneb_core.engine.topics.admin import TopicAdmin
from arneb_core.engine.trimming.trimming import Trimming
from arneb_core.log.durable_log import DurableLog
from arneb_core.log.memory_log import Log
from arneb_core.log.planning import PlannedRun
from arneb_core.log.stamps import stamp_of, stamped_from
from arneb_core.store.format.records import SubscriptionRecord
from arneb_core.store.format.schema import (
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    subscription_key,
)


class TopicCatalog(SubscriptionCatalog, Protocol):
    """Makes a topic's changes durable."""

    async def change(
        self,
        *,
        on_commit: Callable[[], None],
        puts: Sequence[tuple[Table, bytes, bytes | None]] = (),
        deletes: Sequence[tuple[Table, bytes]] = (),
        prefixes: Sequence[tuple[Table, bytes]] = (),
        leaving: tuple[LogSubscription, ...] = (),
        rolls: "LogTopic | None" = None,
    ) -> None:
        """Commit a change; visible and durable when this returns."""

    async def change_settings(self, topic: "LogTopic", settings: TopicSettings) -> None:
        """Give ``topic`` other settings."""


class TopicEngine(SubscriptionEngine, Protocol):
    """What a topic asks of the engine."""

    @property
    def catalog(self) -> TopicCatalog: ...

    @property
    def retention(self) -> Retention:
        """For topics that set none of their own."""

    def has_appends(self, topic: "LogTopic") -> bool:
        """Whether appends to ``topic`` wait or are under way."""

    def ledger_closed(self, topic: "LogTopic") -> None:
        """Check whether a ledger may go although no cursor moved."""

    def forget(self, subscription: LogSubscription) -> None:
        """Write and dispatch nothing more of a removed subscription."""

    def turn_failed(self, subscription: LogSubscription, error: Exception) -> None:
        """Rebuild the subscription a little later, after an error of ours."""


class LogTopic(TopicAdmin):
    """One topic (:class:`arneb_core.api.topics.topic.Topic`)."""

    def __init__(
        self, engine: TopicEngine, topic_id: TopicId, name: str, settings: TopicSettings, log: Log
    ) -> None:
        self.engine = engine
        self.id = topic_id
        self.name = name
        self.settings = settings
        self.log = log
        self.fenced = False
        """It is being deleted or is gone: it takes no new consumers and no entries."""
        self.takes_along = True
        """Entries still on their way when it is deleted may go with it: its owner deletes it."""
        self.gone = False
        """It is deleted: entries on their way to it never arrive."""
        self.appends_held_up = 0
        """Appends that wait for a commit though the topic is kept only in memory: later appends go
        after them."""
        self.appended_messages_total = self.appended_bytes_total = self.appended_entries_total = 0
        self.delayed: DelayedIndex | None = None
        """Entries of the log that are not due yet; None until a delayed entry is expected."""
        self._subscriptions: dict[str, LogSubscription] = {}
        self._next_subscription_id = 1
        self.listening = Listening(log, self._subscriptions)
        self.trimming = Trimming(log, self._subscriptions, self._trimmed)

    def __repr__(self) -> str:
        return f"<Topic {self.name} {self.log!r}, {len(self._subscriptions)} subscriptions>"

    @property
    def durable(self) -> bool:
        return self.settings.durable

    @property
    def retention(self) -> Retention:
        """The topic's own retention, or else the broker's."""
        own = Retention(self.settings.retention_ms, self.settings.retention_bytes)
        return own or self.engine.retention

    async def roll(self) -> Position:
        """End the last ledger; see :meth:`arneb_core.api.topics.admin.InspectedTopic.roll`."""
        log = self._durable_log()
        newest = log.planned[-1] if log.planned else log.ledgers.newest
        if newest is None or not newest.entries:
            await trio.lowlevel.checkpoint()
            return log.ledgers.next_append
        while (last := log.ledgers.newest) is not None and last.id <= newest.id and not self.gone:
            # Runs already planned go into the ending ledger; later ones open another.
            log.ended = max(log.ended, newest.id)
            await self.engine.catalog.change(rolls=self, on_commit=lambda: None)
        return position_at(newest.id + 1, 0)

    async def trim(self, position: Position) -> None:
        """See :meth:`arneb_core.api.topics.admin.InspectedTopic.trim`."""
        self._durable_log()
        self.trimming.asked_through = max(
            self.trimming.asked_through, LedgerId(ledger_of(position) - 1)
        )
        self.engine.ledger_closed(self)
        await self.engine.catalog.change(on_commit=lambda: None)

    def _durable_log(self) -> DurableLog:
        if not isinstance(self.log, DurableLog):
            raise NotAllowed(f"expected a topic that is stored, got {self!r}")
        return self.log

    async def change_settings(self, settings: TopicSettings) -> None:
        """Replace the settings, now and across restarts."""
        await self.engine.catalog.change_settings(self, settings)

    @property
    def has_incoming(self) -> bool:
        if isinstance(self.log, DurableLog) and self.log.ahead is not None:
            return True
        return self.engine.has_appends(self)

    @property
    def subscriptions(self) -> Mapping[str, LogSubscription]:
        return self._subscriptions

    def adopt(self, subscription: LogSubscription) -> None:
        """Take in a subscription, such as one found in the store."""
        self._subscriptions[subscription.name] = subscription
        self.trimming.comes(subscription)
        if subscription.id is not None:
            self._next_subscription_id = max(self._next_subscription_id, subscription.id + 1)

    async def subscribe(
        self,
        name: str,
        *,
        durable: bool = True,
        initial: InitialPosition = InitialPosition.LATEST,
        start: Position | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> LogSubscription:
        """Return the subscription of that name, creating it if needed."""
        own = self.name, name
        async with self.engine.catalog.locks.holding(own, shared=[self.name]):
            found = self._subscriptions.get(name)
            if self.fenced:
                raise TopicFenced(f"{self!r} is being deleted")
            if found is not None:
                if found.permanent is not durable:
                    kind = "Durable" if found.permanent else "NonDurable"
                    raise NotAllowed(f"{kind} subscription with the same name already exists.")
                return found
            made, rows = self.new_subscription(
                name, durable=durable, initial=initial, start=start, properties=properties
            )
            if rows:
                await self.engine.catalog.change(puts=rows, on_commit=lambda: self.come(made))
            else:
                self.adopt(made)
            return made

    def new_subscription(
        self,
        name: str,
        *,
        durable: bool = True,
        initial: InitialPosition = InitialPosition.EARLIEST,
        start: Position | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[LogSubscription, list[tuple[Table, bytes, bytes | None]]]:
        """Return a subscription not yet in the topic, and the rows that make it durable, if any."""
        cursor = Cursor(self.log, AckState(self.log.ledgers, self._start(initial, start)))
        cursor.skip_missing()
        if not (durable and self.durable):
            made = LogSubscription(
                self.engine, self, name, None, cursor, permanent=durable, properties=properties
            )
            return made, []
        subscription_id = SubscriptionId(self._next_subscription_id)
        self._next_subscription_id += 1
        made = LogSubscription(
            self.engine, self, name, subscription_id, cursor, properties=properties
        )
        changes = cursor.take_changes(self.id, subscription_id, cursor.acks.mark_delete)
        row = SubscriptionRecord(subscription_id, dict(properties or {}))
        return made, [
            (Table.CATALOG, subscription_key(self.id, name), row.pack()),
            *changes.puts,
        ]

    async def unsubscribe(
        self, name: str, *, force: bool = False, leaving: Sequence[Consumer] = ()
    ) -> None:
        """Remove a subscription durably."""
        own = self.name, name
        async with self.engine.catalog.locks.holding(own, shared=[self.name]):
            subscription = self._subscriptions.get(name)
            if subscription is None:
                raise SubscriptionNotFound(f"{self.name} has no subscription {name!r}")
            if not force and any(each not in leaving for each in subscription.consumers):
                raise SubscriptionBusy(f"expected no other consumers, got {subscription!r}")
            subscription.fence()
            if subscription.id is None:
                self.forget(subscription)
                return
            try:
                await self.engine.catalog.change(
                    deletes=[(Table.CATALOG, subscription_key(self.id, name))],
                    prefixes=[(Table.CURSORS, cursor_prefix(self.id, subscription.id))],
                    leaving=(subscription,),
                    on_commit=lambda: self.forget(subscription),
                )
            except BaseException:
                if self._subscriptions.get(name) is subscription:
                    subscription.machine.unfence()
                raise

    def forget(self, subscription: LogSubscription) -> None:
        """Drop a removed subscription."""
        if self._subscriptions.get(subscription.name) is subscription:
            del self._subscriptions[subscription.name]
            self.departed_messages_total += subscription.delivered_messages_total
            self.trimming.goes()
            self.listening.forget(subscription)
            self.engine.forget(subscription)
            self.engine.ledger_closed(self)

    def forget_unused(self) -> None:
        """Drop subscriptions that were to go with their last consumer and have had none since the
        last look: a seek put it out, or it never came."""
        for each in list(self._subscriptions.values()):
            if each.permanent or each.is_fenced or each.consumers_attached:
                continue
            if each.unused:
                self.forget(each)
            each.unused = True

    def statistics(self) -> TopicStatistics:
        """The topic at this instant."""
        ledgers = self.log.ledgers
        return TopicStatistics(
            name=self.name,
            durable=self.durable,
            entries=ledgers.entries,
            messages=ledgers.messages,
            bytes=ledgers.bytes,
            ledgers=len(ledgers),
            last=self.last,
            appended_messages_total=self.appended_messages_total,
            appended_bytes_total=self.appended_bytes_total,
            appended_entries_total=self.appended_entries_total,
            departed_messages_total=self.departed_messages_total,
            subscriptions=tuple(each.statistics() for each in self._subscriptions.values()),
        )

    def expect_groups(self) -> None:  # not stored: an opened log is scanned anyway
        self.log.groups_through = AFTER_ALL

    # What the engine and the committer need

    def confirm(self, run: PlannedRun) -> None:
        """Let the consumers have ``run``: it is durable, or its topic is not."""
        few = len(self._subscriptions) <= NOTIFY_ALL_MAX
        subscriptions = list(self._subscriptions.values()) if few else self.listening.now()
        cache = bool(self.log.tail)
        if not cache:
            keeps_up = self.log.ledgers.after
            for each in subscriptions:
                if each.consumers_attached and keeps_up(each.machine.state.reader.ahead) is None:
                    cache = True
                    break
        self.log.confirm(run, cache=cache)
        self.appended_messages_total += run.messages
        self.appended_bytes_total += run.size
        self.appended_entries_total += len(run.entries)
        if self.delayed is not None:
            self.delayed.confirm(run, self.engine.now_ms())
        if run.opens:
            self.engine.ledger_closed(self)
        for subscription in subscriptions:
            try:
                subscription.machine.appended(run.first, run.entries)
            except Exception as error:
                self.engine.turn_failed(subscription, error)

    def append_now(self, entries: list[bytes], messages: int | None) -> Position:
        """Append to a log kept only in memory; return the position of the first entry."""
        if self.gone:
            return Position(0)
        log = self.log
        if entries:
            if stamp_of(entries[0]) < log.stamped_ms:
                entries = stamped_from(entries, log.stamped_ms, {})
            log.stamped_ms = stamp_of(entries[-1])
        run = log.plan(entries, messages, self.engine.now_ms())
        self.confirm(run)
        return run.first

    def refuses(self, passes_over_gone: bool) -> bool:
        """Whether an append to this fenced topic fails, rather than going with the topic."""
        return not (passes_over_gone and self.takes_along)

    def fence(self, *, takes_along: bool) -> None:
        """Begin the deletion: consumers leave and no others come."""
        self.fenced, self.takes_along = True, takes_along
        for subscription in list(self._subscriptions.values()):
            subscription.fence()

    def unfence(self) -> None:
        """Undo :meth:`fence` after a failed deletion."""
        self.fenced, self.takes_along = False, True
        for subscription in self._subscriptions.values():
            subscription.machine.unfence()

    def dispatched(self) -> None:
        """Drop from memory what all consumers have passed."""
        tail = self.log.tail
        if isinstance(self.log, DurableLog) and tail:
            readers = [each for each in self.listening.now() if each.consumers_attached]
            if readers:
                tail.drop_through(min(each.machine.ready.read_after for each in readers))
            else:
                tail.clear()

    def _trimmed(self) -> None:
        """Pass on that ledgers were dropped from the front of the log."""
        if self.delayed is not None:
            self.delayed.log_trimmed(self.log.ledgers.floor)
        for subscription in self._subscriptions.values():
            subscription.machine.log_trimmed()

    def come(self, subscription: LogSubscription) -> None:
        """Add a subscription that is now durable. Ledgers may have gone, and delayed entries have
        come, while it was being stored."""
        self.adopt(subscription)
        subscription.expect_delays()
        subscription.machine.log_trimmed()

    def index_readers(self) -> list[IndexReader]:
        """Return the readers of the delayed index, one for each subscription that has one."""
        found = [each.index_reader for each in self._subscriptions.values()]
        return [each for each in found if each is not None]

    def _start(self, initial: InitialPosition, start: Position | None) -> Position:
        """Return the mark-delete position of a new cursor."""
        ledgers = self.log.ledgers
        found = ledgers.first if initial is InitialPosition.EARLIEST else None
        if start is not None:
            found = ledgers.after(before(start))
        return before(ledgers.next_append if found is None else found)
