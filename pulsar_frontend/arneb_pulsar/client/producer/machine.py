"""The machine of a producer: messages and receipts in, frames and callbacks out.

The rule: frames leave in the order of their messages, and stay until their receipt came. After a
reconnection all that stayed is sent again, verbatim and in order, before anything new. What a
message became its callback is told once.
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
from arneb_pulsar.client.producer.pending import Pending, place_of, with_pieces
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
    """One producer of one topic. :attr:`output` is what to write while it is attached.

    Invariant: ``pending_messages`` and ``pending_bytes`` count those in the batches and those in
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
        """Of the last message that is stored, as far as is known."""
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
        self._pieces_stored: set[EntryId] = set()
        """Where the pieces stand of the message in pieces that receipts come of."""
        self._transaction: TransactionId | None = None
        """Of the messages in the batches."""

    def __repr__(self) -> str:
        return (
            f"<ProducerMachine of {self.topic} as {self._packer.name!r}, "
            f"next {self._next_sequence}, "
            f"{self.pending_messages} messages in {len(self._pending)} sends pending, "
            f"{'attached' if self.attached else 'not attached'}>"
        )

    @property
    def name(self) -> str:
        """What the broker calls it; empty until it has said so."""
        return self._packer.name

    @property
    def settled(self) -> int:
        """Of all messages that it was ever given, those whose fate is known."""
        return self.counts.messages - self.pending_messages

    # Sending

    def number(self, message: OutgoingMessage) -> None:
        """Give it the next sequence id, or take its own."""
        if message.sequence_id < 0:
            message.sequence_id = self._next_sequence
        self._next_sequence = max(self._next_sequence, message.sequence_id + 1)

    def send(self, message: OutgoingMessage, now: float, wall_ms: int) -> None:
        """Send it, in a batch if batches are made. Raises :class:`MessageTooLarge` and
        :class:`ConfigurationError`, and nothing has changed then but the numbers."""
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
        """Send them as one entry. Raises as :meth:`send`."""
        for message in messages:
            self.number(message)
            message.sent_at = now
        self._close_batches(now, wall_ms)
        try:
            packed = self._packer.pack_batch(messages, wall_ms)
        except Exception as error:  # as in a batch that fills up by itself
            raise unsendable(error) from error
        for message in messages:
            self._count(message)
        self._add(packed, messages, now)

    def close_batches(self, now: float, wall_ms: int) -> None:
        """Send what waits for its batch to be full."""
        self._close_batches(now, wall_ms)

    def withdraw(self, message: OutgoingMessage) -> bool:
        """Take it back, if it is not sent. Its callback is not told."""
        if message.fate is not Fate.HELD:
            return False
        message.fate, message.callback = Fate.WITHDRAWN, None
        return True

    # Connection

    def attach(self, reply: CommandProducerSuccess, message_bytes_max: int) -> None:
        """The broker knows it (again); what has no receipt is sent again."""
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
                each.early = None  # it is sent again, and answered again
        self.output[:] = [each.packed.frame for each in self._pending]

    def detach(self) -> None:
        """Its connection is gone."""
        self.attached = False
        self.output.clear()

    # What comes in

    def on_receipt(self, receipt: CommandSendReceipt, now: float) -> bool:
        """A SEND is stored. False: a receipt of what was not sent; the connection cannot be relied
        upon."""
        if not self._pending or receipt.sequence_id < self._pending[0].packed.first:
            return True  # of a send whose time was up
        head = self._pending[0]
        if receipt.sequence_id > head.packed.last:
            return self._note_early(receipt)
        if head.packed.piece and place_of(receipt) in self._pieces_stored:
            return True  # said twice; the pieces of a message have one number
        self._pending.popleft()
        self._stored(head, receipt, now)
        self._take_early(now)
        return True

    def _note_early(self, receipt: CommandSendReceipt) -> bool:
        """Apache Pulsar stores the pieces of a message again that stood there already, but for the
        last: that it is there is said at once, before the receipts of the others. False: it is no
        such receipt, or of nothing that was sent."""
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
        """A SEND is refused; what the whole producer makes of it, None if it was for the message.

        It may come before the receipts of others that were sent before, which wait for a disk. A
        message of which one piece is refused is never whole: all of it has failed."""
        why = refusal(error.error, error.message, f"message {error.sequence_id} to {self.topic}")
        if not isinstance(why, ChecksumRefused | NotAllowed):
            return why
        refused = with_pieces(self._pending, error.sequence_id)
        for each in refused:
            self._pending.remove(each)
        self._fail(refused, why)
        self._take_early(now)
        return None

    def fail(self, error: PulsarError) -> None:
        """Nothing of what is pending will be sent any more."""
        waiting, self._pending = list(self._pending), deque()
        self.output.clear()
        self._fail(waiting, error)
        if self._batches is not None:
            for messages in self._batches.take():
                self._forget(messages, error)

    def tick(self, now: float, wall_ms: int) -> None:
        """Time has gone by."""
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
        """When :meth:`tick` is wanted."""
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
        """Make an entry of them; two where their broker takes no entry so large, or where one of
        them cannot be sent, which is no fault of the others."""
        if not messages:
            return
        try:
            packed = self._packer.pack_batch(messages, wall_ms, by_key=self._by_key)
        except Exception as error:  # what interceptors made of it, or applications of their keys
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
        piece = 0
        if self._options.chunking:
            piece = min(self._options.chunk_bytes_max or bytes_max, bytes_max)
        try:
            found = self._packer.pack_single(message, wall_ms, bytes_max, piece)
        except Exception as error:  # as in a batch
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
        if packed.pieces > 1:
            if packed.piece == 0:
                self._first_chunk = MessageId(ledger, entry, self._partition, topic=self.topic)
                self._pieces_stored.clear()
            if entry >= 0:  # what is there already is there with all its pieces
                self._pieces_stored.add(place_of(receipt))
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
            chunk = self._first_chunk if packed.pieces > 1 else None
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
        except Exception:  # an application's own code: what it does wrong is not to reach others
            LOG.exception("a callback of %s raised for message %d", self.topic, message.sequence_id)
