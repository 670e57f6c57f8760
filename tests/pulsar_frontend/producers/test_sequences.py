"""How far producers have got, and who is forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.producers.sequences import (
    NEVER,
    PRODUCERS_MAX,
    REMEMBERED_S,
    Reach,
    Sequences,
)


@given(highest=st.integers(-1, (1 << 64) - 1), used_ms=st.integers(0, 1 << 50))
def test_a_reach_comes_back_as_it_was_kept(highest: int, used_ms: int) -> None:
    reach = Reach(highest, used_ms)
    assert Reach.unpack(reach.pack()) == reach


def test_those_away_for_long_are_outdated() -> None:
    sequences = Sequences()
    assert sequences.highest("a") == NEVER
    for now, name in enumerate("abca"):
        sequences.stored(name, Reach(5, now), now)
    assert sequences.highest("a") == 5
    late = REMEMBERED_S + 2
    assert list(sequences.outdated((), late)) == ["b", "c"]
    assert list(sequences.outdated("b", late)) == ["c"]
    assert not list(sequences.outdated("", REMEMBERED_S))
    sequences.forget("b")
    assert sequences.highest("b") == NEVER and list(sequences.outdated((), late)) == ["c"]


def test_setting_the_clock_makes_no_producer_outdated() -> None:
    """They were used by a clock that said 1970, before a start and after it."""
    sequences = Sequences({"before": Reach(5, 1)}, since=100.0)
    sequences.stored("after", Reach(5, 2), 110.0)
    assert not list(sequences.outdated((), 120.0))
    assert list(sequences.outdated((), 105.0 + REMEMBERED_S)) == ["before"]


def test_there_are_only_so_many() -> None:
    sequences = Sequences({str(number): Reach(0, 1) for number in range(PRODUCERS_MAX + 2)})
    assert list(sequences.outdated(("0",), 1)) == ["1", "2"]
