"""Entries: a TAKE or a record as the bytes of one entry of the log topic, and back.

The rule: what is parsed is byte for byte what was made, or it is refused. One entry that this
version cannot read must not be passed over, since what counts behind it cannot be known
(:class:`UnknownVersion`); bytes of somebody else may be (:class:`EntryCorrupt`).

====== ====== ==================================================================
offset type   field
====== ====== ==================================================================
0      3s     :data:`MAGIC`
3      u8     version of the layout
4      u32    CRC-32C of everything behind this field
8      u8     :class:`Kind`
9             of a TAKE: JSON; of a record: :data:`RECORD`, then the body
====== ====== ==================================================================
"""

import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from arneb_cluster.protocol.values import Link, Place, Take
from arneb_core.api.checksum import crc32c

MAGIC: Final = b"aRl"
FIRST_VERSION: Final = 1
VERSION: Final = 1
"""The last that this code writes; it reads all up to that one. Written is what every member
reads."""

HEAD: Final = Struct(">3sBIB")
CHECKED_AT: Final = 8
KIND_AT: Final = 8
RECORD: Final = Struct(">QQIQQqq")
"""Epoch, number, checksum of the record before, number that is stored, stamp, ledger and entry of
the TAKE."""

OVERHEAD_BYTES: Final = HEAD.size + RECORD.size
"""Of a record around its body."""

NUMBER_MAX: Final = (1 << 64) - 1


class Kind(IntEnum):
    """What an entry is."""

    TAKE = 1
    CHANGES = 2
    """A commit, or the last part of one."""
    PART = 3
    """A part of a commit; more follow."""
    HEARTBEAT = 4
    RESIGNATION = 5
    """The leader writes nothing more. Its body is the name of the node that it hands over to, or
    empty."""


_RECORD_HEADS: Final = tuple(MAGIC + bytes([each]) for each in range(FIRST_VERSION, VERSION + 1))
_RECORDS: Final = frozenset(Kind) - {Kind.TAKE}


class EntryCorrupt(ValueError):
    """Not an entry as this protocol makes them."""


class UnknownVersion(ValueError):
    """An entry of a later version of this protocol."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the chain."""

    kind: Kind
    epoch: int
    number: int
    before: int
    """The checksum of the record before."""
    stored: int
    """Up to this number the leader had receipts when it made this one: all of those stand before
    it."""
    stamp_ms: int
    """The leader's clock."""
    take_place: Place
    """Where the TAKE of its epoch stands."""
    body: bytes
    checksum: int
    """Its own; covers that of the record before, and so all before it."""

    @property
    def link(self) -> Link:
        """What the next record follows."""
        return Link(self.number, self.checksum)

    @property
    def is_resignation(self) -> bool:
        """Its leader writes nothing more."""
        return self.kind is Kind.RESIGNATION

    @property
    def successor(self) -> str:
        """To whom the leader of a resignation hands over; empty: to whoever is active."""
        return self.body.decode(errors="replace") if self.is_resignation else ""


def encode_take(take: Take, version: int = VERSION) -> bytes:
    """The entry of a TAKE."""
    body = json.dumps(asdict(take), sort_keys=True).encode()
    return _sealed(Kind.TAKE, body, version)[0]


def encode_record(
    kind: Kind,
    epoch: int,
    before: Link,
    stored: int,
    stamp_ms: int,
    take_place: Place,
    body: bytes = b"",
    version: int = VERSION,
) -> tuple[bytes, Link]:
    """The entry of the record behind ``before``, and its own link."""
    number = before.number + 1
    head = RECORD.pack(epoch, number, before.checksum, stored, stamp_ms, *take_place)
    data, checksum = _sealed(kind, head + body, version)
    return data, Link(number, checksum)


def parse_entry(data: bytes) -> Take | Record:
    """What an entry is. Raises :class:`EntryCorrupt`, :class:`UnknownVersion`."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise EntryCorrupt(f"expected an entry of the log, got {len(data)} bytes {data[:8]!r}")
    _, version, checksum, number = HEAD.unpack_from(data)
    if not FIRST_VERSION <= version <= VERSION:
        raise UnknownVersion(f"expected an entry of version {VERSION}, got version {version}")
    found = crc32c(memoryview(data)[CHECKED_AT:])
    if found != checksum:
        raise EntryCorrupt(f"expected checksum {checksum:08x}, got {found:08x}")
    try:
        kind = Kind(number)
    except ValueError:
        raise UnknownVersion(f"expected a kind of entry up to {max(Kind)}, got {number}") from None
    if kind is Kind.TAKE:
        return _take_of(data[HEAD.size :])
    if len(data) < OVERHEAD_BYTES:
        raise EntryCorrupt(f"expected a record of {OVERHEAD_BYTES} bytes or more, got {len(data)}")
    *fields, ledger, entry = RECORD.unpack_from(data, HEAD.size)
    body = data[OVERHEAD_BYTES:]
    epoch, number, before, stored, stamp_ms = fields
    take_place = Place(ledger, entry)
    return Record(kind, epoch, number, before, stored, stamp_ms, take_place, body, checksum)


def is_record(data: bytes) -> bool:
    """Whether it is a record of a version that is read here, as its head says; one that is damaged
    is taken for one too."""
    return data.startswith(_RECORD_HEADS) and len(data) > KIND_AT and data[KIND_AT] in _RECORDS


def history_in(data: bytes) -> str | None:
    """Which life of its shard an entry belongs to, if it says so; of what is none of ours, nothing
    is said."""
    try:
        entry = parse_entry(data)
    except (EntryCorrupt, UnknownVersion):
        return None
    if isinstance(entry, Take):
        return entry.history
    return entry.body.decode() if entry.kind is Kind.HEARTBEAT else None


def _sealed(kind: Kind, rest: bytes, version: int) -> tuple[bytes, int]:
    checksum = crc32c(rest, crc32c(bytes([kind])))
    return HEAD.pack(MAGIC, version, checksum, kind) + rest, checksum


def _take_of(body: bytes) -> Take:
    try:
        take = Take(**json.loads(body))
        texts = (take.shard, take.history, take.node, take.nonce)
        addresses = [text for pair in take.addresses.items() for text in pair]
        if [type(take.epoch), *map(type, texts), *map(type, addresses)] != [
            int,
            *[str] * (len(texts) + len(addresses)),
        ]:
            raise TypeError("expected an epoch and texts")
    except (ValueError, TypeError, AttributeError) as error:
        raise EntryCorrupt(f"expected a TAKE, got {body[:200]!r}: {error}") from None
    return take
