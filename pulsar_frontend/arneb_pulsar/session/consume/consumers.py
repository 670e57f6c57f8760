"""The consumers of one connection: from SUBSCRIBE to CLOSE_CONSUMER.

The table of ``transitions`` says what a consumer may do in which state. Commands for a consumer
that is not there are dropped if the protocol has no answer to them: clients send them before they
know that the broker closed it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from arneb_core.api.entries.ledger_ids import AS_COUNTED
from arneb_core.api.entries.position import Position
from arneb_pulsar.packing.message_ids import (
    IDS_PER_TURN,
    message_id_of,
    position_of,
    start_position_of,
)
from arneb_pulsar.session.consume.acknowledgements import acknowledge, answer_ack
from arneb_pulsar.session.consume.consumer import Consumer
from arneb_pulsar.session.consume.subscribe import attachment
from arneb_pulsar.session.errors import Failure, RequestRefused
from arneb_pulsar.session.interface.effects import (
    AddPermits,
    ConsumerKey,
    DescribeConsumer,
    DetachConsumer,
    ReadLast,
    Redeliver,
    Seek,
    Unsubscribe,
)
from arneb_pulsar.session.interface.events import (
    Acknowledged,
    ActiveChanged,
    ConsumerAttached,
    ConsumerClosed,
    ConsumerDescribed,
    ConsumerRefused,
    Delivered,
    EndReached,
    LastRead,
    LastUnread,
    SeekDone,
    Unsubscribed,
)
from arneb_pulsar.session.output import Output
from arneb_pulsar.session.transitions import ConsumerInput, ConsumerState
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.ack_sets import mask_of
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandAck,
    CommandCloseConsumer,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandFlow,
    CommandGetLastMessageId,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    MessageIdData,
)

CONSUMERS_MAX: Final = 10_000
"""Consumers of one connection; Pulsar bounds them per topic only."""

ACTIVE_AFTER_S: Final = 1.0
"""How long after SUCCESS a new failover consumer is told whether it is active, unless it asks for
messages earlier: Go's client registers its consumer only a moment after SUCCESS, and drops what
comes before. Apache Pulsar waits as long (``activeConsumerFailoverDelayTimeMillis``)."""

NOT_FOUND: Final = Failure(pb.MetadataError, "Consumer not found")


class Consumers:
    """All consumers of a connection.

    Invariant: ``_by_id`` has those whose id is taken; ``_by_key`` also those that the core let go
    while an answer about them is still to come; ``_unannounced`` has when consumers are to be told
    whether they are active, in order of time.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._by_id: dict[int, Consumer] = {}
        self._by_key: dict[ConsumerKey, Consumer] = {}
        self._unannounced: dict[ConsumerKey, float] = {}
        self._next_key = 1

    def __repr__(self) -> str:
        return f"<Consumers: {len(self._by_key)}, {len(self._by_id)} of them with their ids>"

    # Coming and going

    def subscribe(self, command: CommandSubscribe) -> None:
        """SUBSCRIBE: ask the core to attach the consumer."""
        present = self._by_id.get(command.consumer_id)
        if present is not None and present.state is ConsumerState.ATTACHING:
            raise RequestRefused(
                pb.ServiceNotReady, "Consumer is already present on the connection"
            )
        if present is not None:
            self._output.send(commands.success(command.request_id))
            return
        if len(self._by_id) >= CONSUMERS_MAX:
            raise RequestRefused(
                pb.TooManyRequests, f"At most {CONSUMERS_MAX} consumers a connection"
            )
        key = ConsumerKey(self._next_key)
        effect = attachment(key, command, self._output.client)
        self._next_key += 1
        consumer = Consumer(
            key,
            command.consumer_id,
            command.request_id,
            effect.type,
            effect.name,
            effect.topic.partition,
            command.consumer_epoch if command.HasField("consumer_epoch") else None,
            effect.counts,
        )
        self._by_id[command.consumer_id] = self._by_key[key] = consumer
        self._output.do(effect)

    def attached(self, event: ConsumerAttached) -> None:
        """The consumer is attached; detach it if it was closed meanwhile."""
        consumer = self._by_key.get(event.key)
        if consumer is None:
            self._output.do(DetachConsumer(event.key))
            return
        consumer.attached(event.ledger_ids)
        self._output.send(commands.success(consumer.request_id))
        if consumer.type.traits.one_active:
            self._unannounced[event.key] = self._output.now + ACTIVE_AFTER_S

    def active_changed(self, event: ActiveChanged) -> None:
        """Another failover consumer is the active one, perhaps this one."""
        consumer = self._by_key.get(event.key)
        if consumer is None or consumer.is_detached:
            return
        consumer.active = event.active
        if consumer.state is not ConsumerState.ATTACHING and event.key not in self._unannounced:
            self._tell_active(consumer)

    @property
    def deadline(self) -> float:
        """When :meth:`tick` wants to be called."""
        return next(iter(self._unannounced.values()), math.inf)

    def tick(self) -> None:
        """Time passed."""
        while self.deadline <= self._output.now:
            key = next(iter(self._unannounced))
            del self._unannounced[key]
            self._tell_active(self._by_key[key])

    def _tell_active(self, consumer: Consumer) -> None:
        if consumer.active is not None and self._output.client.hears_active_changes:
            active = commands.active_consumer_change(consumer.consumer_id, consumer.active)
            self._output.notify(active)

    def end_reached(self, event: EndReached) -> None:
        """Everything is acknowledged, and nothing more will be appended."""
        consumer = self._by_key.get(event.key)
        if (
            consumer is not None
            and consumer.may(ConsumerInput.USE)
            and self._output.client.hears_end_of_topic
        ):
            self._output.notify(commands.reached_end_of_topic(consumer.consumer_id))

    def refused(self, event: ConsumerRefused) -> None:
        """There will be no such consumer."""
        consumer = self._by_key.get(event.key)
        if consumer is None:
            return
        self._move(consumer, ConsumerInput.REFUSED)
        failure = event.failure
        self._output.send(commands.error(consumer.request_id, failure.code, failure.text))

    def close(self, command: CommandCloseConsumer) -> None:
        """CLOSE_CONSUMER; an unknown consumer is closed already."""
        consumer = self._by_id.get(command.consumer_id)
        if consumer is not None:
            if consumer.state is not ConsumerState.ATTACHING:
                self._output.do(DetachConsumer(consumer.key))
            # Else it is detached when the server reports it attached; see attached().
            self._move(consumer, ConsumerInput.CLOSE)
        self._output.send(commands.success(command.request_id))

    def closed_by_core(self, event: ConsumerClosed) -> None:
        """The core detached the consumer: tell its client to subscribe again."""
        consumer = self._by_key.get(event.key)
        if consumer is None or not consumer.may(ConsumerInput.CLOSED_BY_CORE):
            return
        was_unsubscribing = consumer.state is ConsumerState.UNSUBSCRIBING
        self._move(consumer, ConsumerInput.CLOSED_BY_CORE)
        if not was_unsubscribing:
            urls = event.assigned.url, event.assigned.url_tls
            self._output.send(commands.close_consumer(consumer.consumer_id, *urls))

    def unsubscribe(self, command: CommandUnsubscribe) -> None:
        """UNSUBSCRIBE."""
        consumer = self._wanted(command.consumer_id, ConsumerInput.UNSUBSCRIBE)
        consumer.move(ConsumerInput.UNSUBSCRIBE)
        consumer.unsubscribe_request = command.request_id
        self._output.do(Unsubscribe(consumer.key, command.force))

    def unsubscribed(self, event: Unsubscribed) -> None:
        """The subscription is gone, or stays."""
        consumer = self._by_key[event.key]
        request_id, failure = consumer.unsubscribe_request, event.failure
        if failure is None:
            self._move(consumer, ConsumerInput.UNSUBSCRIBED)
            self._output.send(commands.success(request_id))
            return
        was_detached = consumer.is_detached
        self._move(consumer, ConsumerInput.UNSUBSCRIBE_FAILED)
        self._output.send(commands.error(request_id, failure.code, failure.text))
        if was_detached and consumer.consumer_id not in self._by_id:
            self._output.send(commands.close_consumer(consumer.consumer_id))

    # Delivering

    def flow(self, command: CommandFlow) -> None:
        """FLOW."""
        consumer = self._usable(command.consumer_id)
        if consumer is not None and command.messagePermits:
            if self._unannounced.pop(consumer.key, None) is not None:
                self._tell_active(consumer)
            consumer.counts.flowed_at = self._output.now
            self._output.do(AddPermits(consumer.key, command.messagePermits))

    def delivered(self, event: Delivered) -> None:
        """Send entries to a consumer."""
        consumer = self._by_key.get(event.key)
        if consumer is not None and not consumer.is_detached:
            checked = self._output.client.reads_checksums
            consumer.counts.delivered_at = self._output.now
            self._output.deliver(consumer.messages(event.run, checked=checked))

    def redeliver(self, command: CommandRedeliverUnacknowledgedMessages) -> None:
        """REDELIVER_UNACKNOWLEDGED_MESSAGES; there is no answer to it."""
        consumer = self._usable(command.consumer_id)
        if consumer is None:
            return
        if command.HasField("consumer_epoch"):
            consumer.begin_epoch(command.consumer_epoch)
        if not consumer.shares:
            # A single consumer in order starts again after what it acknowledged.
            self._output.do(Redeliver(consumer.key, None, count=False))
        elif command.message_ids:
            self._output.do_in_pieces(_redeliveries(consumer, command.message_ids))
        else:
            self._output.do(Redeliver(consumer.key, None, count=True))

    def acknowledge(self, command: CommandAck, raw: bytes) -> None:
        """ACK, which came in the bytes ``raw``."""
        consumer = self._usable(command.consumer_id)
        if consumer is not None:
            consumer.counts.acked_at = self._output.now
            acknowledge(self._output, consumer, command, raw)

    def acknowledged(self, event: Acknowledged) -> None:
        """An acknowledgement is durable, or failed. Its consumer may be gone by now."""
        answer_ack(self._output, event.consumer_id, event.request_id, event.failure)

    # Seeking and asking

    def seek(self, command: CommandSeek) -> None:
        """SEEK, by message id or by publish time."""
        consumer = self._wanted(command.consumer_id, ConsumerInput.SEEK)
        position = mask = publish_time_ms = None
        if command.HasField("message_id"):
            position = start_position_of(command.message_id, consumer.ledger_ids)
            if command.message_id.ack_set:
                mask = mask_of(command.message_id.ack_set)
            if mask == 0:  # the whole batch is done: the next entry is meant
                position, mask = Position(position + 1), None
        elif command.HasField("message_publish_time"):
            # Java sends a time before 1970 as the unsigned form of a negative number.
            before_all = command.message_publish_time >= 1 << 63
            publish_time_ms = 0 if before_all else command.message_publish_time
        else:
            raise RequestRefused(
                pb.MetadataError, "Message id and message publish time were not present"
            )
        consumer.move(ConsumerInput.SEEK)
        effect = Seek(consumer.key, command.request_id, position, mask, publish_time_ms)
        self._output.do(effect)

    def seek_done(self, event: SeekDone) -> None:
        """The subscription has moved, or could not."""
        consumer = self._by_key[event.key]
        failure = event.failure
        if failure is None:
            self._move(consumer, ConsumerInput.SEEK_DONE)
            self._output.send(commands.success(event.request_id))
        else:
            self._move(consumer, ConsumerInput.SEEK_FAILED)
            self._output.send(commands.error(event.request_id, failure.code, failure.text))

    def last_message_id(self, command: CommandGetLastMessageId) -> None:
        """GET_LAST_MESSAGE_ID."""
        consumer = self._wanted(command.consumer_id, ConsumerInput.USE)
        self._output.do(ReadLast(consumer.key, command.request_id))

    def last_read(self, event: LastRead) -> None:
        """Answer with the last entry of a consumer's topic."""
        consumer = self._by_key.get(event.key)
        partition, ids = -1, AS_COUNTED
        if consumer is not None:
            partition, ids = consumer.partition, consumer.ledger_ids
        batch_index = event.batch_size - 1 if event.batch_size > 0 else -1
        self._output.send(
            commands.last_message_id(
                event.request_id,
                message_id_of(event.last, partition, batch_index, ids),
                message_id_of(event.mark_delete, ids=ids),
            )
        )

    def last_unread(self, event: LastUnread) -> None:
        """The last entry could not be read."""
        failure = event.failure
        self._output.send(commands.error(event.request_id, failure.code, failure.text))

    def statistics(self, command: CommandConsumerStats) -> None:
        """CONSUMER_STATS."""
        consumer = self._usable(command.consumer_id)
        if consumer is None:
            reply = CommandConsumerStatsResponse(
                request_id=command.request_id,
                error_code=pb.ConsumerNotFound,
                error_message=f"Consumer {command.consumer_id} not found",
            )
            self._output.send(commands.consumer_stats(reply))
        else:
            self._output.do(DescribeConsumer(consumer.key, command.request_id))

    def described(self, event: ConsumerDescribed) -> None:
        """Answer with what is known of a consumer."""
        consumer = self._by_key.get(event.key)
        shares = consumer is not None and consumer.type.traits.sharing
        reply = CommandConsumerStatsResponse(
            request_id=event.request_id,
            consumerName="" if consumer is None else consumer.name,
            type="None" if consumer is None else consumer.type.traits.title,
            address=event.address,
            connectedSince=event.connected_since,
            unackedMessages=event.in_flight if shares else 0,  # as Pulsar counts
            msgBacklog=event.subscription.backlog_entries,
            availablePermits=max(0, event.permits),
            blockedConsumerOnUnackedMsgs=event.is_shut_off,
        )
        self._output.send(commands.consumer_stats(reply))

    # Inside

    def _usable(self, consumer_id: int) -> Consumer | None:
        """Return the attached consumer of that id, if there is one."""
        consumer = self._by_id.get(consumer_id)
        if consumer is not None and consumer.may(ConsumerInput.USE):
            return consumer
        return None

    def _wanted(self, consumer_id: int, happened: ConsumerInput) -> Consumer:
        """Return the consumer of that id, which must have that move, or raise
        :class:`RequestRefused`."""
        consumer = self._by_id.get(consumer_id)
        if consumer is None or consumer.state is ConsumerState.ATTACHING:
            raise RequestRefused(NOT_FOUND.code, NOT_FOUND.text)
        if not consumer.may(happened):
            text = f"Consumer is {consumer.state.name.lower()}"
            raise RequestRefused(pb.UnknownError, text)
        return consumer

    def _move(self, consumer: Consumer, happened: ConsumerInput) -> None:
        """Take a move, and forget a consumer that it closes."""
        consumer.move(happened)
        if consumer.is_detached:
            self._unannounced.pop(consumer.key, None)
            if self._by_id.get(consumer.consumer_id) is consumer:
                del self._by_id[consumer.consumer_id]
        if consumer.state is ConsumerState.CLOSED:
            del self._by_key[consumer.key]


def _redeliveries(consumer: Consumer, message_ids: Sequence[MessageIdData]) -> Iterator[Redeliver]:
    """Give back what a client names, a bounded number a turn. An entry named in two pieces counts
    twice if it was delivered again in between, which is the client's own doing."""
    for start in range(0, len(message_ids), IDS_PER_TURN):
        named = message_ids[start : start + IDS_PER_TURN]
        found = dict.fromkeys(position_of(each, consumer.ledger_ids) for each in named)
        positions = [position for position in found if position is not None]
        yield Redeliver(consumer.key, positions, count=True)
