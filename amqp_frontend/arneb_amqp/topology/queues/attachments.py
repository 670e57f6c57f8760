"""Attachments: the consumers of queues, with AMQP's additions to the core's consumers.

The rule: a consumer cancelled by AMQP stays attached in the core while the client owes answers for
its deliveries, because ``basic.cancel`` requeues nothing; and ``basic.get`` uses a consumer that is
never assigned anything. Neither is counted as a consumer of the queue.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from arneb_amqp.consumption import Consumption
from arneb_amqp.errors import (
    access_refused,
    not_implemented,
    precondition_failed,
    resource_locked,
)
from arneb_amqp.routing.stream_filter import StreamFilter
from arneb_amqp.topology.footprint import Footprint, of_queue
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.consumer_arguments import (
    check_consumer_arguments,
    consumer_priority,
    start_of,
)
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.queues.delivery_counts import CountingSink
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.topology.queues.streams import StreamSink, stream_filter_of, subscribe
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import TopicBusy
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec, Sink
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import Window

GETTER_NAME: Final = "basic.get"

TURN_ENTRIES: Final = 1
"""Entries per turn of a consumer. RabbitMQ deals messages out one to each consumer in turn, and
applications rely on it to share work evenly. A lone consumer still gets whole runs."""


@dataclass(slots=True, eq=False)
class Attachment:
    """One consumer of one queue."""

    queue: Queue
    consumer: Consumer
    exclusive: bool = False
    counted: bool = True
    """Whether AMQP counts it as a consumer; False for getters and after ``basic.cancel``."""
    stream_filter: StreamFilter | None = None
    """Its filter, if the queue is a stream."""

    def touched_by_leaving(self) -> Footprint | None:
        """Return what may change when it leaves."""
        queue = self.queue
        return None if queue.auto_delete else of_queue(queue.vhost, queue.name)


class Attachments:
    """Attaches and detaches the consumers of one vhost. The caller holds the topology's lock."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def __repr__(self) -> str:
        return f"<Attachments to {self._queues!r}>"

    async def attach(self, wanted: Consumption, owner: ConnectionId, sink: Sink) -> Attachment:
        """Attach a consumer. Raises RabbitMQ's errors."""
        queue = await self._queues.access(wanted.queue, owner)
        queue.used()
        check_consumer_arguments(wanted.arguments, str(queue), queue.type)
        if queue.type is QueueType.STREAM:
            return await self._attach_to_stream(queue, wanted, sink)
        _check_global_window(queue, wanted)
        single = queue.options.single_active_consumer
        # RabbitMQ's quorum queues ignore it.
        exclusive = wanted.exclusive and queue.type is not QueueType.QUORUM
        alone = not queue.consumer_count and not single
        if queue.exclusively_consumed or (exclusive and not alone):
            raise _in_exclusive_use(queue)
        spec = ConsumerSpec(
            name=wanted.tag,
            type=SubscriptionType.FAILOVER if single else SubscriptionType.SHARED,
            first_come=True,
            message_level=True,
            unlimited=True,
            # In the core lower goes first, in AMQP higher does.
            priority=-consumer_priority(wanted.arguments),
            entries_per_turn_max=TURN_ENTRIES,
            acks=not wanted.no_ack,
            line=wanted.windows[-1],
            windows=_windows(queue, wanted),
        )
        if queue.type is QueueType.QUORUM:
            sink = CountingSink(sink)
        consumer = queue.subscription.attach(spec, sink)
        queue.exclusively_consumed = exclusive
        return Attachment(queue, consumer, exclusive)

    async def _attach_to_stream(self, queue: Queue, wanted: Consumption, sink: Sink) -> Attachment:
        starts_at = start_of(wanted.arguments, str(queue), wall_clock_ms())
        stream_filter = stream_filter_of(wanted.arguments, str(queue), starts_at)
        _check_stream(queue, wanted)
        _check_global_window(queue, wanted)
        subscription, offset = await subscribe(queue.topic, starts_at, self._queues.new_name)
        spec = ConsumerSpec(
            name=wanted.tag,
            type=SubscriptionType.EXCLUSIVE,
            message_level=True,
            unlimited=True,
            windows=wanted.windows,
        )
        first = Position(subscription.mark_delete + 1)
        consumer = subscription.attach(spec, StreamSink(sink, queue.topic, first, offset))
        return Attachment(queue, consumer, stream_filter=stream_filter)

    async def attach_getter(
        self, name: str, owner: ConnectionId, sink: Sink, *, no_ack: bool
    ) -> Attachment:
        """Attach a consumer that pulls single messages. Raises RabbitMQ's errors."""
        queue = await self._queues.access(name, owner)
        queue.used()
        if queue.type is QueueType.STREAM:
            raise not_implemented(f"basic.get not supported by stream queues {queue}")
        single = queue.options.single_active_consumer
        if single and queue.type is QueueType.QUORUM:
            raise resource_locked(
                f"cannot obtain access to locked {queue}. basic.get operations are not supported "
                "by quorum queues with single active consumer"
            )
        spec = ConsumerSpec(
            name=GETTER_NAME,
            type=SubscriptionType.FAILOVER if single else SubscriptionType.SHARED,
            first_come=True,
            pulls=True,
            message_level=True,
            acks=not no_ack,
        )
        attachment = Attachment(queue, queue.subscription.attach(spec, sink), counted=False)
        queue.unseen[attachment.consumer] = None
        return attachment

    async def cancel(self, attachment: Attachment) -> bool:
        """Stop deliveries and let the rest be answered; True if nothing was left to answer and the
        attachment has ended. May delete an auto-delete queue."""
        if not attachment.consumer.in_flight:
            await self.detach(attachment)
            return True
        attachment.consumer.retire()
        attachment.queue.unseen[attachment.consumer] = None
        await self._discount(attachment)
        return False

    async def detach(self, attachment: Attachment) -> None:
        """Detach and requeue what is in flight. May delete an auto-delete queue.

        A quorum queue counts the requeue, so a message that kills its consumers reaches its
        delivery limit.
        """
        if attachment.queue.type is QueueType.QUORUM:
            attachment.consumer.release_all(count=True)
        attachment.consumer.detach()
        attachment.queue.unseen.pop(attachment.consumer, None)
        await self._discount(attachment)

    async def _discount(self, attachment: Attachment) -> None:
        if not attachment.counted:
            return
        attachment.counted = False
        queue = attachment.queue
        if attachment.exclusive:
            queue.exclusively_consumed = False
        if queue.auto_delete and not queue.consumer_count and self._queues.has(queue):
            with suppress(TopicBusy):  # a Pulsar client joined meanwhile
                await self._queues.delete(queue, only_if=lambda _: not queue.consumer_count)


