"""The layout of the store: its tables and the bytes of their keys.

The rule: every key on disk is packed and parsed here, and numbers in keys are big-endian, so that
LMDB's byte order is the order of topics and of the log.

========== ================================================= ==============================
table      key                                               value
========== ================================================= ==============================
META       ``format``, ``next_topic_id``, ``clean``,         u32; u32; empty;
           ``trims``, ``ahead``, ``journal``,                :func:`.records.pack_trims`, twice;
           ``replica``                                       :class:`.records.JournalState`; JSON
CATALOG    ``topic/<name>``                                  JSON, as in :mod:`.records`
           ``subscription/<topic id, 8 hex digits>/<name>``  JSON, as in :mod:`.records`
           ``trimmed/<topic id, 8 hex digits>``              JSON, as in :mod:`.records`
           ``frontend/<key>``                                bytes of the frontend's own
LEDGERS    topic u32, ledger u32                             :class:`.records.LedgerRecord`
CURSORS    topic u32, subscription u32, kind u8, …           see :class:`CursorKind`
DELAYED    topic u32, bucket u32, kind u8, …                 see :class:`DelayedKind`
ENTRIES    topic u32, position u64 of the block's last entry a block, see :mod:`.block`
BODIES     topic u32, position u64 of the first reference    see :mod:`.bodies`
REFERENCES as BODIES                                         u32: references that blocks hold
GAPS       topic u32, position u64 of the gap's last entry   u64: position of its first
========== ================================================= ==============================
"""

from enum import Enum, IntEnum
from struct import Struct
from typing import Final, NewType

from arneb_core.api.entries.position import LedgerId, Position

FORMAT_VERSION: Final = 4
"""Raised whenever an older version could misread what this one writes."""

TopicId = NewType("TopicId", int)
"""Counts the topics of one store from 1; never reused."""

SubscriptionId = NewType("SubscriptionId", int)
"""Counts the subscriptions of one topic from 1; never reused inside the topic."""

BodyKey = NewType("BodyKey", bytes)
"""Names an entry that several blocks refer to: the ENTRIES key of its first place."""

BODY_KEY_BYTES: Final = 12


class Table(Enum):
    """One LMDB sub-database; the value is its name in the file."""

    META = b"meta"
    CATALOG = b"catalog"
    LEDGERS = b"ledgers"
    CURSORS = b"cursors"
    DELAYED = b"delayed"
    ENTRIES = b"entries"
    BODIES = b"bodies"
    REFERENCES = b"references"
    GAPS = b"gaps"


TABLE_NUMBERS: Final = {
    Table.META: 1,
    Table.CATALOG: 2,
    Table.LEDGERS: 3,
    Table.CURSORS: 4,
    Table.DELAYED: 5,
    Table.ENTRIES: 6,
    Table.BODIES: 7,
    Table.REFERENCES: 8,
    Table.GAPS: 9,
}
"""Numbers of tables in commit records; a number is never given to another table."""


class CursorKind(IntEnum):
    """What a CURSORS row holds; the byte after :func:`cursor_prefix`."""

    PLACE = 0
    """The key ends here; value: :class:`.records.CursorRecord`."""
    HOLES = 1
    """The key continues with the chunk, u48 = position >> 16; value: a serialised roaring bitmap of
    the low 16 bits of the individually acknowledged entries."""
    MASK = 2
    """The key continues with the position, u64; value: the batch's messages that are STILL UNACKED,
    bit *i* = message *i*, as little-endian bytes."""


class DelayedKind(IntEnum):
    """What a DELAYED row holds; the byte after :func:`bucket_prefix`."""

    THROUGH = 0
    """Under bucket 0, which does not exist: the position, u64, up to which the log was scanned for
    delayed entries. The next start scans what is after it."""
    HEAD = 1
    """Describes the segments: :func:`.delayed_rows.pack_head`. A bucket needs it to count."""
    MEMBERS = 2
    """The positions of all entries in the bucket: a serialised roaring bitmap."""
    SEGMENT = 3
    """The key continues with the number, u32; value: :func:`.delayed_rows.pack_segment`."""


