"""Records: the values of the catalog, the ledgers and the cursors as bytes.

The rule: a record read back equals the one written, and bytes that are no record raise
:class:`ValueError`, which ``arneb check`` turns into a finding. JSON where people may look and
fields will be added, structs where there are many rows.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct, error
from typing import Final

from pyroaring import BitMap

from arneb_core.api.entries.position import Position
from arneb_core.store.format.changes import Trim
from arneb_core.store.format.schema import U32, U64, SubscriptionId, TopicId

LEDGER_RECORD: Final = Struct(">QQIQQQ")
CURSOR_RECORD: Final = Struct(">QQ")
TRIM_RECORD: Final = Struct(">IQQ")
JOURNAL_RECORD: Final = Struct(">QIQIQI?")
JOURNAL_RECORD_WITH_LAYOUT: Final = Struct(JOURNAL_RECORD.format + "B")
"""Longer, so that a version that knows only the first layout refuses such a store: it would take a
journal of the second layout for a damaged one."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic in the catalog. Retention: -1 no bound, 0 none."""

    id: TopicId
    durable: bool = True
    retention_ms: int = 0
    retention_bytes: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    expiring: bool = False
    """Some entry may have an expiry of its own."""
    ledger_bytes_max: int = 0
    """0: the broker's default."""
    delayed: bool = False
    """Some entry may be delayed."""

    def pack(self) -> bytes:
        return _to_json(
            id=self.id,
            durable=self.durable,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            properties=dict(self.properties),
            expiring=self.expiring,
            ledger_bytes_max=self.ledger_bytes_max,
            delayed=self.delayed,
        )

    @classmethod
    def unpack(cls, value: bytes) -> "TopicRecord":
        row = _Row(value)
        return cls(
            TopicId(row.number("id")),
            row.flag("durable"),
            row.number("retention_ms"),
            row.number("retention_bytes"),
            row.strings("properties"),
            row.flag("expiring", absent=False),
            row.number("ledger_bytes_max", absent=0),
            row.flag("delayed", absent=False),
        )


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A durable subscription in the catalog."""

    id: SubscriptionId
    properties: Mapping[str, str] = field(default_factory=dict)

    def pack(self) -> bytes:
        return _to_json(id=self.id, properties=dict(self.properties))

    @classmethod
    def unpack(cls, value: bytes) -> "SubscriptionRecord":
        row = _Row(value)
        return cls(SubscriptionId(row.number("id")), row.strings("properties"))


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """A ledger; the counts are valid once it is closed."""

    created_ms: int
    closed_ms: int = 0
    """0 = open."""
    entries: int = 0
    messages: int = 0
    bytes_total: int = 0
    """Bytes of the entries, headers included."""
    messages_before: int = 0
    """Messages in all ledgers below it, deleted ones included; valid from the beginning."""

    def pack(self) -> bytes:
        return LEDGER_RECORD.pack(
            self.created_ms,
            self.closed_ms,
            self.entries,
            self.messages,
            self.bytes_total,
            self.messages_before,
        )

    @classmethod
    def unpack(cls, value: bytes) -> "LedgerRecord":
        return cls(*_unpack(LEDGER_RECORD, value, "ledger record"))


@dataclass(frozen=True, slots=True)
class TrimmedRecord:
    """Where what was trimmed from the front of a topic's log ended, in the catalog."""

    end: Position
    """After the last entry that was removed."""
    floor: Position
    """The beginning of the first ledger that was left. The record counts only while that is the
    first one: a version that does not write it may have trimmed more."""

    def pack(self) -> bytes:
        return _to_json(end=self.end, floor=self.floor)

    @classmethod
    def unpack(cls, value: bytes) -> "TrimmedRecord":
        row = _Row(value)
        return cls(Position(row.number("end")), Position(row.number("floor")))


@dataclass(frozen=True, slots=True)
class CursorRecord:
    """Where a cursor is: everything up to ``mark_delete`` is acknowledged, and ``read_position`` is
    the first entry that was never delivered."""

    mark_delete: Position
    read_position: Position

    def pack(self) -> bytes:
        return CURSOR_RECORD.pack(self.mark_delete, self.read_position)

    @classmethod
    def unpack(cls, value: bytes) -> "CursorRecord":
        mark_delete, read_position = _unpack(CURSOR_RECORD, value, "cursor record")
        return cls(Position(mark_delete), Position(read_position))


