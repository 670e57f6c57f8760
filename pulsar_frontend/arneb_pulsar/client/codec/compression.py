"""Compression of payloads, with any of Pulsar's four methods.

The rule: the output is what the official clients' libraries read: LZ4 as one block without its
size, Snappy without frames, ZSTD and zlib as they are. It is decompressed by
:func:`arneb_pulsar.wire.compression.decompress`, which brokers use as well.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

import cramjam

from arneb_pulsar.wire.proto import pulsar_pb2 as pb

ZSTD_LEVEL: Final = 3
"""The compression level: the library's default, and Java's."""


class Compression(Enum):
    """The methods, by their numbers in the protocol."""

    NONE = pb.NONE
    LZ4 = pb.LZ4
    ZLIB = pb.ZLIB
    ZSTD = pb.ZSTD
    SNAPPY = pb.SNAPPY


def compress(data: bytes, compression: Compression) -> bytes:
    """Return ``data`` compressed; its original size must be sent beside it."""
    return _COMPRESS[compression](data)


def _lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def _zlib(data: bytes) -> bytes:
    return bytes(cramjam.zlib.compress(data))


def _zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL))


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


_COMPRESS: Final[dict[Compression, Callable[[bytes], bytes]]] = {
    Compression.NONE: bytes,
    Compression.LZ4: _lz4,
    Compression.ZLIB: _zlib,
    Compression.ZSTD: _zstd,
    Compression.SNAPPY: _snappy,
}
