"""A consumer of one topic: its machine, attached to the broker that has the topic.

The rule: what the application calls never waits unless it says ``await``; what waits is cancelled
without a message or an acknowledgement being lost.
"""

from functools import partial
from typing import Any, TypeVar

import anyio

from arneb_pulsar.client.attachment import patiently
from arneb_pulsar.client.consumer.consuming import Consuming, SeekTo
from arneb_pulsar.client.consumer.link import ConsumerLink
from arneb_pulsar.client.consumer.message import Message, place_of
from arneb_pulsar.client.errors import (
    ClientClosed,
    ConfigurationError,
    ConnectError,
    PulsarError,
    ServerRefused,
    TransactionConflict,
)
from arneb_pulsar.client.ids import LATEST, MessageId
from arneb_pulsar.client.interceptors import guarded
from arneb_pulsar.client.producer.building import InTransaction
from arneb_pulsar.client.statistics import ConsumerStatistics
from arneb_pulsar.client.waiting import Outcome
from arneb_pulsar.wire.ack_sets import words_of
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseConsumer,
    CommandGetLastMessageId,
    CommandSeek,
    CommandUnsubscribe,
)

T = TypeVar("T")


class Consumer(ConsumerLink[T], Consuming[T]):
    """Consumes one topic. Made by ``Client.subscribe``."""

    def __repr__(self) -> str:
        return f"<Consumer {self._subscription!r} {self._machine!r}>"

    @property
    def topic(self) -> str:
        """The complete name of its topic."""
        return str(self._topic)

    @property
    def subscription(self) -> str:
        """Its subscription's name."""
        return self._subscription

    @property
    def waiting(self) -> int:
        """See :class:`Receiving`."""
        return len(self._machine)

    @property
    def capacity(self) -> int:
        """See :class:`Receiving`."""
        return max(self._options.queue_size, 1)

    @property
    def is_closed(self) -> bool:
        """It can be used no more."""
        return self._failure is not None

    # Receiving

    def receive_nowait(self) -> Message[T] | None:
        """See :class:`Receiving`."""
        machine = self._machine
        if self._versions is not None and not self._versions.are_known:
            return None
        message = machine.take(self._context.clock.now() if self._options.ack_timeout_s else 0.0)
        if message is None and self._failure is not None:
            raise self._failure
        if machine.acks.output:
            self._changed()
        elif self._options.ack_timeout_s and message is not None:
            self._timer.set(machine.due())
        if self._interceptors and message is not None:
            for each in self._interceptors:
                guarded(each.before_receive, self.topic, message)
        return message

    async def wait(self) -> None:
        """See :class:`Receiving`."""
        if self._failure is not None:
            raise self._failure
        self.note_waiting()
        try:
            await self._arrived.wait()
        finally:
            self._machine.stop_waiting()

    def note_waiting(self) -> None:
        """An application waits for its messages."""
        self._machine.wait()
        if self._machine.acks.output:
            self._changed()

    def pause(self) -> None:
        """Fetch no more messages; those that are here can still be received."""
        self._machine.pause()

    def resume(self) -> None:
        """Fetch messages again."""
        self._machine.resume()
        self._changed()

    # Acknowledging

    def acknowledge(self, which: "Message[T] | MessageId") -> None:
        """It is done. Told the broker within the time that acknowledgements are gathered; not
        durable when this returns: see :meth:`acknowledge_stored`. Raises
        :class:`PulsarError` of a consumer that has ended."""
        self._check_open()
        if (
            type(which) is Message
            and not self._interceptors
            and self._machine.acks.acknowledge_part(which.entry.id, which.batch_index)
        ):
            return
        self._acknowledge(which, None)

    def acknowledge_cumulative(self, which: "Message[T] | MessageId") -> None:
        """It and all before it are done; not for Shared and Key_Shared. Raises
        :class:`ConfigurationError`."""
        self._check_open()
        self._acknowledge_cumulative(which, None)

    async def acknowledge_stored(
        self, which: "Message[T] | MessageId", *, cumulative: bool = False
    ) -> None:
        """Acknowledge, and wait until the broker has stored it. Cancelled, the acknowledgement
        goes its way. Raises what the broker said, or :class:`Disconnected`: the message may come
        again then."""
        self._check_open()
        stored: Outcome[None] = Outcome()

        def told(error: BaseException | None) -> None:
            if error is None:
                stored.set(None)
            else:
                self._machine.counts.ack_failures += 1
                stored.fail(error)

        acknowledge = self._acknowledge_cumulative if cumulative else self._acknowledge
        acknowledge(which, told)
        await stored.wait()

    async def acknowledge_in(
        self,
        transaction: InTransaction,
        which: "Message[T] | MessageId",
        *,
        cumulative: bool = False,
    ) -> None:
        """Acknowledge as a part of a transaction: neither an ack timeout nor an earlier negative
        acknowledgement has it delivered again then, its abort has. Raises :class:`PulsarError`."""
        self._check_open()
        entry, index, size, chunks = place_of(which)
        place = pb.MessageIdData(ledgerId=entry[0], entryId=entry[1])
        if index >= 0 and size > 1:
            left = ((1 << size) - 1) & ~(1 << index)
            if cumulative:
                left = ((1 << size) - 1) & -(1 << (index + 1))
            place.ack_set.extend(words_of(left))
            place.batch_size = size
        acks, what = self._machine.acks, f"acknowledgement in transaction {transaction.id}"
        commands = acks.commands_in(transaction.id, place, chunks, cumulative=cumulative)
        for command in commands:
            try:
                await self._request(command, what)
            except TransactionConflict:
                if command is not commands[0] or len(commands) == 1:
                    raise
                # All before the pieces that stand in the way is acknowledged, here or elsewhere.
        for each in self._interceptors:
            guarded(each.on_acknowledge, self.topic, which, cumulative=cumulative)
        acks.leave_to_transaction(entry, index, size, cumulative=cumulative)

    def negative_acknowledge(self, which: "Message[T] | MessageId") -> None:
        """It could not be done: deliver it again, after the delay of the options."""
        self._check_open()
        entry, index, *_ = place_of(which)
        count = which.redelivery_count if isinstance(which, Message) else 0
        for each in self._interceptors:
            guarded(each.on_negative_acknowledge, self.topic, which)
        self._machine.acks.negative_acknowledge(entry, index, count, self._context.clock.now())
        self._changed()

    def redeliver_unacknowledged(self) -> None:
        """Have all that is unacknowledged delivered again."""
        self._check_open()
        self._machine.redeliver_all()
        self._changed()

    async def reconsume_later(
        self, message: Message[T], delay_s: float, properties: dict[str, str] | None = None
    ) -> None:
        """Put it into the retry topic, to come back after ``delay_s``, or into the dead-letter
        topic if it has come often enough; and acknowledge it. Raises :class:`ConfigurationError`
        of a consumer that does not retry."""
        self._check_open()
        if self._letters is None or not self._options.retry:
            raise ConfigurationError("expected a consumer with retry=True")
        await self._letters.reconsume_later(message, delay_s, properties or {})
        self.acknowledge(message)

    # The subscription

    async def seek(self, where: SeekTo) -> None:
        """Go on from a message (behind it, unless ``start_inclusive``) or a time. What was fetched
        is dropped; acknowledgements that wait are. A broker that goes away meanwhile, or lets go
        of the topic, is asked again. Another seek waits until this one is done. Cancelled, it
        stands here or there. Raises :class:`ConfigurationError` for what is no place."""
        self._check_open()
        place = _checked(where(self.topic) if callable(where) else where)
        if self._seeks is None:
            self._seeks = anyio.Lock()
        async with self._seeks:
            self._check_open()
            await self._seek_patiently(place)

    async def _seek_patiently(self, where: MessageId | int) -> None:
        backoff = self._context.backoff()
        end = self._context.clock.now() + self._context.operation_timeout_s
        while True:
            try:
                await self._seek(where)
                break
            except (ConnectError, ServerRefused) as error:
                # What a broker says in its own words of a topic that it closes is no refusal.
                thrown_out = error.retriable and not self._machine.attached
                if not thrown_out or self._context.clock.now() >= end:
                    raise
            await anyio.sleep(backoff.next_s())
        with anyio.move_on_after(self._context.operation_timeout_s):
            while not self._machine.attached and self._failure is None:
                await self._attached.wait()
        self._check_open()

    async def _seek(self, where: MessageId | int) -> None:
        command = CommandSeek(consumer_id=self._id)
        if isinstance(where, MessageId):
            command.message_id.CopyFrom(self._machine.place_of(where).to_wire())
        else:
            command.message_publish_time = where
        self._machine.begin_seek()
        done, what = False, f"seek of {self._topic}"
        try:
            connection, left_s = await self._connection(what)
            # From now on, and not before: whoever waits for a broker has to come back to one.
            self._seeking = True
            await connection.request(command, what, left_s)
            done = True
        finally:
            start = where if isinstance(where, MessageId) else None
            self._end_seek(start, done=done)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Remove the subscription, and close. Raises what the broker said."""
        self._check_open()
        command = CommandUnsubscribe(consumer_id=self._id, force=force or None)
        await self._request(command, f"unsubscribe of {self._subscription!r} from {self._topic}")
        self._end(ClientClosed(f"the consumer of {self._topic} was unsubscribed"))

    async def last_message_id(self) -> MessageId:
        """The last message of the topic; its entry id is -1 if there is none."""
        found = await self._last()
        return MessageId.from_wire(found.last_message_id, self.topic)

    async def has_message_available(self) -> bool:
        """Whether there is a message behind the last one that was received."""
        if self.waiting:
            return True
        found = await self._last()
        last = MessageId.from_wire(found.last_message_id, self.topic)
        if last.entry_id < 0:
            return False
        machine = self._machine
        behind, inclusive = machine.last_given, False
        if behind is None and machine.last_taken is not None:
            behind = machine.last_taken.id
        if behind is None:
            behind, inclusive = machine.start, machine.start_is_inclusive
        if behind in (None, LATEST) and found.HasField("consumer_mark_delete_position"):
            behind = MessageId.from_wire(found.consumer_mark_delete_position, self.topic)
            inclusive = False
        if behind is None:
            return True
        if last.entry == behind.entry and behind.batch_index < 0:
            return inclusive
        at, here = (last.entry, last.batch_index), (behind.entry, behind.batch_index)
        return at >= here if inclusive else at > here

    async def close(self) -> None:
        """Give it up; acknowledgements that wait are sent first. Cancelled, it is closed all the
        same."""
        if self._failure is not None:
            return
        try:
            self._machine.acks.flush(self._context.clock.now())
            self._changed()
            connection = self._attachment.connection
            if connection is not None and self._machine.attached:
                await connection.request(
                    CommandCloseConsumer(consumer_id=self._id),
                    f"close of {self._topic}",
                    self._context.operation_timeout_s,
                )
        except PulsarError:
            pass  # it is gone either way
        finally:
            self._end(ClientClosed(f"the consumer of {self._topic} was closed"))

    def abort(self, error: PulsarError) -> None:
        """Give it up at once."""
        self._end(error)

    def statistics(self) -> ConsumerStatistics:
        """So far."""
        age_s = self._context.clock.now() - self._made_at
        return self._machine.counts.statistics(len(self._machine), age_s, self._machine.attached)

    # Helpers

    def _acknowledge(self, which: "Message[T] | MessageId", receipt: Any) -> None:
        for each in self._interceptors:
            guarded(each.on_acknowledge, self.topic, which, cumulative=False)
        now = self._context.clock.now()
        if type(which) is Message:
            entry = which.entry
            self._machine.acks.acknowledge(
                entry.id,
                which.batch_index,
                entry.batch_size,
                now,
                chunks=entry.chunks,
                receipt=receipt,
            )
        else:
            place, index, size, chunks = place_of(which)
            self._machine.acks.acknowledge(place, index, size, now, chunks=chunks, receipt=receipt)
        # It may be set for what comes much later: an ack timeout, a negative acknowledgement.
        if self._machine.acks.output or self._timer.due > now + self._options.ack_group_s:
            self._changed()

    def _acknowledge_cumulative(self, which: "Message[T] | MessageId", receipt: Any) -> None:
        if self._options.type.is_shared:
            raise ConfigurationError(
                f"expected an Exclusive or Failover subscription to acknowledge cumulatively, "
                f"got {self._options.type.name}"
            )
        for each in self._interceptors:
            guarded(each.on_acknowledge, self.topic, which, cumulative=True)
        entry, index, size, chunks = place_of(which)
        now = self._context.clock.now()
        self._machine.acks.acknowledge_cumulative(
            entry, index, size, now, chunks=chunks, receipt=receipt
        )
        self._changed()

    def _end_seek(self, start: MessageId | None, *, done: bool) -> None:
        hint, self._closed_while_seeking = self._closed_while_seeking, None
        self._seeking = False
        for receipt in self._machine.end_seek(start, done=done):
            receipt(ClientClosed("the subscription was set elsewhere by a seek"))
        if hint is not None and self._failure is None:
            self._attachment.lost(hint)
        self._arrived.ring()
        self.on_arrival()

    async def _last(self) -> Any:
        # A broker that has just let go of the topic does not know the consumer any more.
        command = CommandGetLastMessageId(consumer_id=self._id)
        what = f"last message of {self._topic}"
        return await patiently(self._context, partial(self._request, command, what))


def _checked(where: Any) -> MessageId | int:
    if isinstance(where, MessageId) or (isinstance(where, int) and where >= 0):
        return where
    raise ConfigurationError(f"expected a message's id or a time in ms, got {where!r}")
