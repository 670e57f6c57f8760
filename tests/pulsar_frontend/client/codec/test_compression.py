"""Compression and back, with what could not have come from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.client.codec.compression import Compression, compress
from arneb_pulsar.wire.compression import decompress
from arneb_pulsar.wire.errors import PayloadError

PAYLOADS = st.binary() | st.binary(min_size=1, max_size=20).map(lambda piece: piece * 500)


@given(PAYLOADS, st.sampled_from(Compression))
def test_what_was_compressed_comes_back(payload: bytes, compression: Compression) -> None:
    assert decompress(compress(payload, compression), compression.value, len(payload)) == payload


@pytest.mark.parametrize("compression", [each for each in Compression if each.value])
def test_what_repeats_becomes_small(compression: Compression) -> None:
    assert len(compress(b"hare" * 10_000, compression)) < 2_500


@given(PAYLOADS.filter(bool), st.sampled_from([each for each in Compression if each.value]))
def test_a_payload_larger_than_it_says_is_refused(payload: bytes, compression: Compression) -> None:
    with pytest.raises(PayloadError, match=compression.name):
        decompress(compress(payload, compression), compression.value, len(payload) - 1)


@given(PAYLOADS, st.sampled_from([each for each in Compression if each.value]), st.data())
def test_damage_is_an_error_or_another_payload_of_that_size(
    payload: bytes, compression: Compression, data: st.DataObject
) -> None:
    damaged = bytearray(compress(payload, compression))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        found = decompress(bytes(damaged), compression.value, len(payload))
    except PayloadError:
        return
    assert len(found) == len(payload)
