"""The machine of a consumer: MESSAGEs, acknowledgements and time in; messages and commands out.

The rule: an application gets each message that it has not acknowledged, in the order in which the
broker sent them; acknowledgements outlive connections, prefetched messages do not.
"""

import logging
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from arneb_pulsar.client.consumer.acknowledging import Acknowledging
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.consumer.options import ConsumerOptions
from arneb_pulsar.client.consumer.unpacking import Unpacked, Unpacker, permits_of
from arneb_pulsar.client.ids import EARLIEST, LATEST, EntryId, MessageId
from arneb_pulsar.client.messages import MESSAGE_OVERHEAD_BYTES
from arneb_pulsar.client.statistics import ReceiveCounts
from arneb_pulsar.client.trackers.ack_grouping import (
    AckTracker,
    Receipt,
)
from arneb_pulsar.client.trackers.chunks import ChunkAssembler, Reason
from arneb_pulsar.client.trackers.receiver_queue import ReceiverQueue
from arneb_pulsar.client.trackers.redelivery import redelivery_requests
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    MessageIdData,
)

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")


class Memory(Protocol):
    """The memory that a client's prefetched messages use."""

    @property
    def is_roomy(self) -> bool:
        """Whether queues may grow."""

    def hold(self, size: int) -> None:
        """Add ``size`` bytes, negative to release them."""


