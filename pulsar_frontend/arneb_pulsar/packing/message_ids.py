"""Message ids: the positions that they name, and the ids of positions.

The rule: a message id names a position by its ledger and entry. The wire marks positions outside
the log with ids that no entry has: (-1, -1) for the earliest, (2^63-1, 2^63-1) for the end.
"""

from collections.abc import Sequence
from typing import Final

from arneb_core.api.entries.ledger_ids import AS_COUNTED, ENTRIES, LARGEST, LedgerIds
from arneb_core.api.entries.position import (
    ENTRY_BITS,
    Position,
    position_at,
)
from arneb_pulsar.wire.ack_sets import done_mask
from arneb_pulsar.wire.counting import equally_long, put_counting
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageIdData
from arneb_pulsar.wire.varint import from_varint, from_varints, varint

BEFORE_FIRST: Final = (1 << 64) - 1
"""-1 in the unsigned fields of a message id."""

NEIGHBOURS_MIN: Final = 8
"""Acknowledgements from which on looking for neighbours pays."""

STRETCH_IDS_MIN: Final = 8
"""Ids of one form; where fewer are together, handling them one by one costs no more."""

IDS_PER_TURN: Final = 1_000
"""Message ids of one request handled in a turn: up to 6 ms, with ack sets; the mask of each may
take 8 KiB. Clients send at most this many at once, but one request may have half a million."""

ENTRY_BYTES_MAX: Final = 4
"""Bytes of an entry id that is recognised by its form: no ledger has entries that take five."""

FIELD_MESSAGE_ID: Final = b"\x1a"
FIELD_LEDGER_ID: Final = b"\x08"
FIELD_ENTRY_ID: Final = b"\x10"


def position_of(message_id: MessageIdData, ids: LedgerIds = AS_COUNTED) -> Position | None:
    """Return the position that ``message_id`` names; None for an id that no entry can have.
    ``ids``: the topic's, here and below."""
    return ids.position(message_id.ledgerId, message_id.entryId)


def place_of(message_id: MessageIdData) -> tuple[int, int]:
    """Return ledger id and entry id, of which each may be negative."""
    ledger, entry = message_id.ledgerId, message_id.entryId
    return -1 if ledger > LARGEST else ledger, -1 if entry > LARGEST else entry


def start_position_of(message_id: MessageIdData, ids: LedgerIds = AS_COUNTED) -> Position:
    """Return the position from which to read for ``message_id``, ends of the log included.

    Ids that no entry has mean the nearest position: (5, -1) is the beginning of ledger 5.
    """
    return ids.nearest(*place_of(message_id))


def message_id_of(
    position: Position | None,
    partition: int = -1,
    batch_index: int = -1,
    ids: LedgerIds = AS_COUNTED,
) -> MessageIdData:
    """Return the id of a position; the bound before a ledger's first entry has the entry id -1."""
    if position is None:
        return MessageIdData(ledgerId=BEFORE_FIRST, entryId=BEFORE_FIRST, partition=partition)
    ledger, entry = ids.place(position)
    return MessageIdData(
        ledgerId=ledger, entryId=entry & BEFORE_FIRST, partition=partition, batch_index=batch_index
    )


def split_acks(
    ids: Sequence[MessageIdData], raw: bytes, ledger_ids: LedgerIds = AS_COUNTED
) -> tuple[list[Position], list[tuple[Position, int]]]:
    """Return whole entries, and (position, messages done) for half-acknowledged batches.

    ``raw`` is the command that ``ids`` came in. Ids that no entry can have are left out.
    """
    if len(ids) >= NEIGHBOURS_MIN:
        found = _neighbours(ids, raw, ledger_ids) or _plain_ids(ids, raw, ledger_ids)
        if found:
            return found, []
    whole: list[Position] = []
    partial: list[tuple[Position, int]] = []
    known, own = -1, None
    for message_id in ids[:]:  # a slice is a list, and twice as fast as protobuf's container
        ledger, entry = message_id.ledgerId, message_id.entryId
        if ledger != known:
            known, own = ledger, ledger_ids.ledger(ledger)
        if own is None or entry >= ENTRIES:
            continue
        position = Position((own << ENTRY_BITS) + entry)
        if words := message_id.ack_set:
            partial.append((position, done_mask(words)))
        else:
            whole.append(position)
    return whole, partial


