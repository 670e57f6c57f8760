"""The machine of a producer: messages and receipts in, frames and callbacks out.

The rule: frames leave in the order of their messages, and are kept until their receipts come. After
a reconnection all kept frames are sent again, verbatim and in order, before anything new. Each
message's callback is called once.
"""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from arneb_pulsar.client.errors import (
    ChecksumRefused,
    MessageTooLarge,
    NotAllowed,
    PulsarError,
    ServerRefused,
    TimedOut,
    refusal,
)
from arneb_pulsar.client.ids import EntryId, MessageId
from arneb_pulsar.client.messages import (
    MESSAGE_OVERHEAD_BYTES,
    Fate,
    OutgoingMessage,
    TransactionId,
)
from arneb_pulsar.client.producer.options import ProducerOptions
from arneb_pulsar.client.producer.packing import Packed, Packer, unsendable
from arneb_pulsar.client.producer.pending import Pending, entry_of, with_chunks
from arneb_pulsar.client.statistics import SendCounts
from arneb_pulsar.client.trackers.batching import BatchContainer
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
)

LOG = logging.getLogger("arneb_pulsar.client")

LOST_ENTRY: Final = (1 << 64) - 1
"""The entry id in the receipt of a duplicate."""


class ProducerMachine:
    """One producer of one topic. :attr:`output` holds the frames to write while attached.

    Invariant: ``pending_messages`` and ``pending_bytes`` count the messages in the batches and in
    ``_pending``.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        options: ProducerOptions,
        packer: Packer,
        batches: BatchContainer | None,
    ) -> None:
        self.topic = topic
        self.producer_id = packer.producer_id
        self.output: list[bytes] = []
        self.attached = False
        self.pending_messages = 0
        self.pending_bytes = 0
        self.message_bytes_max = 0
        self.counts = SendCounts()
        self.last_sequence_id = -1
        """The sequence id of the last message known to be stored; -1 = none."""
        self._partition = partition
        self._options = options
        self._packer = packer
        self._batches = batches
        self._by_key = options.batching is not None and options.batching.by_key
        self._batch_bytes_max = options.batching.bytes_max if options.batching else 0
        self._pending: deque[Pending] = deque()
        self._next_sequence = options.initial_sequence_id or 0
        self._numbered = options.initial_sequence_id is not None
        self._first_chunk: MessageId | None = None
        self._chunks_stored: set[EntryId] = set()
        """The entries of the chunked message whose receipts are coming."""
        self._transaction: TransactionId | None = None
        """The transaction of the messages in the batches."""

    def __repr__(self) -> str:
        return (
            f"<ProducerMachine of {self.topic} as {self._packer.name!r}, "
            f"next {self._next_sequence}, "
            f"{self.pending_messages} messages in {len(self._pending)} sends pending, "
            f"{'attached' if self.attached else 'not attached'}>"
        )

    @property
    def name(self) -> str:
        """The producer's name at the broker; empty until the broker has told it."""
        return self._packer.name

    @property
    def answered(self) -> int:
        """How many of all messages ever accepted have a known outcome."""
        return self.counts.messages - self.pending_messages

    # Sending

    def number(self, message: OutgoingMessage) -> None:
        """Give a message the next sequence id, unless it has one."""
        if message.sequence_id < 0:
            message.sequence_id = self._next_sequence
        self._next_sequence = max(self._next_sequence, message.sequence_id + 1)

    def send(self, message: OutgoingMessage, now: float, wall_ms: int) -> None:
        """Send a message, in a batch if batching is on. Raises :class:`MessageTooLarge` and
        :class:`ConfigurationError`; then only the sequence ids have advanced."""
        self.number(message)
        message.sent_at = now
        batches = self._batches
        if (
            batches is None
            or message.deliver_at_ms
            or len(message.payload) > min(self._batch_bytes_max, self.message_bytes_max)
        ):
            self._close_batches(now, wall_ms)
            self._send_single(message, now, wall_ms)
            return
        if not batches.fits(message) or message.transaction != self._transaction:
            self._close_batches(now, wall_ms)
        self._transaction = message.transaction
        self._count(message)
        if batches.add(message, now):
            self._close_batches(now, wall_ms)

    def send_batch(self, messages: Sequence[OutgoingMessage], now: float, wall_ms: int) -> None:
        """Send messages as one entry. Raises as :meth:`send`."""
        for message in messages:
            self.number(message)
            message.sent_at = now
        self._close_batches(now, wall_ms)
        try:
            packed = self._packer.pack_batch(messages, wall_ms)
        except Exception as error:  # as in _close_batch
            raise unsendable(error) from error
        for message in messages:
            self._count(message)
        self._add(packed, messages, now)

    def close_batches(self, now: float, wall_ms: int) -> None:
        """Send the open batches, full or not."""
        self._close_batches(now, wall_ms)

    def withdraw(self, message: OutgoingMessage) -> bool:
        """Take a message back unless it was sent; return whether that worked. Its callback is not
        called."""
        if message.fate is not Fate.HELD:
            return False
        message.fate, message.callback = Fate.WITHDRAWN, None
        return True

    # Connection

    def attach(self, reply: CommandProducerSuccess, message_bytes_max: int) -> None:
        """Note that the broker has (re)registered the producer; resend everything without a
        receipt."""
        self._packer.name = reply.producer_name
        if reply.schema_version:
            self._packer.schema_version = reply.schema_version
        self.message_bytes_max = self._packer.message_bytes_max = message_bytes_max
        if not self._numbered:
            self._numbered = True
            self.last_sequence_id = max(reply.last_sequence_id, -1)
            self._next_sequence = self.last_sequence_id + 1
        self.attached = True
        if self._pending:
            self.counts.resent += len(self._pending)
            for each in self._pending:
                each.early = None  # it is resent, and gets another receipt
        self.output[:] = [each.packed.frame for each in self._pending]

    def detach(self) -> None:
        """Note the loss of the connection."""
        self.attached = False
        self.output.clear()

    # What comes in

    def on_receipt(self, receipt: CommandSendReceipt, now: float) -> bool:
        """Handle a receipt; return False if it is for a message never sent: the connection cannot
        be trusted."""
        if not self._pending or receipt.sequence_id < self._pending[0].packed.first:
            return True  # for a send that has timed out
        head = self._pending[0]
        if receipt.sequence_id > head.packed.last:
            return self._note_early(receipt)
        if head.packed.chunk and entry_of(receipt) in self._chunks_stored:
            return True  # a repeated receipt; all chunks of a message share one sequence id
        self._pending.popleft()
        self._stored(head, receipt, now)
        self._take_early(now)
        return True

    def _note_early(self, receipt: CommandSendReceipt) -> bool:
        """Keep a receipt that came before those of earlier sends; return False if it is not such a
        receipt.

        When a stored chunked message is resent, Apache Pulsar stores its chunks again except the
        last, whose receipt as a duplicate comes at once, before those of the others."""
        if MessageId.from_wire(receipt.message_id).entry_id >= 0:
            return False
        found = None
        for each in self._pending:
            if each.packed.first > receipt.sequence_id:
                break
            if receipt.sequence_id <= each.packed.last:
                found = each
        if found is None:
            return False
        found.early = receipt
        return True

    def _take_early(self, now: float) -> None:
        while self._pending and (early := self._pending[0].early) is not None:
            self._stored(self._pending.popleft(), early, now)

    def on_send_error(self, error: CommandSendError, now: float) -> ServerRefused | None:
        """Handle a refused SEND; return the error if it concerns the whole producer, None if only
        the message.

        It may come before the receipts of earlier sends, which wait for a disk. If one chunk of a
        message is refused, the whole message has failed."""
        why = refusal(error.error, error.message, f"message {error.sequence_id} to {self.topic}")
        if not isinstance(why, ChecksumRefused | NotAllowed):
            return why
        refused = with_chunks(self._pending, error.sequence_id)
        for each in refused:
            self._pending.remove(each)
        self._fail(refused, why)
        self._take_early(now)
        return None

    def fail(self, error: PulsarError) -> None:
        """Fail all pending messages with ``error``."""
        waiting, self._pending = list(self._pending), deque()
        self.output.clear()
        self._fail(waiting, error)
        if self._batches is not None:
            for messages in self._batches.take():
                self._forget(messages, error)

    def tick(self, now: float, wall_ms: int) -> None:
        """Do what is due at ``now``."""
        self._packer.rotate(now)
        if self._batches is not None and (due := self._batches.due()) is not None and now >= due:
            self._close_batches(now, wall_ms)
        timeout_s = self._options.send_timeout_s
        if timeout_s and self._pending and now >= self._pending[0].sent_at + timeout_s:
            self.fail(
                TimedOut(
                    f"expected a receipt of {self.topic} within {timeout_s} s, got none; "
                    "what was sent may be stored"
                )
            )

    def due(self) -> float | None:
        """Return when :meth:`tick` next has work."""
        due = self._batches.due() if self._batches is not None else None
        if self._pending and (timeout_s := self._options.send_timeout_s):
            until = self._pending[0].sent_at + timeout_s
            return until if due is None or until < due else due
        return due

    # Helpers

    def _close_batches(self, now: float, wall_ms: int) -> None:
        if self._batches is None or not len(self._batches):
            return
        for taken in self._batches.take():
            messages = [each for each in taken if each.fate is Fate.HELD]
            if gone := [each for each in taken if each.fate is Fate.WITHDRAWN]:
                self._uncount(gone)
            self._close_batch(messages, now, wall_ms)

    def _close_batch(self, messages: list[OutgoingMessage], now: float, wall_ms: int) -> None:
        """Make one entry of the messages. If it is too large for the broker, or one message cannot
        be packed, split it, so that only the messages at fault fail."""
        if not messages:
            return
        try:
            packed = self._packer.pack_batch(messages, wall_ms, by_key=self._by_key)
        except Exception as error:  # interceptors and key readers are application code
            half = len(messages) // 2
            if not half or (
                isinstance(error, PulsarError) and not isinstance(error, MessageTooLarge)
            ):
                self._forget(messages, unsendable(error))
                return
            self._close_batch(messages[:half], now, wall_ms)
            self._close_batch(messages[half:], now, wall_ms)
        else:
            self._add(packed, messages, now)

    def _send_single(self, message: OutgoingMessage, now: float, wall_ms: int) -> None:
        bytes_max = self.message_bytes_max
        chunk_bytes = 0
        if self._options.chunking:
            chunk_bytes = min(self._options.chunk_bytes_max or bytes_max, bytes_max)
        try:
            found = self._packer.pack_single(message, wall_ms, bytes_max, chunk_bytes)
        except Exception as error:  # as in _close_batch
            raise unsendable(error) from error
        self._count(message)
        for packed in found[:-1]:
            self._add(packed, (), now)
        self._add(found[-1], (message,), now)

    def _add(self, packed: Packed, messages: Sequence[OutgoingMessage], now: float) -> None:
        for message in messages:
            message.fate = Fate.SENT
        sent_at = messages[0].sent_at if messages else now
        self._pending.append(Pending(packed, messages, sent_at))
        if self.attached:
            self.output.append(packed.frame)

    def _count(self, message: OutgoingMessage) -> None:
        self.pending_messages += 1
        self.pending_bytes += len(message.payload) + MESSAGE_OVERHEAD_BYTES
        self.counts.messages += 1
        self.counts.bytes += len(message.payload)

    def _uncount(self, messages: Sequence[OutgoingMessage]) -> None:
        self.pending_messages -= len(messages)
        payloads = sum([len(each.payload) for each in messages])
        self.pending_bytes -= payloads + MESSAGE_OVERHEAD_BYTES * len(messages)

    def _stored(self, head: Pending, receipt: CommandSendReceipt, now: float) -> None:
        data, packed, messages = receipt.message_id, head.packed, head.messages
        ledger, entry = data.ledgerId, data.entryId
        if entry == LOST_ENTRY:
            ledger = entry = -1
        if packed.chunks > 1:
            if packed.chunk == 0:
                self._first_chunk = MessageId(ledger, entry, self._partition, topic=self.topic)
                self._chunks_stored.clear()
            if entry >= 0:  # what was stored before has no entry in its receipt
                self._chunks_stored.add(entry_of(receipt))
        if not messages:
            return
        self._uncount(messages)
        self.counts.stored += len(messages)
        self.counts.latencies.add(now - messages[0].sent_at)
        self.last_sequence_id = max(self.last_sequence_id, packed.last)
        size = len(messages) if packed.batch else 0
        for index, message in enumerate(messages):
            message.fate = Fate.STORED
            if message.callback is None:
                continue
            chunk = self._first_chunk if packed.chunks > 1 else None
            found = MessageId(
                ledger,
                entry,
                self._partition,
                index if packed.batch else -1,
                size,
                self.topic,
                chunk,
            )
            self._tell(message, found, None)

    def _fail(self, pending: Sequence[Pending], error: PulsarError) -> None:
        for each in pending:
            self._forget(each.messages, error)

    def _forget(self, messages: Sequence[OutgoingMessage], error: PulsarError) -> None:
        self._uncount(messages)
        for message in messages:
            if message.fate is Fate.WITHDRAWN:
                continue
            self.counts.failed += 1
            message.fate = Fate.FAILED
            self._tell(message, None, error)

    def _tell(
        self, message: OutgoingMessage, found: MessageId | None, error: PulsarError | None
    ) -> None:
        if message.callback is None:
            return
        try:
            message.callback(found, error)
        except Exception:  # application code: its errors must not affect others
            LOG.exception("a callback of %s raised for message %d", self.topic, message.sequence_id)
