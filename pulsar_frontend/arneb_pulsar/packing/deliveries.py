"""MESSAGE frames, a run at a time.

Hot path: one frame per entry, packed by hand around the stored body, which is copied as it is. The
command of an entry delivered for the first time is a constant, the varint of the entry id, and a
constant, so that a run of neighbours is assembled by C code alone; entries with a redelivery count
or an ack set are built with protobuf. Property tests compare both with protobuf.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter, lt
from typing import Final

from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.ledger_ids import AS_COUNTED, LedgerIds
from arneb_core.api.entries.position import ENTRY_BITS, ENTRY_MASK, Position
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.packing.counts import ConsumerCounts
from arneb_pulsar.wire.ack_sets import words_of
from arneb_pulsar.wire.frame import SIZE_BYTES, SIZES, payload_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand, CommandMessage, MessageIdData
from arneb_pulsar.wire.varint import VARINT_BITS, scattered_varints, varint, varints

TYPE_MESSAGE: Final = b"\x08\x09"
FIELD_MESSAGE: Final = b"\x4a"
FIELD_CONSUMER_ID: Final = b"\x08"
FIELD_MESSAGE_ID: Final = b"\x12"
FIELD_LEDGER_ID: Final = b"\x08"
FIELD_ENTRY_ID: Final = b"\x10"
FIELD_PARTITION: Final = b"\x18"
FIELD_CONSUMER_EPOCH: Final = b"\x28"
NO_PARTITION: Final = -1

BODY: Final = itemgetter(slice(HEADER_BYTES, None))
"""An entry without its header."""

BODY_SIZES_MAX: Final = 4096
"""Frame heads that one consumer remembers; when it is full, the memory is cleared."""


class Heads(dict[int, bytes]):
    """The bytes before the entry id, frame sizes included, by the size of the entry.

    Invariant: all of them are for one ledger and one width of the entry id.
    """

    def __init__(self, before: bytes, entry_bytes: int, behind: bytes) -> None:
        super().__init__()
        self._before = before
        self._command_bytes = len(before) + entry_bytes + len(behind)
        self.frame_bytes = SIZES.size + self._command_bytes
        """Bytes of a frame around the body."""

    def __repr__(self) -> str:
        return f"<Heads of {len(self)} sizes, commands of {self._command_bytes} bytes>"

    def __missing__(self, entry_size: int) -> bytes:
        if len(self) >= BODY_SIZES_MAX:
            self.clear()
        size = self._command_bytes
        total = size + SIZE_BYTES + entry_size - HEADER_BYTES
        head = self[entry_size] = SIZES.pack(total, size) + self._before
        return head


class LedgerHeads(dict[int, Heads]):
    """The heads of one ledger, by the width of the entry id in bytes; made when needed."""

    def __init__(self, consumer_id: int, ledger: int, behind_id: bytes, behind: bytes) -> None:
        super().__init__()
        self._consumer = FIELD_CONSUMER_ID + varint(consumer_id)
        self._ledger = FIELD_LEDGER_ID + varint(ledger) + FIELD_ENTRY_ID
        self._behind_id = behind_id
        self._behind = behind

    def __repr__(self) -> str:
        return f"<LedgerHeads {self._ledger.hex()}, {len(self)} lengths of entry ids>"

    def __missing__(self, entry_bytes: int) -> Heads:
        id_bytes = len(self._ledger) + entry_bytes + len(self._behind_id)
        inner = self._consumer + FIELD_MESSAGE_ID + varint(id_bytes) + self._ledger
        message_bytes = len(inner) + entry_bytes + len(self._behind)
        before = TYPE_MESSAGE + FIELD_MESSAGE + varint(message_bytes) + inner
        made = self[entry_bytes] = Heads(before, entry_bytes, self._behind)
        return made


class MessageFrames:
    """Packs the deliveries of one consumer.

    Invariant: ``_heads`` belongs to ledger ``_ledger``.
    """

    def __init__(
        self,
        consumer_id: int,
        partition: int = NO_PARTITION,
        epoch: int | None = None,
        counts: ConsumerCounts | None = None,
        ids: LedgerIds = AS_COUNTED,
    ) -> None:
        """``counts`` counts the bytes of bodies; ``ids`` are the topic's."""
        self._ids = ids
        self.counts = ConsumerCounts() if counts is None else counts
        self.consumer_id = consumer_id
        self.partition = partition
        self.epoch = epoch
        partition_field = FIELD_PARTITION + varint(partition)
        self._behind_id = b"" if partition == NO_PARTITION else partition_field
        epoch_field = b"" if epoch is None else FIELD_CONSUMER_EPOCH + varint(epoch)
        self._behind = self._behind_id + epoch_field
        self._open_ledger(0)

    def __repr__(self) -> str:
        epoch = "" if self.epoch is None else f" in epoch {self.epoch}"
        return f"<MessageFrames for consumer {self.consumer_id}{epoch}, ledger {self._ledger}>"

    def pack(self, run: Deliveries) -> bytes:
        """Return the frames of a run whose entries are all of Pulsar origin."""
        positions, entries = run.positions, run.entries
        first, last, count = positions[0], positions[-1], len(positions)
        if run.masks or run.redelivery_counts:
            return self._pack_each(run)
        if last - first != count - 1 or positions != list(range(first, first + count)):
            return self._pack_scattered(positions, entries)
        if first >> ENTRY_BITS != self._ledger:
            self._open_ledger(first >> ENTRY_BITS)
        ids = varints(first & ENTRY_MASK, count)
        if last >> ENTRY_BITS != self._ledger or len(ids[0]) != len(ids[-1]):
            return self._pack_scattered(positions, entries)
        parts = [self._behind] * (4 * count)
        heads = self._heads[len(ids[0])]
        parts[0::4] = map(heads.__getitem__, map(len, entries))
        parts[1::4] = ids
        parts[3::4] = map(BODY, entries)
        packed = b"".join(parts)
        self.counts.bytes += len(packed) - count * heads.frame_bytes
        self.counts.entries += count
        return packed

    def _pack_scattered(self, positions: Sequence[Position], entries: Sequence[bytes]) -> bytes:
        """As :meth:`pack`, for positions in any order."""
        self.counts.bytes += sum(map(len, entries)) - HEADER_BYTES * len(entries)
        self.counts.entries += len(entries)
        ids = scattered_varints([position & ENTRY_MASK for position in positions])
        parts = [self._behind] * (4 * len(ids))
        parts[1::4] = ids
        parts[3::4] = map(BODY, entries)
        start = 0
        for stop in _ends_of_alike(positions):
            ledger = positions[start] >> ENTRY_BITS
            if ledger != self._ledger:
                self._open_ledger(ledger)
            heads = self._heads[len(ids[start])]
            parts[4 * start : 4 * stop : 4] = map(heads.__getitem__, map(len, entries[start:stop]))
            start = stop
        return b"".join(parts)

    def _pack_each(self, run: Deliveries) -> bytes:
        """As :meth:`pack`, for entries seen before."""
        self.counts.bytes += sum(map(len, run.entries)) - HEADER_BYTES * len(run.entries)
        self.counts.entries += len(run.entries)
        parts: list[bytes] = []
        for position, entry in zip(run.positions, run.entries, strict=True):
            if command := self._special_command(position, run):
                parts += (payload_frame(command, entry[HEADER_BYTES:]),)
                continue
            if position >> ENTRY_BITS != self._ledger:
                self._open_ledger(position >> ENTRY_BITS)
            number = varint(position & ENTRY_MASK)
            head = self._heads[len(number)][len(entry)]
            parts += (head, number, self._behind, entry[HEADER_BYTES:])
        return b"".join(parts)

    def _open_ledger(self, ledger: int) -> None:
        self._ledger = ledger
        shown = self._ids.of(ledger)
        self._heads = LedgerHeads(self.consumer_id, shown, self._behind_id, self._behind)

    def _special_command(self, position: Position, run: Deliveries) -> bytes | None:
        """Return the command of a redelivered or half-acknowledged entry; None for any other."""
        count = run.redelivery_counts.get(position, 0) if run.redelivery_counts else 0
        mask = run.masks.get(position) if run.masks else None
        if not count and mask is None:
            return None
        ledger, entry = self._ids.place(position)
        message_id = MessageIdData(ledgerId=ledger, entryId=entry)
        if self.partition != NO_PARTITION:
            message_id.partition = self.partition
        message = CommandMessage(consumer_id=self.consumer_id, message_id=message_id)
        if count:
            message.redelivery_count = count
        if mask is not None:
            message.ack_set.extend(words_of(mask))
        if self.epoch is not None:
            message.consumer_epoch = self.epoch
        return BaseCommand(type=BaseCommand.MESSAGE, message=message).SerializeToString()


def _ends_of_alike(positions: Sequence[Position]) -> Iterator[int]:
    """Yield the ends of stretches of ``positions`` in one ledger whose entry ids have one width.
    Ascending positions are cut by bisection, without looking at each."""
    count, start = len(positions), 0
    is_ascending = all(map(lt, positions, islice(positions, 1, None)))
    while start < count:
        entry, base = positions[start] & ENTRY_MASK, positions[start] & ~ENTRY_MASK
        width = len(varint(entry))
        low = base if width == 1 else base + (1 << VARINT_BITS * (width - 1))
        end = base + min(1 << VARINT_BITS * width, ENTRY_MASK + 1)
        if is_ascending:
            start = bisect_left(positions, end, start)
        else:
            start += 1
            while start < count and low <= positions[start] < end:
                start += 1
        yield start
