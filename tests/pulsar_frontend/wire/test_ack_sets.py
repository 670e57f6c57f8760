"""Ack sets and masks."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.wire.ack_sets import ALL_MESSAGES, done_mask, mask_of, words_of

LARGEST = (1 << 63) - 1


@given(st.integers(0, (1 << 65_536) - 1) | st.integers(0, 1 << 200))
def test_a_mask_survives_its_words(mask: int) -> None:
    words = words_of(mask)
    assert mask_of(words) == mask
    assert not words or words[-1] != 0
    assert done_mask(words) == ALL_MESSAGES & ~mask


def test_the_words_of_a_batch_of_seventy() -> None:
    """Lowest bits first; the sign bit is message 63."""
    assert words_of((1 << 70) - 1) == (-1, 63)
    assert words_of(1 << 63) == (-(1 << 63),)
    assert words_of(0) == ()
    assert mask_of([5]) == 0b101


@given(st.lists(st.integers(-(1 << 63), LARGEST), max_size=1100))
def test_more_words_than_a_batch_can_have_are_left_out(words: list[int]) -> None:
    assert mask_of(words).bit_length() <= 65_536
    assert 0 <= done_mask(words) <= ALL_MESSAGES
