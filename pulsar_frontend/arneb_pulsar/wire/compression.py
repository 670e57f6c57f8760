"""The four compressions of Pulsar payloads.

Brokers store payloads as they come; only the codec looks inside. Three compressions come from
cramjam, one wheel without dependencies, instead of three packages (lz4, zstandard, python-snappy),
of which the last needs a system library; ZLIB is Python's own, which reads what Java's client
writes: a stream that is flushed and never finished. The output must have the size that the metadata
states, so a payload that expands further is refused before it can fill the memory.
"""

import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

UNCOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Pulsar bounds the compressed size only; 128 MiB is 25 times the largest message."""

Fill = Callable[[bytes, bytearray], int]


def _fill_from_zlib(data: bytes, buffer: bytearray) -> int:
    # One byte more than there is room for shows that there is more. Java's client ends with a
    # flush (Deflater.SYNC_FLUSH): no last block, and no checksum after it.
    found = zlib.decompressobj().decompress(data, len(buffer) + 1)
    if len(found) <= len(buffer):
        buffer[: len(found)] = found
    return len(found)


FILLS: Final[dict[int, tuple[str, Fill]]] = {
    pb.LZ4: ("LZ4", cramjam.lz4.decompress_block_into),
    pb.ZLIB: ("ZLIB", _fill_from_zlib),
    pb.ZSTD: ("ZSTD", cramjam.zstd.decompress_into),
    pb.SNAPPY: ("SNAPPY", cramjam.snappy.decompress_raw_into),
}


def decompress(data: bytes, compression: int, size: int) -> bytes:
    """Return ``data`` as it was before compression, which must be ``size`` bytes.

    Raises :class:`PayloadError` for an unknown compression, a damaged payload or another size.
    """
    if compression == pb.NONE:
        return data
    if compression not in FILLS:
        raise PayloadError(f"expected a known compression, got {compression}")
    name, fill = FILLS[compression]
    if size > UNCOMPRESSED_BYTES_MAX:
        raise PayloadError(f"expected at most {UNCOMPRESSED_BYTES_MAX} bytes, got {size}")
    buffer = bytearray(size)
    try:
        filled = fill(data, buffer)
    except (cramjam.DecompressionError, zlib.error, ValueError, OverflowError) as error:
        raise PayloadError(f"expected {size} bytes of {name}: {error}") from error
    if filled != size:
        raise PayloadError(f"expected {size} bytes of {name}, got {filled}")
    return bytes(buffer)
