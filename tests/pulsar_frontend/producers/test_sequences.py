"""How far producers have got, and who is forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.producers.sequences import (
    NEVER,
    PRODUCERS_MAX,
    REMEMBERED_MS,
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
    for now_ms, name in enumerate("abca"):
        sequences.stored(name, Reach(5, now_ms))
    assert sequences.highest("a") == 5
    now_ms = REMEMBERED_MS + 2
    assert list(sequences.outdated((), now_ms)) == ["b", "c"]
    assert list(sequences.outdated("b", now_ms)) == ["c"]
    assert not list(sequences.outdated("", REMEMBERED_MS))


def test_there_are_only_so_many() -> None:
    sequences = Sequences({str(number): Reach(0, 1) for number in range(PRODUCERS_MAX + 2)})
    assert list(sequences.outdated(("0",), 1)) == ["1", "2"]
