"""Admin: what a subscription answers administrators.

The rule: a mixin, so that code no message passes stays apart from code that every message passes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, Protocol, cast

import trio

from arneb_core.api.entries.position import Position, before, position_at
from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.nodes.lease import Lease
from arneb_core.api.process.name_locks import NameLocks
from arneb_core.api.process.waiting import durable
from arneb_core.api.subscriptions.admin import InspectedSubscription
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.key_sharing import KeyShare
from arneb_core.api.subscriptions.limits import Departure, Fate
from arneb_core.engine.subscriptions.withholding import SubscriptionWithholding
from arneb_core.log.memory_log import Log
from arneb_core.store.format.records import SubscriptionRecord
from arneb_core.store.format.schema import SubscriptionId, Table, TopicId, subscription_key
from arneb_core.subscription.machine import SubscriptionMachine
from arneb_core.subscription.sources.replay import ReplaySet

P = ParamSpec("P")


class AdministeredTopic(Protocol):
    """What a subscription asks of its topic."""

    id: TopicId
    name: str
    fenced: bool
    """The topic is being deleted or is gone."""

    @property
    def log(self) -> Log: ...

    @property
    def last(self) -> Position | None:
        """The last committed entry."""

    async def size_at(self, position: Position) -> int:
        """How many messages the entry at ``position`` holds; 0 if there is no such entry."""


class SubscriptionCatalog(Protocol):
    """Makes a subscription's changes durable."""

    @property
    def locks(self) -> NameLocks:
        """Held while topics or subscriptions are changed."""

    async def change(
        self,
        *,
        on_commit: Callable[[], None],
        puts: Sequence[tuple[Table, bytes, bytes | None]] = (),
    ) -> None:
        """Commit a change; visible and durable when this returns."""


