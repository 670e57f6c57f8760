"""Entries: TAKEs and records as bytes in the log topic, and back.

The rule: an entry parses to exactly what was written, or is refused. An entry that this version
cannot read must not be skipped, because what counts after it cannot be known
(:class:`UnknownVersion`); foreign bytes may be (:class:`EntryCorrupt`).

====== ====== ==================================================================
offset type   field
====== ====== ==================================================================
0      3s     :data:`MAGIC`
3      u8     version of the layout
4      u32    CRC-32C of everything after this field
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
from arneb_core.api.encoding.checksum import crc32c

MAGIC: Final = b"aRl"
FIRST_VERSION: Final = 1
VERSION: Final = 1
"""The last version this code writes; it reads all up to that. A leader writes a version that every
member reads."""

HEAD: Final = Struct(">3sBIB")
CHECKED_AT: Final = 8
KIND_AT: Final = 8
RECORD: Final = Struct(">QQIQQqq")
"""Epoch, number, checksum of the preceding record, stored number, stamp, ledger and entry of the
TAKE."""

OVERHEAD_BYTES: Final = HEAD.size + RECORD.size
"""Bytes of a record besides its body."""

NUMBER_MAX: Final = (1 << 64) - 1


class Kind(IntEnum):
    """The kind of an entry."""

    TAKE = 1
    CHANGES = 2
    """A commit, or the last part of one."""
    PART = 3
    """A part of a commit; more follow."""
    HEARTBEAT = 4
    RESIGNATION = 5
    """The leader writes nothing more. The body names the node that it hands over to, or is
    empty."""


_RECORD_HEADS: Final = tuple(MAGIC + bytes([each]) for each in range(FIRST_VERSION, VERSION + 1))
_RECORDS: Final = frozenset(Kind) - {Kind.TAKE}


class EntryCorrupt(ValueError):
    """Not an entry of this protocol."""


class UnknownVersion(ValueError):
    """An entry of a later version of this protocol."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the chain."""

    kind: Kind
    epoch: int
    number: int
    before: int
    """The checksum of the preceding record."""
    stored: int
    """The leader had receipts up to this number when it made this record, so all of those precede
    it."""
    stamp_ms: int
    """The leader's clock."""
    take_place: Place
    """The place of its epoch's TAKE."""
    body: bytes
    checksum: int
    """Its own checksum; covers that of the preceding record, and so of all before it."""

    @property
    def link(self) -> Link:
        """The link that the next record follows."""
        return Link(self.number, self.checksum)

    @property
    def is_resignation(self) -> bool:
        """Whether its leader writes nothing more."""
        return self.kind is Kind.RESIGNATION

    @property
    def successor(self) -> str:
        """The successor named in a resignation; empty: whichever node is active."""
        return self.body.decode(errors="replace") if self.is_resignation else ""


def encode_take(take: Take, version: int = VERSION) -> bytes:
    """Return the entry of a TAKE."""
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
    """Return the entry of the record after ``before``, and its own link."""
    number = before.number + 1
    head = RECORD.pack(epoch, number, before.checksum, stored, stamp_ms, *take_place)
    data, checksum = _sealed(kind, head + body, version)
    return data, Link(number, checksum)


def parse_entry(data: bytes) -> Take | Record:
    """Parse an entry. Raises :class:`EntryCorrupt`, :class:`UnknownVersion`."""
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
    """Whether its head is that of a record of a readable version; a damaged record also counts as
    one."""
    return data.startswith(_RECORD_HEADS) and len(data) > KIND_AT and data[KIND_AT] in _RECORDS


def history_in(data: bytes) -> str | None:
    """Return the history an entry belongs to, if it says so; None also for anything not of this
    protocol."""
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