META_FORMAT: Final = b"format"
META_NEXT_TOPIC_ID: Final = b"next_topic_id"
META_CLEAN: Final = b"clean"
"""Present: the last stop was clean."""
META_TRIMS: Final = b"trims"
"""The trims that no commit has finished yet; used only by the store."""
META_AHEAD: Final = b"ahead"
"""Where blocks are written ahead of the commit that makes ledgers of them. If it is there when a
store is opened, that commit never came, and they are trims like others."""
META_JOURNAL: Final = b"journal"
"""The last record of the journal that ENTRIES has, and how to recognise the journal's file."""
META_REPLICA: Final = b"replica"
"""In a directory that follows a replicated log: how far it has that log. JSON of the cluster's."""
META_KEYS: Final = frozenset(
    {
        META_FORMAT,
        META_NEXT_TOPIC_ID,
        META_CLEAN,
        META_TRIMS,
        META_AHEAD,
        META_JOURNAL,
        META_REPLICA,
    }
)

TOPIC_PREFIX: Final = b"topic/"
SUBSCRIPTION_PREFIX: Final = b"subscription/"
TRIMMED_PREFIX: Final = b"trimmed/"
FRONTEND_PREFIX: Final = b"frontend/"
CATALOG_PREFIXES: Final = (TOPIC_PREFIX, SUBSCRIPTION_PREFIX, TRIMMED_PREFIX, FRONTEND_PREFIX)

U32: Final = Struct(">I")
U64: Final = Struct(">Q")
ENTRY_KEY: Final = Struct(">IQ")
LEDGER_KEY: Final = Struct(">II")
CURSOR_PREFIX: Final = Struct(">II")
MASK_SUFFIX: Final = Struct(">BQ")

BUCKET_KEY: Final = Struct(">IIB")
SEGMENT_KEY: Final = Struct(">IIBI")

CHUNK_BITS: Final = 16
CHUNK_MASK: Final = (1 << CHUNK_BITS) - 1
CHUNK_BYTES: Final = 6


def topic_prefix(topic_id: TopicId) -> bytes:
    """Return the prefix of a topic's keys in ENTRIES, LEDGERS, CURSORS and DELAYED."""
    return U32.pack(topic_id)


def entry_key(topic_id: TopicId, last: Position) -> bytes:
    """Return the ENTRIES key of the block that ends with ``last``.

    A search for the block with ``last`` starts here, too: the first key that is not smaller is that
    block's.
    """
    return ENTRY_KEY.pack(topic_id, last)


def parse_entry_key(key: bytes) -> tuple[TopicId, Position]:
    """Return the topic and last position of a block; raises ``struct.error`` on another length."""
    topic_id, last = ENTRY_KEY.unpack(key)
    return TopicId(topic_id), Position(last)


def gap_key(topic_id: TopicId, last: Position) -> bytes:
    """Return the GAPS key of the gap that ends with ``last``."""
    return ENTRY_KEY.pack(topic_id, last)


def ledger_key(topic_id: TopicId, ledger: LedgerId) -> bytes:
    """Return the LEDGERS key of a ledger."""
    return LEDGER_KEY.pack(topic_id, ledger)


def parse_ledger_key(key: bytes) -> tuple[TopicId, LedgerId]:
    """Return the topic and the ledger; raises ``struct.error`` on another length."""
    topic_id, ledger = LEDGER_KEY.unpack(key)
    return TopicId(topic_id), LedgerId(ledger)


def cursor_prefix(topic_id: TopicId, subscription_id: SubscriptionId) -> bytes:
    """Return the prefix of a subscription's CURSORS keys."""
    return CURSOR_PREFIX.pack(topic_id, subscription_id)


PLACE_SUFFIX: Final = bytes([CursorKind.PLACE])
"""The rest of the key of a cursor's :class:`.records.CursorRecord`."""


def holes_suffix(chunk: int) -> bytes:
    """Return the rest of the key of a bitmap of holes; ``chunk`` is position >> 16."""
    return bytes([CursorKind.HOLES]) + chunk.to_bytes(CHUNK_BYTES, "big")


def mask_suffix(position: Position) -> bytes:
    """Return the rest of the key of a batch mask."""
    return MASK_SUFFIX.pack(CursorKind.MASK, position)