class AdministeringEngine(Protocol):
    """What a subscription asks of the engine."""

    @property
    def catalog(self) -> SubscriptionCatalog: ...

    @property
    def lease(self) -> Lease: ...

    def call_while_leased(self, back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call ``back`` now, or as soon as the lease holds again."""


class SubscriptionAdmin(SubscriptionWithholding):
    """Implements :class:`arneb_core.api.subscriptions.admin.InspectedSubscription`, and what
    transactions ask: both are off the path of messages."""

    engine: AdministeringEngine
    topic: AdministeredTopic
    machine: SubscriptionMachine
    name: str
    id: SubscriptionId | None
    properties: Mapping[str, str]

    async def describe(self, properties: Mapping[str, str]) -> None:
        """See :meth:`InspectedSubscription.describe`."""
        kept, name = dict(properties), self.name

        def change() -> None:
            self.properties = kept

        catalog, topic = self.engine.catalog, self.topic
        async with catalog.locks.holding((topic.name, name), shared=[topic.name]):
            if self.machine.state.is_fenced or topic.fenced:
                raise SubscriptionFenced(f"{self!r} is being reset or removed")
            if self.id is None:
                change()
                return
            row = SubscriptionRecord(self.id, kept).pack()
            key = subscription_key(topic.id, name)
            await catalog.change(puts=[(Table.CATALOG, key, row)], on_commit=change)

    @property
    def active_name(self) -> str | None:
        """See :attr:`InspectedSubscription.active_name`."""
        active = self.machine.delivery.active
        return None if active is None else active.name

    @property
    def mark_delete(self) -> Position:
        return self.machine.state.acks.mark_delete

    @property
    def lengths(self) -> tuple[int, int]:
        """See :attr:`InspectedSubscription.lengths`."""
        machine = self.machine
        if not machine.state.acks.backlog:
            return 0, 0
        return machine.ready_messages, machine.counters.in_flight_messages

    @property
    def delivered_messages_total(self) -> int:
        """See :attr:`InspectedSubscription.delivered_messages_total`."""
        return self.machine.delivery.delivered_total

    @property
    def replaying_entries(self) -> int:
        """See :attr:`InspectedSubscription.replaying_entries`."""
        replay = self.machine.state.replay
        return len(replay) if isinstance(replay, ReplaySet) else 0

    @property
    def acknowledged_runs(self) -> int:
        """See :attr:`InspectedSubscription.acknowledged_runs`."""
        return self.machine.state.acks.individual.runs

    @property
    def acknowledged_runs_bytes(self) -> int:
        """See :attr:`InspectedSubscription.acknowledged_runs_bytes`."""
        return self.machine.state.acks.individual.packed_bytes

    def first_acknowledged_runs(self, limit: int) -> Sequence[tuple[Position, Position]]:
        """See :meth:`InspectedSubscription.first_acknowledged_runs`."""
        return self.machine.state.acks.individual.first_runs(limit)

    def key_shares(self) -> Mapping[Consumer, KeyShare]:
        """See :meth:`InspectedSubscription.key_shares`."""
        keys = self.machine.keys
        if keys is None:
            return {}
        shares = keys.shares()
        there = [each for each in self.machine.attached if each.receiver in shares]
        return {cast(Consumer, each): shares[each.receiver] for each in there}

    @property
    def read_position(self) -> Position:
        """See :attr:`InspectedSubscription.read_position`."""
        furthest = max(self.machine.furthest, self.mark_delete)
        if furthest == self.topic.last:
            return self.topic.log.ledgers.next_append
        return Position(furthest + 1)

    @property
    def departed(self) -> Mapping[tuple[Departure, Fate], int]:
        """See :attr:`InspectedSubscription.departed`."""
        return self.machine.state.departed or {}

    @property
    def backlog_bytes(self) -> int:
        """See :attr:`InspectedSubscription.backlog_bytes`."""
        if not self.machine.state.acks.backlog:
            return 0
        ledgers, after = self.topic.log.ledgers, self.mark_delete
        total = 0
        for info in ledgers:
            left = ledgers.count_between(max(before(position_at(info.id, 0)), after), info.last)
            if left:
                total += left * info.bytes // info.entries
        return total

    def limit_unacked(self, of_each: int, of_all: int) -> None:
        """See :meth:`InspectedSubscription.limit_unacked`."""
        self.machine.limit_unacked(of_each, of_all)

    def unacknowledged(self, limit: int, after: Position | None = None) -> Sequence[Position]:
        """See :meth:`InspectedSubscription.unacknowledged`."""
        last, acks = self.topic.last, self.machine.state.acks
        low = acks.mark_delete if after is None else after
        return [] if last is None else acks.unacknowledged(low, last, limit)

    def acknowledged_between(self, low: Position, high: Position) -> int:
        """See :meth:`InspectedSubscription.acknowledged_between`."""
        return self.machine.state.acks.acknowledged_between(low, high)

    @property
    def last_unacknowledged(self) -> Position | None:
        """See :attr:`InspectedSubscription.last_unacknowledged`."""
        for info in reversed(list(self.topic.log.ledgers)):
            low = before(position_at(info.id, 0))
            left = self.machine.state.acks.unacknowledged(low, info.last, info.entries)
            if left:
                return left[-1]
        return None

    @property
    def masks(self) -> Mapping[Position, int]:
        """See :attr:`InspectedSubscription.masks`."""
        return self.machine.state.acks.masks

    def forget_counts(self) -> None:
        """See :meth:`InspectedSubscription.forget_counts`."""
        self.machine.delivery.past.counts.clear()

    async def overlook(self, other: InspectedSubscription) -> None:
        """See :meth:`InspectedSubscription.overlook`."""
        ledgers, cursor = self.topic.log.ledgers, self.machine.state.cursor
        for info in list(ledgers):
            low = max(before(position_at(info.id, 0)), self.mark_delete)
            for first, last in ledgers.runs(low, info.last):
                left = set(other.unacknowledged(info.entries, before(first)))
                every = map(Position, range(first, last + 1))
                done = [position for position in every if position not in left]
                # What came back from a consumer waits, and is known elsewhere than in the cursor.
                self.machine.acknowledgements.acknowledge(done, None, elsewhere=True)
            await trio.lowlevel.checkpoint()
        for position, mask in list(other.masks.items()):
            if position > self.mark_delete and (size := await self.topic.size_at(position)):
                cursor.acknowledge_messages(position, (1 << size) - 1 & ~mask, size)
        self.machine.state.reader.drop_cached()
        self.machine.state.cursor_changed()

    async def skip_through(self, position: Position, reason: Departure | None = None) -> None:
        """See :meth:`InspectedSubscription.skip_through`."""
        self.machine.skip_through(position, reason)
        await durable(self.machine.state.cursor_changed)
