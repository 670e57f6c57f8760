"""Surveys: how topics and subscriptions answer an administrator.

The rule: mixins, so that what no message ever passes stands apart from what every one does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import trio

from arneb_core.api.admin import InspectedSubscription, LedgerStatistics
from arneb_core.api.callbacks import Done
from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.position import Position, before, position
from arneb_core.api.settings import TopicSettings
from arneb_core.api.waiting import durable
from arneb_core.log.reading import TopicReading

if TYPE_CHECKING:
    from arneb_core.cursor.acks import AckState
    from arneb_core.cursor.cursor import Cursor
    from arneb_core.engine.engine import Engine
    from arneb_core.engine.topic import LogTopic
    from arneb_core.subscription.acknowledgements import Settlement
    from arneb_core.subscription.consumer import LogConsumer
    from arneb_core.subscription.handout import HandOut
    from arneb_core.subscription.sources.backlog import BacklogReader


class TopicSurvey(TopicReading):
    """Fills :class:`arneb_core.api.admin.InspectedTopic`."""

    engine: "Engine"
    settings: TopicSettings

    @property
    def properties(self) -> Mapping[str, str]:
        """See :attr:`InspectedTopic.properties`."""
        return self.settings.properties

    async def retain(self, ms: int, size: int) -> None:
        """See :meth:`InspectedTopic.retain`."""
        if (ms, size) != (self.settings.retention_ms, self.settings.retention_bytes):
            settings = replace(self.settings, retention_ms=ms, retention_bytes=size)
            await self.engine.catalog.change_settings(cast("LogTopic", self), settings)

    def ledgers(self) -> Sequence[LedgerStatistics]:
        """See :meth:`InspectedTopic.ledgers`."""
        return [
            LedgerStatistics(
                info.id, info.entries, info.messages, info.bytes, info.created_ms, info.closed_ms
            )
            for info in self.log.ledgers
        ]

    async def entry_at(self, place: Position) -> bytes | None:
        """See :meth:`InspectedTopic.entry_at`."""
        if not self.log.ledgers.contains(place):
            return None
        runs = await self.read(place, 1)
        return runs[0][1][0] if runs and runs[0][0] == place else None


class SubscriptionSurvey:
    """Fills :class:`arneb_core.api.admin.InspectedSubscription`."""

    topic: "LogTopic"
    settlement: "Settlement"
    cursor: "Cursor"
    _reader: "BacklogReader"
    _handout: "HandOut"
    acks: "AckState"

    @property
    def active(self) -> "LogConsumer | None":
        raise NotImplementedError

    @property
    def consumers(self) -> "Sequence[LogConsumer]":
        raise NotImplementedError

    @property
    def is_fenced(self) -> bool:
        raise NotImplementedError

    def receipt(self, done: Done | None) -> None:
        raise NotImplementedError

    @property
    def active_name(self) -> str | None:
        """See :attr:`InspectedSubscription.active_name`."""
        active = self.active
        return None if active is None else active.name

    @property
    def mark_delete(self) -> Position:
        return self.acks.mark_delete

    @property
    def backlog_bytes(self) -> int:
        """See :attr:`InspectedSubscription.backlog_bytes`."""
        ledgers, after = self.topic.log.ledgers, self.acks.mark_delete
        total = 0
        for info in ledgers:
            left = ledgers.count_between(max(before(position(info.id, 0)), after), info.last)
            if left:
                total += left * info.bytes // info.entries
        return total

    def unacknowledged(self, limit: int, after: Position | None = None) -> Sequence[Position]:
        """See :meth:`InspectedSubscription.unacknowledged`."""
        last, acks = self.topic.last, self.acks
        low = acks.mark_delete if after is None else after
        return [] if last is None else acks.unacknowledged(low, last, limit)

    @property
    def last_unacknowledged(self) -> Position | None:
        """See :attr:`InspectedSubscription.last_unacknowledged`."""
        for info in reversed(list(self.topic.log.ledgers)):
            low = before(position(info.id, 0))
            left = self.acks.unacknowledged(low, info.last, info.entries)
            if left:
                return left[-1]
        return None

    @property
    def masks(self) -> Mapping[Position, int]:
        """See :attr:`InspectedSubscription.masks`."""
        return self.acks.masks

    def forget_counts(self) -> None:
        """See :meth:`InspectedSubscription.forget_counts`."""
        self._handout.forget_counts()

    async def overlook(self, other: InspectedSubscription) -> None:
        """See :meth:`InspectedSubscription.overlook`."""
        ledgers, cursor = self.topic.log.ledgers, self.cursor
        for info in list(ledgers):
            low = max(before(position(info.id, 0)), self.acks.mark_delete)
            for first, last in ledgers.runs(low, info.last):
                left = set(other.unacknowledged(info.entries, before(first)))
                every = map(Position, range(first, last + 1))
                cursor.settle([place for place in every if place not in left])
            await trio.lowlevel.checkpoint()
        for place, mask in list(other.masks.items()):
            if place > self.acks.mark_delete and (size := await self.topic.size_at(place)):
                cursor.settle_messages(place, (1 << size) - 1 & ~mask, size)
        self._reader.let_go()
        self.receipt(None)

    async def skip_through(self, place: Position) -> None:
        """See :meth:`InspectedSubscription.skip_through`."""
        if self.is_fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed")
        for consumer in self.consumers:
            out = [each for each in (*consumer.whole, *consumer.masks) if each <= place]
            consumer.acknowledge(out)
        self.settlement.acknowledge_until(place)
        await durable(self.receipt)

    def let_fall(self, taken: int, entries_max: int) -> int:
        """So many entries were handed out; if they were not as many as may be at once, nobody
        could take what is left, and it is gone."""
        last = self.topic.last
        if taken < entries_max and last is not None and last > self.acks.mark_delete:
            self.settlement.acknowledge_until(last)
            self.receipt(None)
        return taken