async def give_back(leaving: Iterable[Attachment | None]) -> None:
    """Requeue what leaving consumers have in flight, in turns if it is much. Called before the
    topology's lock is taken; :meth:`Attachments.detach` follows."""
    for attachment in leaving:
        if attachment is not None:
            is_quorum = attachment.queue.type is QueueType.QUORUM
            await attachment.consumer.give_back(count=is_quorum)


def _windows(queue: Queue, wanted: Consumption) -> tuple[Window, ...]:
    """Return the consumer's windows: its own and, except in quorum queues, its channel's. A
    consumer that does not acknowledge has none of its own."""
    own, of_channel = wanted.windows
    if queue.type is QueueType.QUORUM:
        return () if wanted.no_ack else (own,)
    return (of_channel,) if wanted.no_ack else (own, of_channel)


def _in_exclusive_use(queue: Queue) -> Exception:
    return access_refused(f"{queue} in exclusive use")


def _check_stream(queue: Queue, wanted: Consumption) -> None:
    if not wanted.windows[0].limit:
        raise precondition_failed(f"consumer prefetch count is not set for '{queue}'")
    if wanted.no_ack:
        raise not_implemented(f"automatic acknowledgement not supported by stream queues {queue}")


def _check_global_window(queue: Queue, wanted: Consumption) -> None:
    channel_window = wanted.windows[-1]
    if queue.type is not QueueType.CLASSIC and channel_window.limit:
        raise not_implemented(f"{queue} does not support global qos")
