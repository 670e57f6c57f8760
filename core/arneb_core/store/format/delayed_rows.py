"""Delayed rows: the values of the DELAYED table as bytes.

The rule: a row read back equals the one written, and bytes that are no row, or not the ones
written, raise :class:`ValueError`. Segments and heads carry a checksum, since no other row says
what they say of an entry; but all of it can be rebuilt from the log.
"""

from array import array
from collections.abc import Iterable, Sequence
from operator import itemgetter
from struct import Struct
from sys import byteorder
from typing import Final, NamedTuple

from pyroaring import BitMap64

from arneb_core.api.encoding.checksum import crc32c
from arneb_core.api.entries.due_key import POSITION_BITS, POSITION_MASK, DueKey
from arneb_core.store.format.schema import U32, U64

RECORD: Final = Struct(">QQ")
"""A due key: time in ms, position."""
RECORD_BYTES: Final = RECORD.size
ONE_RECORD: Final = Struct(f"{RECORD_BYTES}s")

SPAN: Final = Struct(">QQQQI")
"""First key, last key, number of keys."""


class Span(NamedTuple):
    """What a segment holds, known without reading it."""

    first: DueKey
    last: DueKey
    entries: int


def records_of(keys: Iterable[DueKey]) -> bytes:
    """Concatenate the records of ``keys``; records sort as keys do."""
    return b"".join([key.to_bytes(16, "big") for key in keys])


def key_of(record: bytes) -> DueKey:
    """Return the key of one record."""
    return DueKey(int.from_bytes(record, "big"))


def split_records(records: bytes) -> Sequence[bytes]:
    """Split concatenated records."""
    return list(map(itemgetter(0), ONE_RECORD.iter_unpack(records)))


def pack_segment(records: bytes) -> bytes:
    """Return the row of a segment, whose records are in order."""
    return _sealed(records)


def unpack_segment(value: bytes) -> bytes:
    """The records of a segment, whole and in the order in which they were written; see
    :data:`RECORD`."""
    records = _unsealed(value)
    if not records or len(records) % RECORD_BYTES:
        raise ValueError(f"expected records of {RECORD_BYTES} bytes, got {len(records)} bytes")
    return records


def positions_of(records: bytes) -> "array[int]":
    """Return the positions in records."""
    positions = array("Q", records)[1::2]
    if byteorder == "little":
        positions.byteswap()
    return positions


def keys_of(records: bytes | memoryview) -> list[DueKey]:
    """Return the keys of records."""
    return [
        DueKey(at_ms << POSITION_BITS | position) for at_ms, position in RECORD.iter_unpack(records)
    ]


def pack_head(spans: Sequence[Span]) -> bytes:
    """Return the row that describes a bucket's segments, in order."""
    return _sealed(
        b"".join(
            SPAN.pack(
                first >> POSITION_BITS,
                first & POSITION_MASK,
                last >> POSITION_BITS,
                last & POSITION_MASK,
                n,
            )
            for first, last, n in spans
        )
    )


def unpack_head(value: bytes) -> list[Span]:
    """Undo :func:`pack_head`."""
    data = _unsealed(value)
    if not data or len(data) % SPAN.size:
        raise ValueError(f"expected spans of {SPAN.size} bytes, got {len(data)} bytes")
    spans = [
        Span(DueKey(a << POSITION_BITS | b), DueKey(c << POSITION_BITS | d), n)
        for a, b, c, d, n in SPAN.iter_unpack(data)
    ]
    low = -1
    for span in spans:
        if not (low < span.first <= span.last and span.entries):
            raise ValueError("expected segments that follow each other and are not empty")
        low = span.last
    return spans


def pack_members(members: BitMap64) -> bytes:
    """Return the row with the positions of a bucket's entries."""
    return _sealed(bytes(members.serialize()))


def unpack_members(value: bytes) -> BitMap64:
    """Undo :func:`pack_members`."""
    members = BitMap64.deserialize(_unsealed(value))
    if not members:
        raise ValueError("expected a bitmap that is not empty")
    return members


def pack_through(position: int) -> bytes:
    """Return the row that says up to where the log was scanned."""
    return U64.pack(position)


def unpack_through(value: bytes) -> int:
    """Undo :func:`pack_through`."""
    if len(value) != U64.size:
        raise ValueError(f"expected a position of {U64.size} bytes, got {len(value)}")
    position: int = U64.unpack(value)[0]
    return position


def _sealed(data: bytes) -> bytes:
    return U32.pack(crc32c(data)) + data


def _unsealed(value: bytes) -> bytes:
    data = value[U32.size :]
    if len(value) < U32.size or crc32c(data) != int.from_bytes(value[: U32.size], "big"):
        raise ValueError("expected bytes that agree with their checksum")
    return data
