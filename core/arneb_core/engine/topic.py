"""A topic: one log and the subscriptions over it.

The rule: the log goes on whether or not anybody reads it; a ledger goes when every durable
subscription is past it and retention does not hold it, the last one too: an empty one then
takes its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from arneb_core.api.consumers import Consumer
from arneb_core.api.errors import (
    NotAllowed,
    SubscriptionBusy,
    SubscriptionNotFound,
    TopicFenced,
)
from arneb_core.api.position import (
    AFTER_ALL,
    LedgerId,
    Position,
    before,
    ledger_of,
    position,
)
from arneb_core.api.settings import Retention, TopicSettings
from arneb_core.api.statistics import TopicStatistics
from arneb_core.api.subscriptions import InitialPosition
from arneb_core.cursor.acks import AckState
from arneb_core.cursor.cursor import Cursor
from arneb_core.delayed.index import DelayedIndex, IndexReader
from arneb_core.engine.admin import TopicAdmin
from arneb_core.engine.subscription import LogSubscription
from arneb_core.log.log import DurableLog, Log, PlannedRun
from arneb_core.log.retention import droppable_through, last_ledger_ends
from arneb_core.store.changes import Changes
from arneb_core.store.records import SubscriptionRecord
from arneb_core.store.schema import (
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    subscription_key,
)

if TYPE_CHECKING:
    from arneb_core.engine.engine import Engine

SWEEP_RUNS_MIN: Final = 64
"""Runs of a memory log that are kept before it is looked which of them are done with."""


@dataclass(frozen=True, slots=True)
class PlannedTrim:
    """What happens to a topic's ledgers if its commit succeeds."""

    through: LedgerId | None
    """Ledgers up to this one go."""
    ends: bool
    """The last ledger ends, and an empty one begins."""
    now_ms: int


