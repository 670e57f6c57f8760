"""Acknowledging: messages that the application holds, has acknowledged, or wants redelivered.

The rule: acknowledgements wait while no broker is attached; a message's ack timeout begins when the
application receives it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message as Command

from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.consumer.options import ConsumerOptions
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.messages import TransactionId
from arneb_pulsar.client.statistics import ReceiveCounts
from arneb_pulsar.client.trackers.ack_grouping import Acks, AckTracker, Receipt
from arneb_pulsar.client.trackers.negative_acks import NegativeAcksTracker
from arneb_pulsar.client.trackers.unacked import UnackedMessageTracker
from arneb_pulsar.client.trackers.unacked_chunks import Passing, UnackedChunks
from arneb_pulsar.wire.ack_sets import words_of
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandAck, MessageIdData

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")

TRANSACTION_IDS_MAX: Final = 1_000
"""Entries in one ACK of a transaction, as many as in an ACK without one."""


@dataclass(frozen=True, slots=True)
class AckRequest:
    """An ACK to which the broker's response is wanted."""

    command: CommandAck
    receipts: tuple[Receipt, ...]


class Acknowledging:
    """The acknowledgements of one consumer. :attr:`output` holds the commands to send.

    Invariant: ``_open`` maps each batch to its messages that the application holds unacknowledged;
    it is kept only if there is an ack timeout. ``_given_back`` maps each entry in ``_nacks`` to its
    messages that have not been acknowledged since. ``_chunks`` maps the last entry of each chunked
    message received on this connection to all of the message's entries.
    """

    def __init__(
        self,
        consumer_id: int,
        topic: str,
        options: ConsumerOptions,
        tracker: AckTracker,
        counts: ReceiveCounts,
    ) -> None:
        self.output: list[Command | AckRequest] = []
        self.attached = False
        self.tracker = tracker
        self._consumer_id = consumer_id
        self._topic = topic
        self._counts = counts
        self._nacks = NegativeAcksTracker(
            delay_s=options.negative_ack_delay_s,
            backoff=options.negative_ack_backoff,
            precision_bits=options.negative_ack_precision_bits,
        )
        self._given_back: dict[EntryId, int] = {}
        self._unacked: UnackedMessageTracker | None = None
        if options.ack_timeout_s:
            self._unacked = UnackedMessageTracker(
                ack_timeout_s=options.ack_timeout_s,
                tick_s=options.ack_timeout_tick_s,
                backoff=options.ack_timeout_backoff,
            )
        self._open: dict[EntryId, int] = {}
        self._chunks: dict[EntryId, tuple[EntryId, ...]] = {}
        self._is_cumulative = not options.type.is_shared
        self._apart = UnackedChunks()

    def __repr__(self) -> str:
        hand = "" if self._unacked is None else f", {self._unacked!r}"
        return f"<Acknowledging {self.tracker!r}, {self._nacks!r}{hand}>"

    @property
    def has_timeout(self) -> bool:
        """Whether :meth:`hand_out` must be called for each message that the application gets."""
        return self._unacked is not None

    def hand_out(self, entry: EntryId, index: int, redelivery_count: int, now: float) -> None:
        """Note that the application gets a message; ``index`` is -1 outside a batch."""
        if self._unacked is None:
            return
        self._unacked.add(entry, now, redelivery_count)
        if index >= 0:
            self._open[entry] = self._open.get(entry, 0) | 1 << index

    def came(self, entry: EntryId, *, is_chunk: bool) -> None:
        """Note the arrival of an unacknowledged entry."""
        if self._is_cumulative and (is_chunk or self._apart):
            self._apart.came(entry, is_chunk=is_chunk)

    def came_in_chunks(self, entries: tuple[EntryId, ...]) -> None:
        """Note that a chunked message is complete."""
        self._chunks[entries[-1]] = entries
        self._apart.whole(entries)
        for each in entries:
            self._nacks.remove(each)

    def done_with(self, chunks: Sequence[EntryId]) -> None:
        """Note that a chunked message is complete but not for the application."""
        if chunks:
            self._apart.done(chunks)

    def chunks_of(self, entry: EntryId) -> tuple[EntryId, ...]:
        """Return all entries of the message whose last entry is ``entry``."""
        return self._chunks.get(entry, (entry,))

    def detach(self) -> None:
        """Note the loss of the broker, which redelivers everything unacknowledged by itself."""
        self.attached = False
        self.output.clear()
        self.tracker.disconnected()
        self._apart.disconnected()
        self.put_down()

    def put_down(self) -> None:
        """Forget unacknowledged messages, all of which will be redelivered."""
        if self._unacked is not None:
            self._unacked.clear()
        self._open.clear()
        self._nacks.clear()
        self._given_back.clear()
        self._chunks.clear()

    def forget(self) -> list[Receipt]:
        """Forget everything after a seek; return the receipts that will never be answered."""
        self.put_down()
        self._apart.clear()
        return self.tracker.clear()

    def acknowledge(
        self,
        entry: EntryId,
        index: int,
        size: int,
        now: float,
        *,
        chunks: Sequence[EntryId] = (),
        receipt: Receipt | None = None,
    ) -> None:
        """Acknowledge one message; ``chunks`` are all entries of a chunked one."""
        self._counts.acknowledged += 1
        if chunks := self._chunks.pop(entry, chunks):
            self.give_up(chunks[:-1], now)
            self._apart.done(chunks[-1:])
        full = self.tracker.acknowledge(entry, now, index, size, receipt)
        self._forget(entry, index)
        if full:
            self.flush(now)

    def pass_over(self, messages: Sequence[Message[T]], now: float) -> None:
        """Acknowledge messages that are not for the application."""
        for each in messages:
            entry = each.entry
            self._chunks.pop(entry.id, None)
            self.give_up(entry.chunks, now)
            self.tracker.acknowledge(entry.id, now, each.batch_index, entry.batch_size)
        if messages:
            self.flush(now)

    def give_up(self, chunks: Sequence[EntryId], now: float) -> None:
        """Acknowledge chunks that will not be delivered as a message."""
        for each in chunks:
            self.tracker.acknowledge(each, now)
        self._apart.done(chunks)

    def acknowledge_part(self, entry: EntryId, index: int) -> bool:
        """Acknowledge a message of a batch if only a bit has to change; return False if nothing was
        done. See :meth:`AckGroupingTracker.acknowledge_part`.

        Hot path: uses neither clock nor timer."""
        if self._unacked is not None or entry in self._given_back:
            return False
        if not self.tracker.acknowledge_part(entry, index):
            return False
        self._counts.acknowledged += 1
        return True

    def acknowledge_cumulative(
        self,
        entry: EntryId,
        index: int,
        size: int,
        now: float,
        *,
        chunks: Sequence[EntryId] = (),
        receipt: Receipt | None = None,
    ) -> None:
        """Acknowledge everything up to a message, except chunks of messages that end after it."""
        self._counts.acknowledged += 1
        if self._apart and (passing := self._apart.passing(entry, chunks)):
            full = self._pass(passing, entry, index, size, now, receipt)
        else:
            full = self.tracker.acknowledge_cumulative(entry, now, index, size, receipt)
        self._forget_up_to(entry, index, size)
        if full:
            self.flush(now)

    def commands_in(
        self,
        transaction: TransactionId,
        message_id: MessageIdData,
        chunks: Sequence[EntryId],
        *,
        cumulative: bool,
    ) -> list[CommandAck]:
        """Return the ACKs that acknowledge a message, and all its ``chunks`` if it is chunked, in a
        transaction. Once the broker has answered all, call :meth:`leave_to_transaction`."""
        entry = (message_id.ledgerId, message_id.entryId)
        commands = []
        if not cumulative:
            single = self._chunks.get(entry, chunks)[:-1]
            commands.append(self._ack(CommandAck.Individual, [*map(_data_of, single), message_id]))
        elif passing := self._apart.passing(entry, chunks):
            commands.append(self._ack(CommandAck.Cumulative, [_data_of(passing.up_to)]))
            rest = [*map(_data_of, passing.single), message_id]
            for at in range(0, len(rest), TRANSACTION_IDS_MAX):
                ids = rest[at : at + TRANSACTION_IDS_MAX]
                commands.append(self._ack(CommandAck.Individual, ids))
        else:
            commands.append(self._ack(CommandAck.Cumulative, [message_id]))
        for each in commands:
            each.txnid_most_bits = transaction.most_bits
            each.txnid_least_bits = transaction.least_bits
        return commands

    def leave_to_transaction(
        self, entry: EntryId, index: int, size: int, *, cumulative: bool
    ) -> None:
        """Note that the broker has stored an acknowledgement as part of a transaction."""
        self._counts.acknowledged += 1
        if cumulative:
            self._forget_up_to(entry, index, size)
        else:
            self._apart.done(self._chunks.pop(entry, ()))
            self._forget(entry, index)

    def flush(self, now: float) -> None:
        """Move the pending acknowledgements to :attr:`output`, if attached."""
        while self.attached and (acks := self.tracker.flush(now)) is not None:
            self._send_acks(acks)

    def _pass(
        self,
        passing: Passing,
        entry: EntryId,
        index: int,
        size: int,
        now: float,
        receipt: Receipt | None,
    ) -> bool:
        """Acknowledge everything up to a message, except chunks of other messages; return True to
        flush now."""
        parts = [(each, -1, 0) for each in passing.single]
        parts += [(entry, each, size) for each in range(index + 1)] if size else [(entry, -1, 0)]
        answers = None
        if receipt is not None:
            answers = AnswerCount(len(parts) + 1, (receipt,)).answered
        full = self.tracker.acknowledge_cumulative(passing.up_to, now, receipt=answers)
        for each, at, count in parts:
            full |= self.tracker.acknowledge(each, now, at, count, answers)
        return full

    def _forget(self, entry: EntryId, index: int) -> None:
        """Stop tracking a message that was acknowledged."""
        if entry in self._given_back:
            left = self._given_back[entry] & ~(1 << max(index, 0))
            self._given_back[entry] = left
            if not left:
                del self._given_back[entry]
                self._nacks.remove(entry)
        if self._unacked is None:
            return
        if index >= 0 and (left := self._open.get(entry, 0) & ~(1 << index)):
            self._open[entry] = left
            return
        self._open.pop(entry, None)
        self._unacked.remove(entry)

    def _forget_up_to(self, entry: EntryId, index: int, size: int) -> None:
        """Stop tracking a message and all before it."""
        if self._apart:
            self._apart.passed(entry)
        if self._chunks:
            self._chunks = {each: all_ for each, all_ in self._chunks.items() if each > entry}
        if self._unacked is None:
            return
        whole = entry if index + 1 >= size else (entry[0], entry[1] - 1)
        self._unacked.remove_up_to(whole)
        self._open = {each: bits for each, bits in self._open.items() if each > whole}

    def _send_acks(self, acks: Acks) -> None:
        commands = []
        ids = [*map(_data_of, acks.individual)]
        for (ledger, entry), left in acks.partial:
            ids.append(MessageIdData(ledgerId=ledger, entryId=entry, ack_set=words_of(left)))
        if ids:
            commands.append(self._ack(CommandAck.Individual, ids))
        if acks.cumulative is not None:
            last = _data_of(acks.cumulative)
            last.ack_set.extend(words_of(acks.cumulative_left))
            commands.append(self._ack(CommandAck.Cumulative, [last]))
        if not acks.receipts:
            self.output += commands
            return
        # The receipts of a group are answered when all its commands are.
        answers = AnswerCount(len(commands), acks.receipts)
        self.output += [AckRequest(each, (answers.answered,)) for each in commands]

    def _ack(self, kind: "CommandAck.AckType", ids: list[MessageIdData]) -> CommandAck:
        return CommandAck(consumer_id=self._consumer_id, ack_type=kind, message_id=ids)

    # Redelivery

    def negative_acknowledge(
        self, entry: EntryId, index: int, redelivery_count: int, now: float
    ) -> None:
        """Have a message redelivered after its delay."""
        self._nacks.add(entry, now, redelivery_count)
        self._given_back[entry] = self._given_back.get(entry, 0) | 1 << max(index, 0)
        self._open.pop(entry, None)
        if self._unacked is not None:
            self._unacked.remove(entry)

    def put_off(self, entries: Sequence[EntryId], now: float) -> None:
        """Have entries that could not be used, such as chunks of an incomplete message, redelivered
        after a delay."""
        for each in entries:
            self._nacks.add(each, now)

    def take_due(self, now: float) -> list[EntryId]:
        """Return the entries to be redelivered now."""
        found = self._nacks.expire(now)
        for entry in found:
            self._given_back.pop(entry, None)
        if self._unacked is not None and (late := self._unacked.expire(now)):
            for entry in late:
                self._open.pop(entry, None)
            LOG.warning("%d messages of %s were not acknowledged in time", len(late), self._topic)
            found += late
        return found

    def flush_due(self, now: float) -> None:
        """Flush if the grouping time is up."""
        due = self.tracker.due()
        if due is not None and now >= due:
            self.flush(now)

    def due(self) -> float | None:
        """Return when :meth:`take_due` or :meth:`flush_due` next has work."""
        times = [self._nacks.due()]
        if self._unacked is not None:
            times.append(self._unacked.due())
        if self.attached:
            times.append(self.tracker.due())
        return min([each for each in times if each is not None], default=None)


def _data_of(entry: EntryId) -> MessageIdData:
    """As it travels; the entry before a ledger's first is -1."""
    return MessageIdData(ledgerId=entry[0], entryId=entry[1] % (1 << 64))


class AnswerCount:
    """Tells receipts once all the ACKs that they hang on are answered."""

    def __init__(self, wanted: int, receipts: Sequence[Receipt]) -> None:
        self._wanted = wanted
        self._receipts = receipts
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<AnswerCount {self._wanted} to come for {len(self._receipts)} receipts>"

    def answered(self, error: BaseException | None) -> None:
        """One more."""
        self._wanted -= 1
        self._error = self._error or error
        if self._wanted == 0:
            for receipt in self._receipts:
                receipt(self._error)