class ConsumerMachine(Generic[T]):
    """One consumer of one topic. Its output is in :attr:`acks`, to be sent while attached."""

    def __init__(
        self,
        consumer_id: int,
        topic: str,
        options: ConsumerOptions,
        acks: AckTracker,
        queue: "ReceiverQueue[Message[T]]",
        chunks: ChunkAssembler,
        unpacker: Unpacker[T],
        memory: Memory | None = None,
    ) -> None:
        """``memory`` is for an auto-scaled queue: the bytes waiting in the queue count there."""
        self.consumer_id = consumer_id
        self.topic = topic
        self.counts = ReceiveCounts()
        self.acks = Acknowledging(consumer_id, topic, options, acks, self.counts)
        self.attached = False
        self.epoch = 0
        """Raised when everything is to be redelivered: MESSAGEs with an older one are stale."""
        self.start: MessageId | None = options.start
        """Messages before it, or at it unless inclusive, are not for the application."""
        self.last_given: MessageId | None = None
        """The last message that the application got since :attr:`start`; readers only."""
        self.given_up: list[Message[T]] = []
        """Messages delivered more often than the dead-letter policy allows; see
        :meth:`dead_letter_stored`."""
        self.last_version = b""
        """The schema version of the messages that came last."""
        self._options = options
        self._tracker = acks
        self._queue = queue
        self._chunks = chunks
        self._unpacker = unpacker
        self._memory = memory
        self.last_taken: Message[T] | None = None
        """The last message that the application got on this connection."""
        self._anchor: MessageId | None = None
        """See :meth:`anchor`."""
        self._seeking = False
        letters = options.dead_letters
        self._redeliveries_max = letters.redeliveries_max if letters else None
        self._is_reader = not options.durable
        self._times_out = self.acks.has_timeout

    def __repr__(self) -> str:
        state = "seeking" if self._seeking else "attached" if self.attached else "not attached"
        return (
            f"<ConsumerMachine {self.consumer_id} of {self.topic}, {self._queue!r}, "
            f"{self.acks!r}, {state}>"
        )

    def __len__(self) -> int:
        """Return how many messages wait for the application."""
        return len(self._queue)

    # Connection

    def attach(self, now: float) -> None:
        """Note that the broker has (re)registered the consumer. Acknowledgements go out before
        permits, so that the broker does not send acknowledged messages again."""
        self.attached = self.acks.attached = True
        self.acks.flush(now)
        self._flow(self._queue.connected())

    def detach(self) -> None:
        """Note the loss of the connection: prefetched messages will be redelivered."""
        self.attached = False
        self._drop()
        self._chunks.clear()
        self.given_up.clear()
        self.acks.detach()
        self.last_taken = None
        if self._is_reader and self.last_given is not None:
            self.start = self.last_given

    def anchor(self, message_id: MessageId) -> None:
        """Fix the start after ``message_id`` instead of at the topic's end or a time before it:
        after a reconnection those would mean another message, and some would be missed."""
        if self.start in (EARLIEST, LATEST):
            self.start = self._anchor = message_id

    @property
    def start_is_inclusive(self) -> bool:
        """Whether the application is still to get the message at :attr:`start`."""
        return self.start is not None and self._is_wanted(self.start)

    def first_id_of(self, start: MessageId) -> MessageId:
        """Return where the broker must begin for ``start``: at the first chunk of a chunked message
        that is wanted."""
        return start.first_chunk or start if self._is_wanted(start) else start

    def _is_wanted(self, start: MessageId) -> bool:
        is_passed = start is self.last_given or start is self._anchor
        return self._options.start_inclusive and not is_passed

    # What comes in

    def on_message(self, command: CommandMessage, body: bytes, now: float) -> int:
        """Handle a MESSAGE; return how many messages it added for the application."""
        if command.HasField("consumer_epoch") and command.consumer_epoch < self.epoch:
            # It will be redelivered, but the broker has counted its permits.
            self._skip(permits_of(command, body))
            return 0
        found = self._unpacker.unpack(command, body, now)
        if found.fault is not None or found.refused:
            self._take_fault(found, now)
            return 0
        if not self._tracker.is_duplicate(found.entry):
            self.acks.came(found.entry, is_chunk=found.is_chunk)
        if not found.messages:
            self._take_discarded(now)
            self._skip(found.permits)
            return 0
        if found.left is not None:
            self._tracker.delivered(found.entry, found.left, found.batch_size)
        messages = self._wanted(found, now)
        if (skipped := found.permits - len(messages)) > 0:
            self._skip(skipped)
        chunks = found.messages[0].entry.chunks
        if not messages:
            self.acks.done_with(chunks)
            return 0
        if chunks:
            self.acks.came_in_chunks(chunks)
        if self._redeliveries_max is not None and command.redelivery_count > self._redeliveries_max:
            self.given_up += messages
            return 0
        self.last_version = messages[0].entry.metadata.schema_version
        self._queue.push(messages)
        if self._memory is not None:
            self._memory.hold(_bytes_of(messages))
        return len(messages)

    def _wanted(self, found: Unpacked[T], now: float) -> list[Message[T]]:
        """Return the messages that are for the application."""
        messages = found.messages
        if self._tracker.is_duplicate(found.entry):
            self.counts.duplicates += len(messages)
            return []
        if self._options.batch_index_acks and found.batch_size:
            done, entry = self._tracker.is_duplicate, found.entry
            messages = [each for each in messages if not done(entry, each.batch_index)]
        start = self.start
        if start is None or start in (EARLIEST, LATEST):
            return messages
        if found.entry > start.entry:
            return messages
        if found.entry < start.entry:
            # Only this client moves a reader; others may have moved a subscription back.
            return [] if self._is_reader else messages
        first = max(start.batch_index, 0) + (0 if self.start_is_inclusive else 1)
        wanted = [each for each in messages if max(each.batch_index, 0) >= first]
        if start.batch_index < 0 and not self.start_is_inclusive:
            wanted = []
        if not self._is_reader:
            # Otherwise the messages before the start would stay in the backlog for ever.
            self.acks.pass_over(messages[: len(messages) - len(wanted)], now)
        return wanted

    def _begins_after(self, chunk: EntryId) -> bool:
        """Return whether this is the last chunk of the message to begin after; brokers send it
        although the start is exclusive."""
        start = self.start
        return start is not None and start.entry == chunk and not self.start_is_inclusive

    def _take_fault(self, found: Unpacked[T], now: float) -> None:
        self.counts.damaged += 1
        where = f"{found.entry} of {self.topic}"
        if found.refused:
            LOG.error("%s cannot be decrypted, and will come again: %s", where, found.text)
            self.acks.hand_out(found.entry, -1, 0, now)
        elif self.attached:
            LOG.error("%s cannot be unpacked, and is acknowledged: %s", where, found.text)
            ids = [MessageIdData(ledgerId=found.entry[0], entryId=found.entry[1])]
            self.acks.output.append(
                CommandAck(
                    consumer_id=self.consumer_id,
                    ack_type=CommandAck.Individual,
                    message_id=ids,
                    validation_error=found.fault,
                )
            )
        self._skip(found.permits)

    def _take_discarded(self, now: float) -> None:
        """Handle chunks of messages that cannot be completed, or not now.

        Those worth redelivering come after the delay of a negative acknowledgement. Without a delay
        the broker would send them the same way again, in an endless loop."""
        for each in self._chunks.take_discarded():
            is_passed = self._begins_after(each.entries[-1])
            if not each.is_final and not is_passed and not self._options.chunk_ack_oldest:
                self.acks.put_off(each.entries, now)
                continue
            if each.reason is not Reason.REPEATED and not is_passed:
                count, why = len(each.entries), each.reason.value
                LOG.warning("%d chunks in %s are acknowledged: %s", count, self.topic, why)
            self.acks.give_up(each.entries, now)

    def _skip(self, permits: int) -> None:
        self._queue.skip(permits)
        self._flow(self._queue.take_flow())

    # The application takes

    def take(self, now: float) -> Message[T] | None:
        """Return the next message; None if there is none now."""
        queue = self._queue
        if self._seeking or (message := queue.take()) is None:
            return None
        if queue.earned >= queue.half:
            self._flow(queue.take_flow())
        if self._memory is not None:
            self._memory.hold(-_bytes_of([message]))
        counts = self.counts
        counts.messages += 1
        counts.bytes += len(message.data)
        if self._times_out:
            entry = message.entry
            self.acks.hand_out(entry.id, message.batch_index, entry.redelivery_count, now)
        self.last_taken = message
        if self._is_reader:
            self.last_given = message.id
        return message

    def wait(self) -> None:
        """Note that the application waits and the queue is empty."""
        if self.attached:
            may_grow = self._memory is None or self._memory.is_roomy
            self._flow(self._queue.waiting(may_grow=may_grow))

    def stop_waiting(self) -> None:
        """Note that the application stopped waiting without a message."""
        self._queue.stopped_waiting()

    def shrink(self) -> None:
        """Halve the queue because memory is short."""
        self._queue.shrink()

    def pause(self) -> None:
        """Give no more permits."""
        self._queue.pause()

    def resume(self) -> None:
        """Give permits again."""
        self._queue.resume()
        self._flow(self._queue.take_flow())

    # Redelivery

    def dead_letter_stored(self, message: Message[T], now: float) -> None:
        """Acknowledge a message of :attr:`given_up` that is stored elsewhere now."""
        self._skip(1)
        entry = message.entry
        index, size = message.batch_index, entry.batch_size
        self.acks.acknowledge(entry.id, index, size, now, chunks=entry.chunks)

    def dead_letters_failed(self, messages: Sequence[Message[T]], now: float) -> None:
        """Have messages of :attr:`given_up` that could not be stored elsewhere redelivered, after
        the delay of a negative acknowledgement; without it they would loop at full speed."""
        self._skip(len(messages))
        self.acks.put_off([each.entry.id for each in messages], now)

    def redeliver(self, entries: Sequence[EntryId]) -> None:
        """Have entries redelivered now; on subscriptions that cannot redeliver single entries,
        everything unacknowledged."""
        if not entries or not self.attached:
            return  # once detached, everything unacknowledged is redelivered anyway
        entries = [chunk for each in entries for chunk in self.acks.chunks_of(each)]
        self.counts.redeliveries += len(entries)
        for ids in redelivery_requests(entries, self._options.type.value):
            if not ids:
                self.redeliver_all()
                return
            self.acks.output.append(
                CommandRedeliverUnacknowledgedMessages(
                    consumer_id=self.consumer_id,
                    message_ids=[MessageIdData(ledgerId=one, entryId=two) for one, two in ids],
                )
            )

    def redeliver_all(self) -> None:
        """Have everything unacknowledged redelivered."""
        command = CommandRedeliverUnacknowledgedMessages(consumer_id=self.consumer_id)
        if not self._options.type.is_shared:
            self.epoch += 1
            command.consumer_epoch = self.epoch
        self.acks.put_down()
        self.counts.redeliveries += self._drop()
        self._chunks.begin_again()
        if self.attached:
            self.acks.output.append(command)
            self._flow(self._queue.take_flow())

    # Seeking

    def begin_seek(self) -> None:
        """Give the application nothing until :meth:`end_seek`."""
        self._seeking = True

    def end_seek(self, start: MessageId | None, *, done: bool) -> list[Receipt]:
        """End a seek; if ``done``, the subscription is at ``start`` (None = at a time). Return the
        receipts that will never be answered."""
        self._seeking = False
        if not done:
            return []
        self.start, self.last_given, self.last_taken = start, None, None
        self._drop()
        self._chunks.clear()
        return self.acks.forget()

    # Time

    def tick(self, now: float) -> None:
        """Do what is due at ``now``."""
        self.redeliver(self.acks.take_due(now))
        self._chunks.expire(now)
        self._take_discarded(now)
        self.acks.flush_due(now)

    def due(self) -> float | None:
        """Return when :meth:`tick` next has work."""
        acks, chunks = self.acks.due(), self._chunks.due()
        return chunks if acks is None else acks if chunks is None else min(acks, chunks)

    def close(self) -> list[Receipt]:
        """Close; return the receipts that will never be answered."""
        self.detach()
        return self.acks.forget()

    def _drop(self) -> int:
        """Drop the prefetched messages; return how many."""
        dropped = self._queue.clear()
        if self._memory is not None:
            self._memory.hold(-_bytes_of(dropped))
        return len(dropped)

    def _flow(self, permits: int) -> None:
        if permits > 0 and self.attached:
            self.acks.output.append(
                CommandFlow(consumer_id=self.consumer_id, messagePermits=permits)
            )


def _bytes_of(messages: Sequence[Message[T]]) -> int:
    return sum([len(each.data) for each in messages]) + MESSAGE_OVERHEAD_BYTES * len(messages)
