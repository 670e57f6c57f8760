"""Compressed payloads come back as they were, or are refused."""

import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import mutated

from arneb_pulsar.wire.compression import UNCOMPRESSED_BYTES_MAX, decompress
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto.pulsar_pb2 import CompressionType


def flushed(data: bytes) -> bytes:
    """As Java's client compresses: the stream is flushed and never finished."""
    stream = zlib.compressobj()
    return stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    CompressionType.LZ4: lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)),
    CompressionType.ZLIB: zlib.compress,
    CompressionType.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
    CompressionType.SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
}


@pytest.mark.parametrize("compression", COMPRESS)
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=20).map(lambda part: part * 90)))
def test_compressed_bytes_come_back(compression: int, data: bytes) -> None:
    assert decompress(COMPRESS[compression](data), compression, len(data)) == data


@given(data=st.binary(max_size=300), more=st.integers(-300, 300))
def test_a_zlib_stream_without_an_end_is_read(data: bytes, more: int) -> None:
    compressed, size = flushed(data), max(0, len(data) + more)
    if size == len(data):
        assert decompress(compressed, CompressionType.ZLIB, size) == data
    else:
        with pytest.raises(PayloadError):
            decompress(compressed, CompressionType.ZLIB, size)


@pytest.mark.parametrize("compression", COMPRESS)
@given(data=st.binary(min_size=1, max_size=300), more=st.integers(-300, 300).filter(bool))
def test_another_size_than_promised_is_refused(compression: int, data: bytes, more: int) -> None:
    compressed = COMPRESS[compression](data)
    with pytest.raises(PayloadError):
        decompress(compressed, compression, max(0, len(data) + more))


@pytest.mark.parametrize("compression", COMPRESS)
@given(data=st.binary(max_size=300), draw=st.data())
def test_damaged_bytes_are_refused_or_have_the_size(
    compression: int, data: bytes, draw: st.DataObject
) -> None:
    damaged = draw.draw(mutated(COMPRESS[compression](data)))
    try:
        found = decompress(damaged, compression, len(data))
    except PayloadError:
        return
    assert len(found) == len(data)


def test_a_bomb_is_refused_before_it_is_decompressed() -> None:
    with pytest.raises(PayloadError, match="at most"):
        decompress(b"", CompressionType.ZLIB, UNCOMPRESSED_BYTES_MAX + 1)
    with pytest.raises(PayloadError):
        decompress(zlib.compress(bytes(10_000_000)), CompressionType.ZLIB, 1000)


def test_an_unknown_compression_is_refused() -> None:
    assert decompress(b"as it is", CompressionType.NONE, 0) == b"as it is"
    with pytest.raises(PayloadError, match="known"):
        decompress(b"", 99, 0)
