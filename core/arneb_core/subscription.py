"""A subscription: a cursor, its consumers, and the moves between them.

The rule: every entry behind the mark-delete position is in exactly one of four places:
acknowledged, in flight, in the replay set, or not yet read; and replays go before
anything new. It is driven by the pump and never waits: what is not in memory is
asked for, and the pump comes again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from arneb_core.backlog import BacklogReader
from arneb_core.consumer import LogConsumer
from arneb_core.cursor import Cursor, CursorChanges
from arneb_core.entry import messages_in
from arneb_core.errors import (
    ConsumerBusy,
    NotAllowed,
    SubscriptionFenced,
    SubscriptionTypeMismatch,
)
from arneb_core.handout import HandOut
from arneb_core.interface import (
    ConsumerSpec,
    Deliveries,
    Done,
    Sink,
    SubscriptionStatistics,
    SubscriptionType,
)
from arneb_core.position import BEFORE_ALL, Position, before, render
from arneb_core.replay import ReplaySet
from arneb_core.store.schema import SubscriptionId
from arneb_core.waiting import durable

if TYPE_CHECKING:
    from arneb_core.topic import LogTopic

DISPATCH_ENTRIES_MAX: Final = 2_048
"""Entries dispatched before other subscriptions and connections get their turn."""

SUPPORTED_TYPES: Final = frozenset({SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED})

ONE_CONSUMER: Final = frozenset({SubscriptionType.EXCLUSIVE})


class LogSubscription:
    """One subscription (:class:`arneb_core.interface.Subscription`)."""

    def __init__(
        self,
        topic: "LogTopic",
        name: str,
        subscription_id: SubscriptionId | None,
        cursor: Cursor,
        *,
        suspect_until: Position = BEFORE_ALL,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.name = name
        self.id = subscription_id
        """None for subscriptions that leave no trace on disk."""
        self.type: SubscriptionType | None = None
        self.properties = dict(properties or {})
        self.cursor = cursor
        self.acks = acks = cursor.acks
        self._replay = ReplaySet(topic.log, self.wake)
        self._reader = BacklogReader(topic.log, acks, acks.mark_delete, self.wake)
        self._handout = HandOut(acks, suspect_until, self._settle_delivered)
        self._fenced = False
        self._pulling = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        kind = self.type.value if self.type else "unused"
        place = f"at {render(self.acks.mark_delete)}, {self.acks.holes} holes"
        return f"<Subscription {self.topic.name}/{self.name} {place}, {kind}>"

    @property
    def durable(self) -> bool:
        """Its cursor outlives the process."""
        return self.id is not None

    @property
    def consumers(self) -> Sequence[LogConsumer]:
        return list(self._handout.consumers.values())

    @property
    def consumers_attached(self) -> bool:
        """Somebody is there to read."""
        return bool(self._handout.consumers)

    @property
    def mark_delete(self) -> Position:
        return self.acks.mark_delete

    @property
    def ahead(self) -> Position:
        """Everything up to here is at hand or was handed out."""
        return self._reader.ahead

    @property
    def read_after(self) -> Position:
        """Everything up to here was handed out at least once or needs no handing out."""
        return self._reader.after

    @property
    def divided(self) -> Mapping[Position, int]:
        """Batches that are out message by message."""
        return self._handout.divided

    def attach(self, spec: ConsumerSpec, sink: Sink) -> LogConsumer:
        """Add a consumer; see :meth:`arneb_core.interface.Subscription.attach`."""
        if self._fenced or self.topic.fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed")
        if spec.type not in SUPPORTED_TYPES:
            raise NotAllowed(f"subscription type {spec.type.value} is not supported")
        if self._handout.consumers:
            if spec.type is not self.type:
                raise SubscriptionTypeMismatch(
                    f"expected the type of {self!r}, got {spec.type.value}"
                )
            if spec.type in ONE_CONSUMER:
                raise ConsumerBusy(f"expected no other consumer on {self!r}")
        self.type = spec.type
        consumer = LogConsumer(self, spec, sink)
        self._handout.add(consumer)
        self.wake()
        return consumer

    def detached(self, consumer: LogConsumer) -> None:
        """``consumer`` left; what it held is back already."""
        self._handout.remove(consumer)
        if not self._handout.consumers:
            self.type = None
            if not self.durable and self.topic.durable and not self._fenced:
                self.topic.forget(self)
        self.wake()

    def wake(self) -> None:
        """There may be something to dispatch."""
        if self._pulling:
            self._pulling.unpark_all()
        if self._handout.consumers:
            self.topic.has_work(self)

    # Delivering

    def dispatch(self) -> bool:
        """Hand out what can be handed out now; True when there is more to do at once."""
        left = DISPATCH_ENTRIES_MAX
        while left > 0 and not self._fenced and self._handout.has_room:
            source = self._source()
            at_hand = source.peek()
            if at_hand is None:
                if source is self._replay and not self._replay:
                    continue  # the log had none of them any more
                return False
            positions, entries = at_hand
            taken = self._handout.hand_out(positions, entries, batches=self.topic.log.has_batches)
            if not taken:
                return False
            source.take(positions[:taken] if taken < len(positions) else positions)
            left -= taken
        return left <= 0

    async def pull(self, consumer: LogConsumer) -> Deliveries | None:
        """One message for ``consumer``, outside permits; None when nothing is ready."""
        await trio.lowlevel.checkpoint()
        while not self._fenced:
            source = self._source()
            at_hand = source.peek()
            if at_hand is not None:
                place, entry = at_hand[0][0], at_hand[1][0]
                run = self._handout.pull(consumer, place, entry)
                if self._handout.is_done_with(place, entry):
                    source.take([place])
                if run is not None:
                    return run
            elif source is self._replay and not self._replay:
                continue
            elif source.is_reading:
                await self._pulling.park()
            else:
                return None
        raise SubscriptionFenced(f"{self!r} is being reset or removed")

    def returned(self, positions: Sequence[Position], *, count: bool) -> None:
        """Entries came back from a consumer: they are due again, in their places."""
        if positions:
            waiting = self.acks.only_unacked(positions)
            self._replay.add(waiting)
            self._handout.returned(waiting, count=count)
        self.wake()

    def undivide(self, place: Position, mask: int) -> None:
        """Messages of a divided batch are no longer in flight."""
        left = self._handout.divided.get(place, 0) & ~mask
        if left:
            self._handout.divided[place] = left
        else:
            self._handout.divided.pop(place, None)

    def _source(self) -> ReplaySet | BacklogReader:
        return self._replay or self._reader

    # Acknowledging

    def acknowledge(
        self, positions: Sequence[Position], done: Done | None, *, elsewhere: bool
    ) -> None:
        """Entries are done with. ``elsewhere``: some were not in flight at who says so."""
        if positions:
            self._settle(positions)
            if elsewhere:
                self._settle_elsewhere(positions)
        self.receipt(done)
        self.wake()

    def acknowledge_messages(
        self, place: Position, mask: int, size: int | None, done: Done | None
    ) -> None:
        """Messages of a batch are done with; ``size`` is the batch's, if it is known."""
        known = size
        if known is None:
            unacked = self.acks.unacked_mask(place)
            known = unacked.bit_length() if unacked is not None else None
        if known is None:
            hot = self.topic.log.read_hot(place, 1)
            known = messages_in(hot[1][0]) if hot is not None else None
        if known is not None:
            self._settle_messages(place, mask, known, done)
        elif self.topic.log.ledgers.contains(place) and not self.acks.is_acknowledged(place):
            self.topic.log.read_cold(
                place, 1, lambda runs: self._settle_read(place, mask, runs, done)
            )
        else:
            self.receipt(done)

    def acknowledge_until(self, place: Position, done: Done | None) -> None:
        """Everything up to ``place`` is done with."""
        self.cursor.settle_until(place)
        self._handout.settled_through(place)
        self._replay.discard_through(place)
        if place > self._reader.after:
            self._reader.rewind(place)
        self.receipt(done)
        self.wake()

    def unacknowledge(self, positions: Sequence[Position]) -> None:
        """Undo an ack whose commit failed."""
        self.acks.restore(positions)

    def receipt(self, done: Done | None) -> None:
        """The cursor may have changed; ``done`` is told when that is on disk."""
        self.topic.cursor_changed(self, done)

    def _settle(self, positions: Sequence[Position]) -> None:
        self.cursor.settle(positions)
        self._handout.settled(positions)

    def _settle_elsewhere(self, positions: Sequence[Position]) -> None:
        """Entries were acknowledged by somebody who did not hold them: a consumer that came
        back after losing its connection, or an ack ahead of the delivery."""
        self._replay.discard(positions)
        for consumer in self._handout.consumers.values():
            consumer.discard(positions)
        if max(positions) > self._reader.after:
            self._reader.refresh()

    def _settle_messages(self, place: Position, mask: int, size: int, done: Done | None) -> None:
        if self.cursor.settle_messages(place, mask, size):
            self._handout.settled([place])
            self._replay.discard([place])
        self.undivide(place, mask)
        self.receipt(done)
        self.wake()

    def _settle_read(
        self,
        place: Position,
        mask: int,
        runs: list[tuple[Position, list[bytes]]],
        done: Done | None,
    ) -> None:
        if runs and runs[0][0] == place:
            self._settle_messages(place, mask, messages_in(runs[0][1][0]), done)
        else:
            self.receipt(done)

    def _settle_delivered(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None
    ) -> None:
        """A consumer that does not acknowledge got these: that is the end of them."""
        if masks is None:
            self._settle(positions)
        else:
            for place, mask in masks.items():
                self.acknowledge_messages(place, mask, None, None)
        self.receipt(None)

    # Moving

    async def purge(self) -> int:
        """Acknowledge everything that is ready; see the interface."""
        ready = self.ready_messages
        out = [place for consumer in self.consumers for place in consumer.whole]
        divided = {place: mask for place, mask in self.divided.items() if mask}
        self.cursor.settle_all_but([*out, *divided], divided)
        self._replay.clear()
        self._reader.rewind(max(self._reader.after, self.topic.log.ledgers.last or BEFORE_ALL))
        await durable(self.receipt)
        return ready

    async def seek(self, place: Position, mask: int | None = None) -> None:
        """Make ``place`` the next entry to deliver; see the interface."""
        if self._fenced:
            raise SubscriptionFenced(f"{self!r} is being reset already")
        self._fenced = True
        try:
            self.put_out("seek")
            self.cursor.reset(place, mask)
            self._replay.clear()
            self._handout.forget()
            self._reader.rewind(self.acks.mark_delete)
            await durable(self.receipt)
        finally:
            self._fenced = False
            self._pulling.unpark_all()

    async def seek_time(self, publish_time_ms: int) -> None:
        """Seek to the first entry published at or after that time, or to the end."""
        found = await self.topic.first_published(publish_time_ms)
        await self.seek(self.topic.log.ledgers.next_append if found is None else found)

    def put_out(self, reason: str) -> None:
        """Detach all consumers and tell them why."""
        for consumer in self.consumers:
            consumer.put_out(reason)

    def fence(self) -> None:
        """The subscription is being removed."""
        self._fenced = True
        self.put_out("removed")
        self._pulling.unpark_all()

    def unfence(self) -> None:
        """The removal failed."""
        self._fenced = False

    def log_trimmed(self) -> None:
        """Ledgers were dropped from the front of the log."""
        self.acks.log_trimmed()
        floor = before(self.topic.log.ledgers.first or self.topic.log.ledgers.next_append)
        self._replay.discard_through(floor)
        if floor > self._reader.after:
            self._reader.rewind(floor)

    # Persisting

    def take_changes(self) -> CursorChanges:
        """What of the cursor has to be written now."""
        assert self.id is not None, f"{self!r} leaves no trace on disk"
        return self.cursor.take_changes(self.topic.id, self.id, self._reader.after)

    def changes_failed(self, changes: CursorChanges) -> None:
        """Those changes are not on disk after all."""
        self.cursor.changes_failed(changes)

    # Telling

    @property
    def ready_messages(self) -> int:
        """Messages neither acknowledged nor in flight; see the interface."""
        in_flight = sum(consumer.in_flight for consumer in self._handout.consumers.values())
        return max(0, self.cursor.backlog_messages - in_flight)

    def statistics(self) -> SubscriptionStatistics:
        """The subscription at this instant."""
        consumers = self.consumers
        in_flight = sum(consumer.entries_in_flight for consumer in consumers)
        backlog = self.acks.backlog
        return SubscriptionStatistics(
            name=self.name,
            type=self.type,
            durable=self.durable,
            consumers=len(consumers),
            backlog_entries=backlog,
            ready_entries=max(0, backlog - in_flight),
            in_flight_messages=sum(consumer.in_flight for consumer in consumers),
            holes=self.acks.holes,
            mark_delete=self.acks.mark_delete,
            delivered_messages_total=self._handout.delivered_total,
            acknowledged_entries_total=self.cursor.acknowledged_total,
            redelivered_entries_total=self._handout.redelivered_total,
        )