class JournalLayout(Enum):
    """How records are laid out in a journal's file."""

    SLOTS = 1
    """Until 2026-11-24: see :mod:`.journal.slots`."""
    BLOCKS = 2
    """See :mod:`.journal.record`."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """What LMDB knows of the journal; see :mod:`.journal`."""

    epoch: int = 0
    """Counts the journal files that this store has had."""
    salt: int = 0
    """Start value of its records' checksums: bytes sent by a client never pass for a record."""
    number: int = 0
    """The number of the last record that LMDB has taken over."""
    checksum: int = 0
    """The checksum of that record."""
    head: int = 0
    """The number of the record that the file begins with, until the next one overwrites it."""
    head_checksum: int = 0
    """The checksum of that record."""
    in_use: bool = False
    """Records after :attr:`number` may be in the file, and nowhere else."""
    layout: JournalLayout = JournalLayout.BLOCKS
    """The layout of the file."""

    def pack(self) -> bytes:
        fields = (
            self.epoch,
            self.salt,
            self.number,
            self.checksum,
            self.head,
            self.head_checksum,
            self.in_use,
        )
        if self.layout is JournalLayout.SLOTS:
            return JOURNAL_RECORD.pack(*fields)
        return JOURNAL_RECORD_WITH_LAYOUT.pack(*fields, self.layout.value)

    @classmethod
    def unpack(cls, value: bytes | None) -> "JournalState":
        """Parse a row; ``None``: the store has had no journal yet."""
        if value is None:
            return cls()
        if len(value) == JOURNAL_RECORD.size:
            value += bytes([JournalLayout.SLOTS.value])
        epoch, salt, number, checksum, head, head_checksum, in_use, layout = _unpack(
            JOURNAL_RECORD_WITH_LAYOUT, value, "journal record"
        )
        return cls(
            *(epoch, salt, number, checksum, head, head_checksum),
            bool(in_use),
            JournalLayout(layout),
        )


def pack_number(number: int) -> bytes:
    """Return a META number (``format``, ``next_topic_id``)."""
    return U32.pack(number)


def unpack_number(value: bytes) -> int:
    """Undo :func:`pack_number`."""
    return _unpack(U32, value, "number")[0]


def pack_gap(first: Position) -> bytes:
    """Return a row of GAPS."""
    return U64.pack(first)


def unpack_gap(value: bytes) -> Position:
    """Undo :func:`pack_gap`."""
    return Position(_unpack(U64, value, "gap record")[0])


def pack_holes(holes: BitMap) -> bytes:
    """Return a chunk of individually acknowledged entries, by their low 16 bits."""
    return bytes(holes.serialize())


def unpack_holes(value: bytes) -> BitMap:
    """Undo :func:`pack_holes`."""
    holes = BitMap.deserialize(value) if value else None  # b"" would be an IndexError
    if not holes or holes.max() > 0xFFFF:
        raise ValueError("expected a bitmap of values 0..65535 that is not empty")
    return holes


def pack_mask(mask: int) -> bytes:
    """Return a batch's unacknowledged messages as a mask, without leading zero bytes."""
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def unpack_mask(value: bytes) -> int:
    """Undo :func:`pack_mask`."""
    return int.from_bytes(value, "little")


def pack_trims(trims: Iterable[Trim]) -> bytes:
    """Return the META list of unfinished trims."""
    return b"".join(TRIM_RECORD.pack(*trim) for trim in trims)


def unpack_trims(value: bytes) -> list[Trim]:
    """Undo :func:`pack_trims`."""
    if len(value) % TRIM_RECORD.size:
        raise ValueError(f"expected trims of {TRIM_RECORD.size} bytes each, got {len(value)} bytes")
    return [
        (TopicId(topic_id), Position(first), Position(last))
        for topic_id, first, last in TRIM_RECORD.iter_unpack(value)
    ]


def _unpack(layout: Struct, value: bytes, what: str) -> tuple[int, ...]:
    try:
        return layout.unpack(value)
    except error:
        raise ValueError(f"expected a {what} of {layout.size} bytes, got {len(value)}") from None


def _to_json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


class _Row:
    """A JSON object whose fields are read with their types checked."""

    def __init__(self, value: bytes) -> None:
        fields = json.loads(value)  # its errors are ValueErrors
        if not isinstance(fields, dict):
            raise ValueError(f"expected a JSON object, got {type(fields).__name__}")
        self._fields: dict[str, object] = fields

    def number(self, name: str, *, absent: int | None = None) -> int:
        value = self._fields.get(name, absent)
        if type(value) is not int:
            raise ValueError(f"expected a number in field {name!r}, got {value!r}")
        return value

    def flag(self, name: str, *, absent: bool | None = None) -> bool:
        value = self._fields.get(name, absent)
        if type(value) is not bool:
            raise ValueError(f"expected true or false in field {name!r}, got {value!r}")
        return value

    def strings(self, name: str) -> dict[str, str]:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise ValueError(f"expected an object in field {name!r}, got {value!r}")
        if not all(isinstance(text, str) for text in value.values()):
            raise ValueError(f"expected only strings in field {name!r}, got {value!r}")
        return value
