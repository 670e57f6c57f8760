"""Varints, by protobuf's own reading."""

import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.wire.varint import read_varint, varint, varints


@given(st.integers(0, (1 << 64) - 1))
def test_a_varint_is_protobufs(number: int) -> None:
    assert varint(number) == _VarintBytes(number)
    assert read_varint(varint(number), 0) == (number, len(varint(number)))


@given(st.integers(-(1 << 63), -1))
def test_negative_numbers_take_ten_bytes(number: int) -> None:
    assert len(varint(number)) == 10
    assert read_varint(varint(number), 0)[0] == number + (1 << 64)


@given(st.integers(0, 1 << 40), st.integers(0, 400))
def test_a_run_is_made_of_its_numbers(first: int, count: int) -> None:
    assert varints(first, count) == [varint(number) for number in range(first, first + count)]


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3))
def test_reading_stops_behind_the_number(number: int, behind: bytes) -> None:
    data = varint(number)
    assert read_varint(data + behind, 0) == (number, len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\x80" * 11])
def test_a_number_without_an_end_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="varint"):
        read_varint(data, 0)
