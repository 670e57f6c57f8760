"""Consumers: the attachments of one connection, and the client's answers.

The rule: effects name consumers by number; only this module knows their attachments. What no longer
exists (a queue deleted meanwhile, a consumer that the core has closed) is skipped: nothing is left
to do.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import trio

from arneb_amqp.consumption import Consumption
from arneb_amqp.decompression import decompressed
from arneb_amqp.routing.stream_filter import StreamFilter
from arneb_amqp.server.context import ConnectionContext, CoreEvents
from arneb_amqp.session.consume.unbatching import unbatched
from arneb_amqp.session.deliveries import (
    AnsweredDeliveries,
    ConsumerId,
    attached_again,
    consumer_of,
)
from arneb_amqp.session.effects import Cancel, Consume, Get
from arneb_amqp.session.events import Pulled
from arneb_amqp.topology.footprint import of_queue
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.attachments import Attachment, give_back
from arneb_amqp.topology.queues.delivery_counts import counted
from arneb_amqp.traffic import QueueTraffic
from arneb_core.access.acting import BY_ITSELF
from arneb_core.api.entries.entry import Origin
from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.deliveries import Deliveries

logger = logging.getLogger(__name__)

REATTACH_S: Final = 0.05
REATTACH_TRIES: Final = 100
"""Tries: a seek takes a commit or two; a consumer that cannot come back after it is cancelled."""

NO_CHANNEL: Final = 0
"""The channel of pulled messages: only the session knows it."""


class Tap:
    """Shows tracing what one consumer receives."""

    __slots__ = ("_channel", "_context", "_queue", "vhost")

    def __init__(self, context: ConnectionContext, queue: str, channel: int) -> None:
        self._context = context
        self._queue = queue
        self._channel = channel
        self.vhost = context.vhost

    def __repr__(self) -> str:
        return f"<Tap of {self._queue!r}>"

    def delivered(self, run: Deliveries) -> None:
        """Trace a delivered run."""
        if self.vhost.tracing is not None:
            positions, entries, _ = unbatched(run, self._queue)
            again = [position in (run.redelivered or ()) for position in positions]
            self.vhost.tracing.delivered(
                self._context.tapped, self._channel, self._queue, entries, again
            )


class Consumers:
    """The attachments of one connection's consumers.

    Invariant: ``_leaving`` are those of ``attached`` that were cancelled with deliveries
    unanswered, with their channels; they are detached when the last answer comes, or with the
    channel. What the session still counts as unanswered does not say which they are: the channel
    may have been closed because of an answer, or in a transaction.
    """

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self.attached: dict[ConsumerId, Attachment] = {}
        """Attachments; without any, no deliveries come."""
        self._leaving: dict[ConsumerId, int] = {}
        self._consumes: dict[ConsumerId, Consume] = {}
        self._last_ids: dict[ConsumerId, ConsumerId] = {}
        """Each consumer's last attachment id, by its first."""
        self.writable = True

    def __repr__(self) -> str:
        return f"<Consumers of {self._context!r}, {len(self.attached)} attached>"

    # Answers.

    def acknowledge(self, answered: AnsweredDeliveries) -> None:
        """Pass acknowledgements to the core."""
        attachment = self.attached.get(answered.consumer)
        if attachment is None:
            return
        traffic, count = attachment.queue.traffic, len(answered.positions)
        traffic.acknowledged += count
        traffic.whole.acknowledged += count
        if count:
            attachment.consumer.acknowledge(answered.positions)
        for position, mask in answered.masks.items():
            traffic.acknowledged += mask.bit_count()
            traffic.whole.acknowledged += mask.bit_count()
            attachment.consumer.acknowledge_messages(position, mask)
        if answered.consumer in self._leaving:
            self._end_if_answered(answered.consumer, attachment)

    def reject(self, answered: AnsweredDeliveries) -> None:
        """Pass rejected messages to the core."""
        attachment = self.attached.get(answered.consumer)
        if attachment is None:
            return
        attachment.consumer.reject(answered.positions, answered.masks or None)
        if answered.consumer in self._leaving:
            self._end_if_answered(answered.consumer, attachment)

    def release(self, answered: AnsweredDeliveries) -> None:
        """Requeue messages."""
        attachment = self.attached.get(answered.consumer)
        if attachment is None:
            return
        attachment.consumer.release(
            [*answered.positions, *answered.masks], count=True, masks=answered.masks or None
        )
        if answered.consumer in self._leaving:
            self._end_if_answered(answered.consumer, attachment)

    def present(
        self, answers: Iterable[AnsweredDeliveries]
    ) -> list[tuple[Consumer, AnsweredDeliveries]]:
        """Return those ``answers`` whose consumers are still attached, with the core's
        consumers."""
        return [
            (self.attached[each.consumer].consumer, each)
            for each in answers
            if each.consumer in self.attached
        ]

    def answered(self, answers: Iterable[tuple[Consumer, AnsweredDeliveries]]) -> None:
        """Account for answers found by :meth:`present` once their transaction is committed."""
        for _, each in answers:
            if (attachment := self.attached.get(each.consumer)) is not None:
                attachment.queue.traffic.acknowledged += each.messages
                attachment.queue.traffic.whole.acknowledged += each.messages
        for id_ in {each.consumer for _, each in answers} & self._leaving.keys():
            self._end_if_answered(id_, self.attached[id_])

    # Deliveries.

    def wake(self, consumers: Iterable[ConsumerId]) -> None:
        """Have the dispatcher consider these consumers again."""
        for consumer in consumers:
            attachment = self.attached.get(self._last_ids.get(consumer, consumer))
            if attachment is not None:
                attachment.consumer.wake()

    def set_writable(self, writable: bool) -> None:
        """Allow or forbid assigning messages to consumers."""
        if writable == self.writable:
            return
        self.writable = writable
        for attachment in self.attached.values():
            if attachment.counted:
                attachment.consumer.writable = writable
                if writable:
                    attachment.consumer.wake()

    def closed(self, id_: ConsumerId, *, for_good: bool = True) -> None:
        """Handle a consumer that the core has detached; it may come back."""
        if for_good:
            self._forget(consumer_of(id_))
        attachment = self.attached.pop(id_, None)
        self._leaving.pop(id_, None)
        if attachment is not None:
            attachment.queue.closed(attachment.consumer, exclusive=attachment.exclusive)

    def wanted(self, consumer: ConsumerId) -> Consumption | None:
        """Return a consumer's request, unless it is cancelled."""
        request = self._consumes.get(consumer)
        return None if request is None else request.wanted

    # Coming and going.

    async def consume(self, request: Consume) -> StreamFilter | None:
        """Attach a consumer; return its filter if its queue is a stream. Raises RabbitMQ's
        errors."""
        filter_ = await self._attach(request)
        self._consumes[request.consumer] = request
        self._context.connection_events.consuming(request.wanted, self._context.user)
        return filter_

    async def reattach(self, id_: ConsumerId) -> None:
        """Reattach a consumer that a seek has detached, unless it was cancelled meanwhile.

        Raises :class:`~arneb_core.api.errors.SubscriptionFenced` while the seek is under way.
        """
        consumer = consumer_of(id_)
        request = self._consumes.get(consumer)
        if request is None:
            return
        await self._attach(request)
        if consumer not in self._consumes:
            await self.leave((consumer,))

    async def come_back(self, id_: ConsumerId) -> bool:
        """Retry :meth:`reattach` until the seek has ended; return whether it succeeded."""
        for _ in range(REATTACH_TRIES):
            await trio.sleep(REATTACH_S)
            try:
                await self.reattach(id_)
            except SubscriptionFenced:
                continue
            except Exception as error:
                logger.warning("cannot reattach a consumer of %r after a seek: %s", self, error)
                return False
            return True
        return False

    def retire(self, request: Cancel) -> None:
        """Give a consumer nothing more: it is about to be cancelled."""
        attachment = self.attached.get(self._last_ids.get(request.consumer, request.consumer))
        if attachment is not None:
            attachment.consumer.retire()

    async def cancel(self, request: Cancel) -> None:
        """Stop deliveries to a consumer."""
        wanted = self.wanted(request.consumer)
        self._forget(request.consumer, self._context.user)
        id_ = self._last_ids.pop(request.consumer, request.consumer)
        attachment = self.attached.get(id_)
        if attachment is None or wanted is None:
            return
        async with self._context.topology.changing(attachment.touched_by_leaving):
            if await self._context.vhost.attachments.cancel(attachment):
                self.attached.pop(id_, None)
            elif id_ in self.attached:
                self._leaving[id_] = wanted.channel

    async def get(self, request: Get) -> Pulled | None:
        """Pull one message; None when there is none. Raises RabbitMQ's errors."""
        id_ = self._last_ids.get(request.consumer, request.consumer)
        attachment = self.attached.get(id_)
        if attachment is None:
            attachment, id_ = await self._attach_getter(request)
        run = await attachment.consumer.pull()
        count_got(attachment.queue.traffic, run, no_ack=request.no_ack)
        if run is None:
            return None
        if self._context.vhost.tracing is not None:
            Tap(self._context, request.queue, NO_CHANNEL).delivered(run)
        if attachment.queue.type is QueueType.QUORUM:
            run = counted(run, always=True)
        messages = None
        if run.entries[0][1] != Origin.AMQP:
            messages = await decompressed(run, request.queue)
        return Pulled(run, attachment.queue.message_count, id_, messages)

    async def leave_channel(self, channel: int, consumers: Sequence[ConsumerId]) -> None:
        """Detach these consumers and those that the channel has cancelled."""
        cancelled = [id_ for id_, its_channel in self._leaving.items() if its_channel == channel]
        await self.leave((*consumers, *cancelled))

    async def leave(self, consumers: Sequence[ConsumerId]) -> None:
        """Detach these consumers and requeue what they hold."""
        last = [self._last_ids.pop(id_, id_) for id_ in consumers]
        for id_ in consumers:
            self._forget(id_)
        present = [id_ for id_ in dict.fromkeys([*last, *consumers]) if id_ in self.attached]
        if not present:
            return
        await give_back(map(self.attached.get, present))
        async with self._context.topology.changing():
            for id_ in present:
                attachment = self.attached.pop(id_, None)
                self._leaving.pop(id_, None)
                if attachment is not None:
                    await self._context.vhost.attachments.detach(attachment)

    async def leave_all(self) -> None:
        """Detach all consumers: the connection has ended. Idempotent."""
        for id_ in list(self._consumes):
            self._forget(id_)
        self._last_ids.clear()
        await self.leave(tuple(self.attached))

    def _forget(self, id_: ConsumerId, user: str = BY_ITSELF) -> None:
        request = self._consumes.pop(id_, None)
        if request is not None:
            self._context.connection_events.consumed(request.wanted, user)

    async def _attach(self, request: Consume) -> StreamFilter | None:
        wanted = request.wanted
        id_, context = self._next_id(request.consumer), self._context
        vhost = context.vhost
        sink = ConsumerSink(context.core_events, id_, Tap(context, wanted.queue, wanted.channel))
        async with context.topology.changing(lambda: of_queue(vhost.name, wanted.queue)):
            if wanted.answers:
                await vhost.queues.make_reply_queue(wanted.queue)
            attachment = await vhost.attachments.attach(wanted, context.owner, sink)
        attachment.consumer.writable = self.writable
        self.attached[id_] = attachment
        self._last_ids[request.consumer] = id_
        return attachment.stream_filter

    async def _attach_getter(self, request: Get) -> tuple[Attachment, ConsumerId]:
        id_, context = self._next_id(request.consumer), self._context
        sink, vhost = ConsumerSink(context.core_events, id_), context.vhost
        async with context.topology.changing(lambda: of_queue(vhost.name, request.queue)):
            attachment = await vhost.attachments.attach_getter(
                request.queue, context.owner, sink, no_ack=request.no_ack
            )
        self.attached[id_] = attachment
        self._last_ids[request.consumer] = id_
        return attachment, id_

    def _next_id(self, consumer: ConsumerId) -> ConsumerId:
        """Return the id for the next attachment."""
        last = self._last_ids.get(consumer)
        return consumer if last is None else attached_again(last)

    def _end_if_answered(self, id_: ConsumerId, attachment: Attachment) -> None:
        if not attachment.consumer.in_flight:
            self._leaving.pop(id_, None)
            del self.attached[id_]
            attachment.consumer.detach()
            attachment.queue.unseen.pop(attachment.consumer, None)


def count_got(traffic: QueueTraffic, run: Deliveries | None, *, no_ack: bool) -> None:
    """Count a ``basic.get`` and its result."""
    for each in (traffic, traffic.whole):
        if run is None:
            each.got_nothing += 1
        elif no_ack:
            each.got_no_ack += 1
        else:
            each.got += 1
        each.redelivered += run is not None and bool(run.redelivered)


class ConsumerSink:
    """Passes one consumer's deliveries to the connection."""

    __slots__ = ("_consumer", "_events", "_tap")

    def __init__(self, events: CoreEvents, consumer: ConsumerId, tap: Tap | None = None) -> None:
        self._events = events
        self._consumer = consumer
        self._tap = tap

    def __repr__(self) -> str:
        return f"<ConsumerSink {self._consumer}>"

    def deliver(self, run: Deliveries) -> None:
        if self._tap is not None and self._tap.vhost.tracing is not None:
            self._tap.delivered(run)
        self._events.delivered(self._consumer, run)

    def active_changed(self, active: bool) -> None:
        """Do nothing: AMQP consumers are not told."""

    def closed_by_core(self, reason: str) -> None:
        self._events.consumer_closed(self._consumer, reason)
