"""SEND_RECEIPT frames, a run at a time.

Hot path: a receipt is eight constants around three numbers. What depends only on the lengths of the
numbers is packed once for each length; property tests compare the result with protobuf's.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from arneb_core.api.entries.ledger_ids import AS_COUNTED, LedgerIds
from arneb_core.api.entries.position import ENTRY_BITS, ENTRY_MASK, Position
from arneb_pulsar.wire.counting import COUNTING_MIN, equally_long, put_counting
from arneb_pulsar.wire.frame import simple_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandSendReceipt,
    MessageIdData,
)
from arneb_pulsar.wire.varint import varint, varints

TYPE_SEND_RECEIPT: Final = b"\x08\x07"
FIELD_SEND_RECEIPT: Final = b"\x3a"
FIELD_PRODUCER_ID: Final = b"\x08"
FIELD_SEQUENCE_ID: Final = b"\x10"
FIELD_MESSAGE_ID: Final = b"\x1a"
FIELD_LEDGER_ID: Final = b"\x08"
FIELD_ENTRY_ID: Final = b"\x10"

SHAPES_REMEMBERED: Final = 4096
"""Entries in the cache of :func:`_shape`: a few for each producer and ledger in use, of which a
thousand may take turns. 1 MiB."""


def pack_receipts(
    producer_id: int, sequences: Sequence[int], first: Position, ids: LedgerIds = AS_COUNTED
) -> bytes:
    """Return receipts for a run whose message *i* has ``sequences[i]`` and is at ``first + i``.
    ``ids``: the topic's."""
    count = len(sequences)
    ledger = ids.of(first >> ENTRY_BITS)
    if count == 1:
        number, entry = varint(sequences[0]), varint(first & ENTRY_MASK)
        before, between = _shape(producer_id, ledger, len(number), len(entry))
        return before + number + between + entry
    is_counting = _is_counting(sequences)
    if is_counting and count >= COUNTING_MIN:
        return _counted(producer_id, sequences[0], ledger, first & ENTRY_MASK, count)
    numbers = varints(sequences[0], count) if is_counting else list(map(varint, sequences))
    entries = varints(first & ENTRY_MASK, count)
    widths, entry_bytes = set(map(len, numbers)), len(entries[0])
    parts = [b""] * (4 * count)
    parts[1::4] = numbers
    parts[3::4] = entries
    if len(widths) == 1 and len(entries[-1]) == entry_bytes:
        before, between = _shape(producer_id, ledger, widths.pop(), entry_bytes)
        parts[0::4] = [before] * count
        parts[2::4] = [between] * count
    else:
        shapes = [
            _shape(producer_id, ledger, len(number), len(entry))
            for number, entry in zip(numbers, entries, strict=True)
        ]
        parts[0::4] = [before for before, _ in shapes]
        parts[2::4] = [between for _, between in shapes]
    return b"".join(parts)


def _is_counting(numbers: Sequence[int]) -> bool:
    """Return whether each is the successor of the one before, as nearly always."""
    first, count = numbers[0], len(numbers)
    return numbers[-1] - first == count - 1 and list(numbers) == list(range(first, first + count))


def _counted(producer_id: int, sequence: int, ledger: int, entry: int, count: int) -> bytes:
    """Return receipts whose sequence ids and entry ids both count up from the ones given."""
    parts = []
    while count:
        some = equally_long(entry, equally_long(sequence, count))
        number = varint(sequence)
        before, between = _shape(producer_id, ledger, len(number), len(varint(entry)))
        one = before + number + between + varint(entry)
        frames = bytearray(one * some)
        put_counting(frames, len(before), len(one), sequence)
        put_counting(frames, len(before) + len(number) + len(between), len(one), entry)
        parts.append(frames)
        sequence, entry, count = sequence + some, entry + some, count - some
    return b"".join(parts)


@lru_cache(maxsize=SHAPES_REMEMBERED)
def _shape(
    producer_id: int, ledger: int, sequence_bytes: int, entry_bytes: int
) -> tuple[bytes, bytes]:
    """Return the bytes before the sequence id, frame sizes included, and before the entry id."""
    producer = FIELD_PRODUCER_ID + varint(producer_id) + FIELD_SEQUENCE_ID
    position = FIELD_LEDGER_ID + varint(ledger) + FIELD_ENTRY_ID
    message_id = FIELD_MESSAGE_ID + varint(len(position) + entry_bytes) + position
    receipt_bytes = len(producer) + sequence_bytes + len(message_id) + entry_bytes
    command = TYPE_SEND_RECEIPT + FIELD_SEND_RECEIPT + varint(receipt_bytes) + producer
    # The frame's sizes count what is packed around this constant as well.
    rest = bytes(sequence_bytes + len(message_id) + entry_bytes)
    return simple_frame(command + rest)[: -len(rest)], message_id


def receipt(
    producer_id: int,
    sequence_id: int,
    highest_sequence_id: int,
    position: Position | None,
    ids: LedgerIds = AS_COUNTED,
) -> bytes:
    """Return one receipt with all fields; ``position`` None = a duplicate not stored again."""
    message_id = MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)
    if position is not None:
        ledger, entry = ids.place(position)
        message_id = MessageIdData(ledgerId=ledger, entryId=entry)
    command = CommandSendReceipt(
        producer_id=producer_id, sequence_id=sequence_id, message_id=message_id
    )
    if highest_sequence_id:
        command.highest_sequence_id = highest_sequence_id
    base = BaseCommand(type=BaseCommand.SEND_RECEIPT, send_receipt=command)
    return simple_frame(base.SerializeToString())
