"""The four compressions of Pulsar payloads.

Brokers store payloads as they come; only the codec looks inside. Three compressions come from
cramjam, one wheel without dependencies, instead of three packages (lz4, zstandard, python-snappy),
of which the last needs a system library; ZLIB is Python's own, which reads what Java's client
writes: a stream that is flushed and never finished. The output must have the size that the metadata
states, so a payload that expands further is refused before it can fill the memory.
"""

import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

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


NAMES: Final[Mapping[int, str]] = {
    each: pb.CompressionType.Name(each) for each in (pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY)
}


@cache
def _fills() -> tuple[Mapping[int, Fill], type[Exception]]:
    """Return what decompresses, and what cramjam raises. It is imported for the first compressed
    payload: a broker that never looks into one saves 2 MiB."""
    import cramjam

    fills: dict[int, Fill] = {
        pb.LZ4: cramjam.lz4.decompress_block_into,
        pb.ZLIB: _fill_from_zlib,
        pb.ZSTD: cramjam.zstd.decompress_into,
        pb.SNAPPY: cramjam.snappy.decompress_raw_into,
    }
    return fills, cramjam.DecompressionError


def decompress(data: bytes, compression: int, size: int) -> bytes:
    """Return ``data`` as it was before compression, which must be ``size`` bytes.

    Raises :class:`PayloadError` for an unknown compression, a damaged payload or another size.
    """
    if compression == pb.NONE:
        return data
    if compression not in NAMES:
        raise PayloadError(f"expected a known compression, got {compression}")
    name, (fills, error_type) = NAMES[compression], _fills()
    if size > UNCOMPRESSED_BYTES_MAX:
        raise PayloadError(f"expected at most {UNCOMPRESSED_BYTES_MAX} bytes, got {size}")
    buffer = bytearray(size)
    try:
        filled = fills[compression](data, buffer)
    except (error_type, zlib.error, ValueError, OverflowError) as error:
        raise PayloadError(f"expected {size} bytes of {name}: {error}") from error
    if filled != size:
        raise PayloadError(f"expected {size} bytes of {name}, got {filled}")
    return bytes(buffer)
