"""Bundles: every topic is in one of them, however they were split."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.namespaces import bundles

COUNTS = st.integers(1, bundles.BUNDLES_MAX)


@given(count=COUNTS, topic=st.text(max_size=20), splits=st.lists(st.integers(0, 99), max_size=8))
def test_every_topic_is_in_one_bundle(count: int, topic: str, splits: list[int]) -> None:
    boundaries = bundles.evenly(count)
    for which in splits:
        if len(boundaries) > bundles.BUNDLES_MAX:
            break
        index = which % (len(boundaries) - 1)
        with_one_more = bundles.split(boundaries, (boundaries[index], boundaries[index + 1]))
        assert len(with_one_more) == len(boundaries) + 1
        assert set(boundaries) < set(with_one_more)
        boundaries = with_one_more
    every = list(itertools.pairwise(boundaries))
    assert [each for each in every if bundles.holds(each, topic)] == [
        bundles.bundle_of(boundaries, topic)
    ]
    assert bundles.read_boundaries(bundles.written(boundaries)) == boundaries
    for low, high in every:
        assert bundles.find(boundaries, bundles.named(low, high), "public/default") == (low, high)


def test_hashes_and_names_are_those_of_pulsar() -> None:
    assert bundles.hash_of("persistent://public/c2ns/t") == 452895864
    assert bundles.written(bundles.evenly(4)) == [
        "0x00000000",
        "0x40000000",
        "0x80000000",
        "0xc0000000",
        "0xffffffff",
    ]


@pytest.mark.parametrize(
    "name", ["", "nope", "0x00000000_0xffffffff", "0x00000001_0x40000000", "0x0_0x4"]
)
def test_what_is_no_bundle_is_not_found(name: str) -> None:
    with pytest.raises(bundles.InvalidBundle):
        bundles.find(bundles.evenly(4), name, "public/default")


def test_what_is_too_small_is_not_split() -> None:
    with pytest.raises(bundles.InvalidBundle):
        bundles.split([0, 1, bundles.HIGHEST], (0, 1))


def test_boundaries_are_bounded_as_their_number_is() -> None:
    """Where somebody asks for them: what is kept is read, however many there are."""
    most = bundles.written(bundles.evenly(bundles.BUNDLES_MAX))
    assert len(bundles.read_asked(most)) == bundles.BUNDLES_MAX + 1
    more = sorted([*most, "0x00000001"])
    with pytest.raises(ValueError, match="expected 1 to 4096, got 4097"):
        bundles.read_asked(more)
    with pytest.raises(ValueError, match="expected 1 to 4096, got 4097"):
        bundles.evenly(bundles.BUNDLES_MAX + 1)
    assert len(bundles.read_boundaries(more)) == bundles.BUNDLES_MAX + 2


@pytest.mark.parametrize("document", [None, [], ["0x0"], ["0x1", "0xffffffff"], ["x", "y"]])
def test_boundaries_that_are_none_are_refused(document: object) -> None:
    with pytest.raises(ValueError, match="."):
        bundles.read_boundaries(document)
