"""Varints, by protobuf's own writing."""

from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.wire.varint import PAGED, scattered_varints, six_bytes_varint, varint, varints


@given(st.integers(0, (1 << 64) - 1))
def test_a_varint_is_protobufs(number: int) -> None:
    assert varint(number) == _VarintBytes(number)


@given(st.integers(-(1 << 63), -1))
def test_negative_numbers_take_ten_bytes(number: int) -> None:
    assert varint(number) == _VarintBytes(number + (1 << 64))
    assert len(varint(number)) == 10


@given(st.integers(0, 1 << 40), st.integers(0, 400))
def test_a_run_is_made_of_its_numbers(first: int, count: int) -> None:
    assert varints(first, count) == [varint(number) for number in range(first, first + count)]


@given(st.lists(st.one_of(st.integers(0, PAGED + 200), st.integers(0, 1 << 40)), min_size=1))
def test_scattered_ones_are_made_one_by_one(numbers: list[int]) -> None:
    assert scattered_varints(numbers) == list(map(varint, numbers))


def test_every_page_begins_as_it_should() -> None:
    numbers = [page + low for page in range(0, PAGED, 128) for low in (0, 127)]
    assert scattered_varints(numbers) == list(map(varint, numbers))


@given(st.integers(1 << 35, (1 << 42) - 1))
def test_a_varint_of_six_bytes_is_read(number: int) -> None:
    assert len(varint(number)) == 6
    assert six_bytes_varint(varint(number)) == number
