"""The envelope of a payload: magic, CRC32C, and the metadata after them.

::

    [0x0e01][crc32c u32][metadata size u32][MessageMetadata][payload]
                        `--------- what the checksum covers ---------'

Old clients leave out the first two fields; their payloads are accepted as they are. The whole is
called a *body* here: it is what an entry keeps after its header.
"""

import sys
from struct import Struct
from typing import TYPE_CHECKING, Final

from arneb_pulsar.wire.errors import ChecksumMismatch, PayloadError

# A broker has already loaded the bare extension, without the package around it (the core's
# `api.checksum`); a client has no core.
if TYPE_CHECKING or "crc32c._crc32c" not in sys.modules:
    from crc32c import crc32c
else:
    crc32c = sys.modules["crc32c._crc32c"].crc32c

MAGIC: Final = b"\x0e\x01"

CHECKSUM: Final = Struct(">I")
SIZE: Final = Struct(">I")
COVERED_OFFSET: Final = len(MAGIC) + CHECKSUM.size

VIEW_BYTES_MIN: Final = 4096
"""Bytes from which on a memoryview is cheaper than a copy."""


def verify_body(body: bytes) -> None:
    """Raise :class:`ChecksumMismatch` if the body carries a checksum and it is wrong, and
    :class:`PayloadError` if it is too short for one."""
    if body[:2] != MAGIC:
        return
    if len(body) < COVERED_OFFSET:
        raise PayloadError(f"expected a checksum, got a payload of {len(body)} bytes")
    covered = memoryview(body)[COVERED_OFFSET:] if len(body) > VIEW_BYTES_MIN else body[6:]
    expected = CHECKSUM.unpack_from(body, 2)[0]
    if (found := crc32c(covered)) != expected:
        raise ChecksumMismatch(f"expected CRC32C {expected:08x}, got {found:08x}")


def split_body(body: bytes, offset: int = 0) -> tuple[bytes, int]:
    """Return the metadata's bytes, and where the payload after them begins.

    ``offset`` is where the body begins in the bytes given: an entry is passed whole, so that
    a large payload is not copied. Does not look at the checksum. Raises :class:`PayloadError`.
    """
    if body[offset : offset + 2] == MAGIC:
        offset += COVERED_OFFSET
    start = offset + SIZE.size
    if len(body) < start:
        raise PayloadError(f"expected a metadata size at byte {offset}, got {len(body)} bytes")
    end = start + SIZE.unpack_from(body, offset)[0]
    if end > len(body):
        raise PayloadError(f"expected metadata up to byte {end}, got {len(body)} bytes")
    return body[start:end], end


def metadata_bytes(body: bytes) -> int:
    """Return the size of the metadata in a body made by :func:`join_body`."""
    size: int = SIZE.unpack_from(body, COVERED_OFFSET)[0]
    return size


def without_checksum(body: bytes) -> bytes:
    """Return the body as old clients send and read it."""
    return body[COVERED_OFFSET:] if body[:2] == MAGIC else body


def join_body(metadata: bytes, payload: bytes) -> bytes:
    """Make a body of metadata and payload, with a checksum."""
    covered = SIZE.pack(len(metadata)) + metadata + payload
    return MAGIC + CHECKSUM.pack(crc32c(covered)) + covered