def parse_cursor_key(key: bytes) -> tuple[TopicId, SubscriptionId, CursorKind, int]:
    """Return topic, subscription, kind, and the chunk or position (0 for the place).

    Raises :class:`ValueError` when the bytes are no key of a known kind.
    """
    if len(key) <= CURSOR_PREFIX.size:
        raise ValueError(f"expected a cursor key of at least 9 bytes, got {len(key)}")
    topic_id, subscription_id = CURSOR_PREFIX.unpack_from(key)
    kind = CursorKind(key[CURSOR_PREFIX.size])
    rest = key[CURSOR_PREFIX.size + 1 :]
    expected = {CursorKind.PLACE: 0, CursorKind.HOLES: CHUNK_BYTES, CursorKind.MASK: 8}[kind]
    if len(rest) != expected:
        raise ValueError(
            f"expected {expected} bytes after cursor kind {kind.name}, got {len(rest)}"
        )
    return TopicId(topic_id), SubscriptionId(subscription_id), kind, int.from_bytes(rest, "big")


def through_key(topic_id: TopicId) -> bytes:
    """Return the DELAYED key of :attr:`DelayedKind.THROUGH`."""
    return BUCKET_KEY.pack(topic_id, 0, DelayedKind.THROUGH)


def bucket_key(topic_id: TopicId, bucket: int, kind: DelayedKind) -> bytes:
    """Return the DELAYED key of a bucket's head or members."""
    return BUCKET_KEY.pack(topic_id, bucket, kind)


def segment_key(topic_id: TopicId, bucket: int, segment: int) -> bytes:
    """Return the DELAYED key of a bucket's segment."""
    return SEGMENT_KEY.pack(topic_id, bucket, DelayedKind.SEGMENT, segment)


def parse_delayed_key(key: bytes) -> tuple[TopicId, int, DelayedKind, int]:
    """Return topic, bucket, kind, and the segment (0 for other kinds).

    Raises :class:`ValueError` when the bytes are no key of a known kind.
    """
    if len(key) < BUCKET_KEY.size:
        raise ValueError(f"expected a delayed key of at least 9 bytes, got {len(key)}")
    topic_id, bucket, number = BUCKET_KEY.unpack_from(key)
    kind, rest = DelayedKind(number), key[BUCKET_KEY.size :]
    expected = U32.size if kind is DelayedKind.SEGMENT else 0
    if len(rest) != expected:
        raise ValueError(
            f"expected {expected} bytes after delayed kind {kind.name}, got {len(rest)}"
        )
    if (bucket == 0) is not (kind is DelayedKind.THROUGH):
        raise ValueError(f"expected no {kind.name} of bucket {bucket}")
    return TopicId(topic_id), bucket, kind, int.from_bytes(rest, "big")


def topic_key(name: str) -> bytes:
    """Return the CATALOG key of a topic."""
    return TOPIC_PREFIX + name.encode()


def subscriptions_prefix(topic_id: TopicId) -> bytes:
    """Return the prefix of the CATALOG keys of a topic's subscriptions."""
    return b"%s%08x/" % (SUBSCRIPTION_PREFIX, topic_id)


def subscription_key(topic_id: TopicId, name: str) -> bytes:
    """Return the CATALOG key of a subscription."""
    return subscriptions_prefix(topic_id) + name.encode()


def parse_subscription_key(key: bytes) -> tuple[TopicId, str]:
    """Return the topic and the name; raises :class:`ValueError` on any other key."""
    head, slash, name = key.removeprefix(SUBSCRIPTION_PREFIX).partition(b"/")
    topic_id = int(head, 16)
    if not slash or key != subscriptions_prefix(TopicId(topic_id)) + name:
        raise ValueError(f"expected {SUBSCRIPTION_PREFIX!r} + 8 hex digits + '/', got {key!r}")
    return TopicId(topic_id), name.decode()


def trimmed_key(topic_id: TopicId) -> bytes:
    """Return the CATALOG key of what is known of a topic's trimmed ledgers."""
    return b"%s%08x" % (TRIMMED_PREFIX, topic_id)


def parse_trimmed_key(key: bytes) -> TopicId:
    """Return the topic; raises :class:`ValueError` on any other key."""
    topic_id = TopicId(int(key.removeprefix(TRIMMED_PREFIX), 16))
    if key != trimmed_key(topic_id):
        raise ValueError(f"expected {TRIMMED_PREFIX!r} + 8 hex digits, got {key!r}")
    return topic_id


def prefixes_of(topic_id: TopicId) -> tuple[bytes, bytes]:
    """Return the prefixes of a topic's CATALOG keys, besides its own row."""
    return subscriptions_prefix(topic_id), trimmed_key(topic_id)


def frontend_key(key: str) -> bytes:
    """Return the CATALOG key of a frontend's own metadata."""
    return FRONTEND_PREFIX + key.encode()