class LogTopic(TopicAdmin):
    """One topic (:class:`arneb_core.api.topics.Topic`)."""

    def __init__(
        self, engine: "Engine", topic_id: TopicId, name: str, settings: TopicSettings, log: Log
    ) -> None:
        self.engine = engine
        self.id = topic_id
        self.name = name
        self.settings = settings
        self.log = log
        self.fenced = False
        """It is being deleted, or has gone: no new consumers, and no entries."""
        self.takes_along = True
        """What still comes for it when it goes may go with it: its owner deletes it."""
        self.gone = False
        """It is deleted: what is still on its way to it never comes."""
        self.appends_held_up = 0
        """Appends that wait for a commit though the topic is kept in memory only: what comes now
        goes behind them."""
        self.appended_messages_total = 0
        self.delayed: DelayedIndex | None = None
        """What of the log is not due yet; None until a delayed entry is expected."""
        self._subscriptions: dict[str, LogSubscription] = {}
        self._next_subscription_id = 1
        self._sweep_at = SWEEP_RUNS_MIN

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

    @property
    def has_incoming(self) -> bool:
        return self.engine.has_appends(self)

    @property
    def subscriptions(self) -> Mapping[str, LogSubscription]:
        return self._subscriptions

    def adopt(self, subscription: LogSubscription) -> None:
        """Take in a subscription found in the store."""
        self._subscriptions[subscription.name] = subscription
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
        """The subscription of that name, made if it is not there."""
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
                self._subscriptions[name] = made
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
        """A subscription that is not here yet, and the rows that make it durable, if any."""
        cursor = Cursor(self.log, AckState(self.log.ledgers, self._start(initial, start)))
        cursor.skip_missing()
        if not (durable and self.durable):
            made = LogSubscription(
                self, name, None, cursor, permanent=durable, properties=properties
            )
            return made, []
        subscription_id = SubscriptionId(self._next_subscription_id)
        self._next_subscription_id += 1
        made = LogSubscription(self, name, subscription_id, cursor, properties=properties)
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
        """The subscription is gone."""
        if self._subscriptions.get(subscription.name) is subscription:
            del self._subscriptions[subscription.name]
            self.engine.cursor_gone(subscription)

    def forget_unused(self) -> None:
        """Let subscriptions go that were to go with their last consumer and have had none since
        the last time: a seek put it out, or it never came."""
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
            subscriptions=tuple(each.statistics() for each in self._subscriptions.values()),
        )

    def expect_groups(self) -> None:  # not kept: an opened log is looked at anyway
        self.log.groups_through = AFTER_ALL

    # What the engine and the committer need

    def confirm(self, run: PlannedRun) -> None:
        """``run`` is durable (or its topic is not): let the consumers have it."""
        keeps_up = self.log.ledgers.after
        cache = bool(self.log.tail) or any(
            each.consumers_attached and keeps_up(each.machine.state.reader.ahead) is None
            for each in self._subscriptions.values()
        )
        self.log.confirm(run, cache=cache)
        self.appended_messages_total += run.messages
        if self.delayed is not None:
            self.delayed.confirm(run, self.engine.now_ms())
        if run.opens:
            self.engine.ledger_closed(self)
        for subscription in list(self._subscriptions.values()):
            try:
                subscription.machine.appended(run.first, run.entries)
            except Exception as error:
                self.engine.turn_failed(subscription, error)

    def refuses(self, passes_over_gone: bool) -> bool:
        """It is fenced; whether an append to it fails, or goes with it."""
        return not (passes_over_gone and self.takes_along)

    def fence(self, *, takes_along: bool) -> None:
        """The topic is being deleted: its consumers leave and nobody else comes."""
        self.fenced, self.takes_along = True, takes_along
        for subscription in list(self._subscriptions.values()):
            subscription.fence()

    def unfence(self) -> None:
        """The deletion failed."""
        self.fenced, self.takes_along = False, True
        for subscription in self._subscriptions.values():
            subscription.machine.unfence()

    def dispatched(self) -> None:
        """Consumers moved on: what all of them have had need not stay in memory."""
        tail = self.log.tail
        if isinstance(self.log, DurableLog) and tail:
            readers = [each for each in self._subscriptions.values() if each.consumers_attached]
            if readers:
                tail.drop_through(min(each.machine.ready.read_after for each in readers))
            else:
                tail.clear()

    def trim_memory(self) -> None:
        """Drop what every subscription of a memory log is done with. Without one, the log keeps
        what a new one at the earliest entry would want: its last ledger."""
        log = self.log
        if isinstance(log, DurableLog):
            return
        marks = [each.mark_delete for each in self._subscriptions.values()]
        through = min(marks, default=before(position(ledger_of(log.ledgers.next_append), 0)))
        log.tail.drop_through(through)
        last_full = LedgerId((through + 1 >> 32) - 1)
        if any(info.id <= last_full for info in log.ledgers):
            log.drop_through(last_full)
            self.trimmed()
        if marks and len(log.tail) > self._sweep_at:
            states = [each.machine.state.acks for each in self._subscriptions.values()]
            log.drop_acknowledged(
                lambda first, last: all(_has(each, first, last) for each in states)
            )
            self._sweep_at = 2 * len(log.tail) + SWEEP_RUNS_MIN

    def last_ledger_ends(self, now_ms: int, *, at_once: bool = False) -> bool:
        """Whether the last ledger is to end before anything more is published."""
        if not self.durable or self._slowest is None:
            return False
        # Readers hold it as well: one that keeps up must not lose what it is about to get.
        return last_ledger_ends(
            self.log.ledgers,
            min(each.mark_delete for each in self._subscriptions.values()),
            retention=self.retention,
            now_ms=now_ms,
            at_once=at_once,
        )

    def plan_trim(self, changes: Changes, now_ms: int, *, at_once: bool) -> PlannedTrim | None:
        """Put the removal of ledgers that may go into a commit, and what takes their place.

        What is planned behind the last ledger, in this commit or in those under way, has it stay.
        ``at_once``: room is short.
        """
        log = self.log
        if not isinstance(log, DurableLog) or self.gone:
            return None
        ends = not log.planned and self.last_ledger_ends(now_ms, at_once=at_once)
        through = droppable_through(
            log.ledgers,
            self._slowest,
            retention=self.retention,
            now_ms=now_ms,
            ends=ends,
        )
        if through is not None and log.planned_drops and through <= log.planned_drops[-1]:
            through = None
        if through is None and not ends:
            return None
        # No ledger is older than what stands in the one before it.
        ended_ms = max(now_ms, log.stamped_ms)
        if ends:
            changes.puts.extend(log.plan_successor(ended_ms))
        if through is not None:
            log.plan_drop(through, changes)
        return PlannedTrim(through, ends, ended_ms)

    def trim(self, plan: PlannedTrim) -> None:
        """The commit of ``plan`` is on disk."""
        if plan.ends and isinstance(self.log, DurableLog):
            self.log.succeeded(plan.now_ms)
        if plan.through is not None:
            self.log.drop_through(plan.through)
            self.trimmed()

    def trim_failed(self, plan: PlannedTrim) -> None:
        """Nothing of that commit is on disk, nor of any that was planned behind it."""
        assert isinstance(self.log, DurableLog), f"{self!r} keeps nothing on disk"
        if plan.ends:
            self.log.planned.pop()
        if plan.through is not None:
            self.log.planned_drops.pop()

    @property
    def _slowest(self) -> Position | None:
        """The lowest mark-delete position of the durable subscriptions; None without one."""
        marks = (each.mark_delete for each in self._subscriptions.values() if each.durable)
        return min(marks, default=None)

    def trimmed(self) -> None:
        """Ledgers were dropped from the front of the log."""
        if self.delayed is not None:
            self.delayed.log_trimmed(self.log.ledgers.floor)
        for subscription in self._subscriptions.values():
            subscription.machine.log_trimmed()

    def come(self, subscription: LogSubscription) -> None:
        """A subscription is durable; ledgers may have gone, and delayed entries come, while it
        became so."""
        self.adopt(subscription)
        subscription.expect_delays()
        subscription.machine.log_trimmed()

    def index_readers(self) -> list[IndexReader]:
        """What of its subscriptions reads the index of delayed entries."""
        found = [each.index_reader for each in self._subscriptions.values()]
        return [each for each in found if each is not None]

    def _start(self, initial: InitialPosition, start: Position | None) -> Position:
        """The mark-delete position of a new cursor."""
        ledgers = self.log.ledgers
        if start is not None:
            found = ledgers.after(before(start))
        elif initial is InitialPosition.EARLIEST:
            found = ledgers.first
        else:
            found = None
        return before(ledgers.next_append if found is None else found)


def _has(acks: AckState, first: Position, last: Position) -> bool:
    """All entries in [first, last] are acknowledged."""
    return acks.acknowledged_between(before(first), last) == last - first + 1
