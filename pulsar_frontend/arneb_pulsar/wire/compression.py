"""The four compressions of Pulsar payloads.

Brokers store payloads as they come; only the codec looks inside. All four come from cramjam,
one wheel without dependencies, instead of three packages (lz4, zstandard, python-snappy), of
which the last needs a system library. It writes into a buffer of the size that the metadata
promises, so a payload that grows further is refused before it can fill the memory.
"""

from collections.abc import Callable
from typing import Final

import cramjam

from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

UNCOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Pulsar bounds the compressed size only; 128 MiB is 25 times the largest message."""

Fill = Callable[[bytes, bytearray], int]

FILLS: Final[dict[int, tuple[str, Fill]]] = {
    pb.LZ4: ("LZ4", cramjam.lz4.decompress_block_into),
    pb.ZLIB: ("ZLIB", cramjam.zlib.decompress_into),
    pb.ZSTD: ("ZSTD", cramjam.zstd.decompress_into),
    pb.SNAPPY: ("SNAPPY", cramjam.snappy.decompress_raw_into),
}


def decompress(data: bytes, compression: int, size: int) -> bytes:
    """``data`` as it was before compression, which must be ``size`` bytes.

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
    except (cramjam.DecompressionError, ValueError, OverflowError) as error:
        raise PayloadError(f"expected {size} bytes of {name}: {error}") from error
    if filled != size:
        raise PayloadError(f"expected {size} bytes of {name}, got {filled}")
    return bytes(buffer)
