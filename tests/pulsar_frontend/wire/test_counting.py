"""Varints that count up, put into records."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.wire.counting import equally_long, put_counting
from arneb_pulsar.wire.varint import varint

NUMBERS = st.integers(0, (1 << 64) - 1) | st.builds(
    lambda bits, less: max(0, (1 << bits) - less), st.integers(0, 63), st.integers(0, 400)
)
"""Often just below a power of two, where a byte of the varint changes or is added."""


@given(NUMBERS, st.integers(1, 1_000))
def test_equally_long_are_those_before_the_varint_grows(first: int, count: int) -> None:
    size = len(varint(first))
    lengths = [len(varint(number)) for number in range(first, first + count)]
    assert equally_long(first, count) == lengths.count(size)


@given(NUMBERS, st.integers(1, 1_000), st.binary(max_size=5), st.binary(max_size=5))
def test_each_record_has_its_number(first: int, count: int, before: bytes, behind: bytes) -> None:
    count = equally_long(first, count)
    one = before + bytes(len(varint(first))) + behind
    records = bytearray(one * count)
    put_counting(records, len(before), len(one), first)
    expected = [before + varint(number) + behind for number in range(first, first + count)]
    assert records == b"".join(expected)
