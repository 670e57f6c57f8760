"""A consumer of one topic: its machine, attached to the broker that serves the topic.

The rule: only ``async`` methods wait, and cancelling one loses neither a message nor an
acknowledgement.
"""

from functools import partial
from typing import Any, TypeVar

import anyio

from arneb_pulsar.client.attachment import patiently
from arneb_pulsar.client.consumer.consuming import Consuming, SeekTo
from arneb_pulsar.client.consumer.link import ConsumerLink
from arneb_pulsar.client.consumer.message import Message, entry_of
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
from arneb_pulsar.client.tasks.waiting import Outcome
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
        """The topic's complete name."""
        return str(self._topic)

    @property
    def subscription(self) -> str:
        """The subscription's name."""
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
        """Whether it has been closed or has failed for good."""
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
        """Note that the application waits for messages."""
        self._machine.wait()
        if self._machine.acks.output:
            self._changed()

    def pause(self) -> None:
        """Stop fetching messages; those already fetched can still be received."""
        self._machine.pause()

    def resume(self) -> None:
        """Fetch messages again."""
        self._machine.resume()
        self._changed()

    # Acknowledging

    def acknowledge(self, which: "Message[T] | MessageId") -> None:
        """Acknowledge a message. The broker is told within ``ack_group_s``, so the acknowledgement
        is not durable when this returns: see :meth:`acknowledge_stored`. Raises
        :class:`PulsarError` if the consumer has ended."""
        self._check_open()
        if (
            type(which) is Message
            and not self._interceptors
            and self._machine.acks.acknowledge_part(which.entry.id, which.batch_index)
        ):
            return
        self._acknowledge(which, None)

    def acknowledge_cumulative(self, which: "Message[T] | MessageId") -> None:
        """Acknowledge a message and all before it. Raises :class:`ConfigurationError` for Shared
        and Key_Shared subscriptions."""
        self._check_open()
        self._acknowledge_cumulative(which, None)

    async def acknowledge_stored(
        self, which: "Message[T] | MessageId", *, cumulative: bool = False
    ) -> None:
        """Acknowledge, and wait until the broker has stored it. If cancelled, the acknowledgement
        is still sent. Raises the broker's error or :class:`Disconnected`; the message may then be
        redelivered."""
        self._check_open()
        stored: Outcome[None] = Outcome()

        def answered(error: BaseException | None) -> None:
            if error is None:
                stored.set(None)
            else:
                self._machine.counts.ack_failures += 1
                stored.fail(error)

        acknowledge = self._acknowledge_cumulative if cumulative else self._acknowledge
        acknowledge(which, answered)
        await stored.wait()

    async def acknowledge_in(
        self,
        transaction: InTransaction,
        which: "Message[T] | MessageId",
        *,
        cumulative: bool = False,
    ) -> None:
        """Acknowledge as part of a transaction. From then on the message is redelivered only if the
        transaction aborts, not after an ack timeout or an earlier negative acknowledgement. Raises
        :class:`PulsarError`."""
        self._check_open()
        entry, index, size, chunks = entry_of(which)
        message_id = pb.MessageIdData(ledgerId=entry[0], entryId=entry[1])
        if index >= 0 and size > 1:
            left = ((1 << size) - 1) & ~(1 << index)
            if cumulative:
                left = ((1 << size) - 1) & -(1 << (index + 1))
            message_id.ack_set.extend(words_of(left))
            message_id.batch_size = size
        acks, what = self._machine.acks, f"acknowledgement in transaction {transaction.id}"
        commands = acks.commands_in(transaction.id, message_id, chunks, cumulative=cumulative)
        for command in commands:
            try:
                await self._request(command, what)
            except TransactionConflict:
                if command is not commands[0] or len(commands) == 1:
                    raise
                # Everything before the excluded chunks is acknowledged already, here or elsewhere.
        for each in self._interceptors:
            guarded(each.on_acknowledge, self.topic, which, cumulative=cumulative)
        acks.leave_to_transaction(entry, index, size, cumulative=cumulative)

    def negative_acknowledge(self, which: "Message[T] | MessageId") -> None:
        """Have a message redelivered after ``negative_ack_delay_s`` or its backoff."""
        self._check_open()
        entry, index, *_ = entry_of(which)
        count = which.redelivery_count if isinstance(which, Message) else 0
        for each in self._interceptors:
            guarded(each.on_negative_acknowledge, self.topic, which)
        self._machine.acks.negative_acknowledge(entry, index, count, self._context.clock.now())
        self._changed()

    def redeliver_unacknowledged(self) -> None:
        """Have all unacknowledged messages redelivered."""
        self._check_open()
        self._machine.redeliver_all()
        self._changed()

    async def reconsume_later(
        self, message: Message[T], delay_s: float, properties: dict[str, str] | None = None
    ) -> None:
        """Send a message to the retry topic, to be redelivered after ``delay_s``, or to the
        dead-letter topic once its retries are used up; then acknowledge it. Raises
        :class:`ConfigurationError` unless the consumer has ``retry=True``."""
        self._check_open()
        if self._letters is None or not self._options.retry:
            raise ConfigurationError("expected a consumer with retry=True")
        await self._letters.reconsume_later(message, delay_s, properties or {})
        self.acknowledge(message)

    # The subscription

    async def seek(self, where: SeekTo) -> None:
        """Continue from a message (after it, unless ``start_inclusive``) or a time in ms. Fetched
        messages and pending acknowledgements are dropped. The seek is repeated if the connection
        is lost or the broker unloads the topic. Concurrent seeks run one after another. If
        cancelled, it may or may not have taken effect. Raises :class:`ConfigurationError` if
        ``where`` is neither a message id nor a time."""
        self._check_open()
        target = _checked(where(self.topic) if callable(where) else where)
        if self._seeks is None:
            self._seeks = anyio.Lock()
        async with self._seeks:
            self._check_open()
            await self._seek_patiently(target)

    async def _seek_patiently(self, where: MessageId | int) -> None:
        backoff = self._context.backoff()
        end = self._context.clock.now() + self._context.operation_timeout_s
        while True:
            try:
                await self._seek(where)
                break
            except (ConnectError, ServerRefused) as error:
                # A retriable error while the broker closes the topic is not a refusal.
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
            command.message_id.CopyFrom(self._machine.first_id_of(where).to_wire())
        else:
            command.message_publish_time = where
        self._machine.begin_seek()
        done, what = False, f"seek of {self._topic}"
        try:
            connection, left_s = await self._connection(what)
            # Not earlier: while this is set, a lost consumer is not attached again.
            self._seeking = True
            await connection.request(command, what, left_s)
            done = True
        finally:
            start = where if isinstance(where, MessageId) else None
            self._end_seek(start, done=done)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Remove the subscription, and close. Raises the broker's error."""
        self._check_open()
        command = CommandUnsubscribe(consumer_id=self._id, force=force or None)
        await self._request(command, f"unsubscribe of {self._subscription!r} from {self._topic}")
        self._end(ClientClosed(f"the consumer of {self._topic} was unsubscribed"))

    async def last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; its entry id is -1 if there is none."""
        found = await self._last()
        return MessageId.from_wire(found.last_message_id, self.topic)

    async def has_message_available(self) -> bool:
        """Return whether there is a message after the last one received."""
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
        """Send pending acknowledgements, and close. If cancelled, it is closed all the same."""
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
            pass  # the consumer is gone either way
        finally:
            self._end(ClientClosed(f"the consumer of {self._topic} was closed"))

    def abort(self, error: PulsarError) -> None:
        """Close at once, without telling the broker."""
        self._end(error)

    def statistics(self) -> ConsumerStatistics:
        """Return the counts since the consumer was made."""
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
            entry_id, index, size, chunks = entry_of(which)
            self._machine.acks.acknowledge(
                entry_id, index, size, now, chunks=chunks, receipt=receipt
            )
        # The timer may be set for a later event: an ack timeout or a negative acknowledgement.
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
        entry, index, size, chunks = entry_of(which)
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
        # A broker that has just unloaded the topic no longer knows the consumer.
        command = CommandGetLastMessageId(consumer_id=self._id)
        what = f"last message of {self._topic}"
        return await patiently(self._context, partial(self._request, command, what))


def _checked(where: Any) -> MessageId | int:
    if isinstance(where, MessageId) or (isinstance(where, int) and where >= 0):
        return where
    raise ConfigurationError(f"expected a message's id or a time in ms, got {where!r}")
