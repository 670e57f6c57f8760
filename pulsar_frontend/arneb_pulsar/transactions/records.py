"""Records: what the log of open transactions holds, in bytes.

The rule: a record is an entry of the broker's own, whose body begins with its kind and its
transaction. For a sent message it holds the entry as it will be in its topic. Big-endian.

========= ==================================================================
``OPENED``  when, for how long (ms), then who opened it, as JSON
``SENT``    the id of the topic, then the entry
``ACKED``   the id of the topic, a length, as much JSON (subscription, its id, and messages of
            batches as position, mask in hexadecimal, size), then whole entries as a roaring bitmap
========= ==================================================================
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin
from arneb_core.api.entries.position import Position

HEAD: Final = Struct(">BQ")
"""The kind, and the lower half of the transaction's id."""
TOPIC: Final = Struct(">Q")
TIMES: Final = Struct(">QQ")
LENGTH: Final = Struct(">I")
SENT_AT: Final = HEADER_BYTES + HEAD.size + TOPIC.size
"""Where the entry of a sent message begins in its record."""


class Kind(IntEnum):
    """The kinds of records."""

    OPENED = 1
    SENT = 2
    ACKED = 3


@dataclass(frozen=True, slots=True)
class Opened:
    """A transaction was opened."""

    at_ms: int
    timeout_ms: int
    owner: tuple[str, str]
    """The proved role, and the principal on whose behalf it acts."""

    @property
    def until_ms(self) -> int:
        """When it times out."""
        return self.at_ms + self.timeout_ms


@dataclass(frozen=True, slots=True)
class Sent:
    """A message was sent in it."""

    topic: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class Acked:
    """Messages were acknowledged in it."""

    topic: int
    subscription: str
    subscription_id: int | None
    whole: Sequence[Position] = ()
    parts: Mapping[Position, tuple[int, int]] = field(default_factory=dict)
    """Batches acknowledged in part: the mask of messages, and the batch's size."""
    is_cumulative: bool = False


Record = Opened | Sent | Acked


def pack(number: int, record: Opened | Acked, now_ms: int) -> bytes:
    """Return the entry that keeps ``record`` of the transaction ``number``."""
    match record:
        case Opened():
            times = TIMES.pack(record.at_ms, record.timeout_ms)
            body = times + json.dumps(record.owner).encode()
            return _start(Kind.OPENED, number, now_ms) + body
        case Acked():
            parts = [[position, hex(mask), size] for position, (mask, size) in record.parts.items()]
            fields = [record.subscription, record.subscription_id, record.is_cumulative, parts]
            text = json.dumps(fields).encode()
            whole = BitMap64(record.whole).serialize() if record.whole else b""
            head = TOPIC.pack(record.topic) + LENGTH.pack(len(text))
            return _start(Kind.ACKED, number, now_ms) + head + text + whole


def pack_sent(number: int, topic: int, entries: Sequence[bytes], now_ms: int) -> list[bytes]:
    """Return the entries that keep a run of messages."""
    start = _start(Kind.SENT, number, now_ms) + TOPIC.pack(topic)
    return [start + entry for entry in entries]


def unpack(entry: bytes) -> tuple[int, Record]:
    """Return the transaction's number, and the record in the entry. Raises :class:`ValueError`."""
    try:
        return _unpacked(entry)
    except (struct.error, TypeError) as error:
        raise ValueError(f"expected a record of a transaction: {error}") from error


def _unpacked(entry: bytes) -> tuple[int, Record]:
    at = HEADER_BYTES + HEAD.size
    kind, number = HEAD.unpack_from(entry, HEADER_BYTES)
    match Kind(kind):
        case Kind.OPENED:
            at_ms, timeout_ms = TIMES.unpack_from(entry, at)
            role, original = json.loads(entry[at + TIMES.size :])
            return number, Opened(at_ms, timeout_ms, (role, original))
        case Kind.SENT:
            (topic,) = TOPIC.unpack_from(entry, at)
            return number, Sent(topic, entry[SENT_AT:])
        case Kind.ACKED:
            (topic,) = TOPIC.unpack_from(entry, at)
            at += TOPIC.size
            (length,) = LENGTH.unpack_from(entry, at)
            at += LENGTH.size
            name, subscription_id, is_cumulative, rows = json.loads(entry[at : at + length])
            rest = entry[at + length :]
            whole = [Position(each) for each in BitMap64.deserialize(rest)] if rest else []
            parts = {Position(position): (int(mask, 16), size) for position, mask, size in rows}
            return number, Acked(topic, name, subscription_id, whole, parts, is_cumulative)


def _start(kind: Kind, number: int, now_ms: int) -> bytes:
    return EntryHeader(Origin.BROKER, publish_time_ms=now_ms).pack() + HEAD.pack(kind, number)