def _neighbours(ids: Sequence[MessageIdData], raw: bytes, ledger_ids: LedgerIds) -> list[Position]:
    """Return the positions of ``ids`` if they are neighbours in one ledger and say nothing else; an
    empty list if not.

    Hot path: a consumer that keeps up acknowledges neighbours, whose bytes can be predicted.
    """
    first, last, count = ids[0], ids[-1], len(ids)
    ledger, entry = first.ledgerId, first.entryId
    if last.ledgerId != ledger or last.entryId - entry != count - 1:
        return []
    own = ledger_ids.ledger(ledger)
    if own is None or entry + count > ENTRIES:
        return []
    if _consecutive_ids(ledger, entry, count) not in raw:
        return []
    start = position_at(own, entry)
    return list(range(start, start + count))  # type: ignore[arg-type]


def _consecutive_ids(ledger: int, entry: int, count: int) -> bytes:
    """Return the message ids of neighbours as an ACK has them that says nothing else of them."""
    ids = bytearray()
    while count:
        one, some = _plain_id(ledger, entry), equally_long(entry, count)
        alike = bytearray(one * some)
        put_counting(alike, len(one) - len(varint(entry)), len(one), entry)
        ids += alike
        entry, count = entry + some, count - some
    return bytes(ids)


def _plain_ids(ids: Sequence[MessageIdData], raw: bytes, ledger_ids: LedgerIds) -> list[Position]:
    """Return the positions of ``ids`` if they are adjacent in ``raw`` and say nothing but a ledger
    and an entry; an empty list if not, or if too few of one form are together to pay.

    Hot path: due entries are scattered over the log. Ids of one ledger and one length differ only
    in their last bytes, which are cut out and read by C code, column by column.
    """
    first, last, count = ids[0], ids[-1], len(ids)
    at = raw.find(_plain_id(first.ledgerId, first.entryId))
    found: list[int] = []
    for _ in range(1 + count // STRETCH_IDS_MIN):
        left = count - len(found)
        if not left or not 0 <= at < len(raw):
            break
        ledger_at = at + 3
        entry_at = ledger_at
        while entry_at < len(raw) and raw[entry_at] & 0x80:
            entry_at += 1
        entry_at += 2
        step = raw[at + 1] + 2 if at + 1 < len(raw) else 0
        width = at + step - entry_at
        if not 0 < width <= ENTRY_BYTES_MAX:
            return []
        head = raw[at:entry_at]
        if head[:1] != FIELD_MESSAGE_ID or head[2:3] != FIELD_LEDGER_ID:
            return []
        ledger = ledger_ids.ledger(from_varint(head[3:-1]))
        if head[-1:] != FIELD_ENTRY_ID or ledger is None:
            return []
        alike = _alike(raw, at, step, head, left)
        stop = at + alike * step
        entries = from_varints([raw[index:stop:step] for index in range(entry_at, at + step)])
        if entries is None:
            return []
        base = ledger << ENTRY_BITS
        found += [base + entry for entry in entries]
        at = stop
    is_whole = len(found) == count and found[-1] == position_of(last, ledger_ids)
    return found if is_whole else []  # type: ignore[return-value]  # ints made from positions


def _plain_id(ledger: int, entry: int) -> bytes:
    """Return a message id of an ACK that says nothing else."""
    inner = FIELD_LEDGER_ID + varint(ledger) + FIELD_ENTRY_ID + varint(entry)
    return FIELD_MESSAGE_ID + varint(len(inner)) + inner


def _alike(raw: bytes, at: int, step: int, head: bytes, most: int) -> int:
    """Count the pieces of ``step`` bytes, from ``at`` on, that begin with ``head``."""
    most = min(most, (len(raw) - at) // step)
    for index in range(len(head)):
        column = raw[at + index : at + most * step : step]
        most -= len(column.lstrip(head[index : index + 1]))
    return most
