"""Batches and compression: taken apart exactly, or refused."""

import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import TEXT, mutated

from arneb_pulsar.wire.batch import join_batch, split_batch
from arneb_pulsar.wire.compression import UNCOMPRESSED_BYTES_MAX, decompress
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto.pulsar_pb2 import CompressionType, SingleMessageMetadata

COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    CompressionType.LZ4: lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)),
    CompressionType.ZLIB: zlib.compress,
    CompressionType.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
    CompressionType.SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
}

Single = tuple[SingleMessageMetadata, bytes]


def single(properties: dict[str, str], payload: bytes) -> Single:
    metadata = SingleMessageMetadata(payload_size=0)
    for key, value in properties.items():
        metadata.properties.add(key=key, value=value)
    return metadata, payload


BATCHES = st.lists(
    st.builds(single, st.dictionaries(TEXT, TEXT, max_size=2), st.binary(max_size=30)),
    min_size=1,
    max_size=6,
)


@given(BATCHES)
def test_a_batch_comes_apart_as_it_was_put_together(messages: list[Single]) -> None:
    assert split_batch(join_batch(messages), len(messages)) == messages


@given(BATCHES, st.integers(-2, 2).filter(bool))
def test_a_batch_of_another_count_is_refused(messages: list[Single], more: int) -> None:
    count = max(0, len(messages) + more)
    with pytest.raises(PayloadError):
        split_batch(join_batch(messages), count)


@given(BATCHES)
def test_a_batch_cut_short_or_too_long_is_refused(messages: list[Single]) -> None:
    data = join_batch(messages)
    for size in range(len(data)):
        with pytest.raises(PayloadError):
            split_batch(data[:size], len(messages))
    with pytest.raises(PayloadError):
        split_batch(data + b"\0", len(messages))


@given(BATCHES, st.data())
def test_a_damaged_batch_is_split_or_refused(messages: list[Single], data: st.DataObject) -> None:
    try:
        found = split_batch(data.draw(mutated(join_batch(messages))), len(messages))
    except PayloadError:
        return
    assert len(found) == len(messages)


@pytest.mark.parametrize("compression", COMPRESS)
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=20).map(lambda part: part * 90)))
def test_compressed_bytes_come_back(compression: int, data: bytes) -> None:
    assert decompress(COMPRESS[compression](data), compression, len(data)) == data


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


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(PayloadError, match="at most"):
        decompress(b"", CompressionType.ZLIB, UNCOMPRESSED_BYTES_MAX + 1)
    with pytest.raises(PayloadError):
        decompress(zlib.compress(bytes(10_000_000)), CompressionType.ZLIB, 1000)


def test_an_unknown_compression_is_refused() -> None:
    assert decompress(b"as it is", CompressionType.NONE, 0) == b"as it is"
    with pytest.raises(PayloadError, match="known"):
        decompress(b"", 99, 0)
