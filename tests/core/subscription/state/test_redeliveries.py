"""Redelivery counts against a plain dictionary, and what forgetting costs."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_core.api.entries.position import Position
from arneb_core.subscription.state.redeliveries import CHUNK_BITS, RedeliveryCounts

positions = st.integers(0, 5).flatmap(
    lambda chunk: st.integers(0, 6).map(lambda at: Position((chunk << CHUNK_BITS) + at))
)
lists = st.lists(positions, unique=True, max_size=12)
moves = st.lists(st.tuples(st.sampled_from(["raise", "forget", "through", "put back"]), lists))


@given(moves)
def test_counts_are_those_of_a_plain_dictionary(moves: list[tuple[str, list[Position]]]) -> None:
    counts, plain = RedeliveryCounts(), Counter[Position]()
    for move, positions in moves:
        match move:
            case "raise":
                counts.raise_(positions)
                plain.update(positions)
            case "forget":
                counts.forget(positions)
                plain = Counter({each: n for each, n in plain.items() if each not in positions})
            case "through" if positions:
                counts.forget_through(positions[0])
                plain = Counter({each: n for each, n in plain.items() if each > positions[0]})
            case "put back":
                counts.update(dict.fromkeys(positions, 3))
                plain.update({each: 3 - plain[each] for each in positions})
        assert counts.items() == +plain
        assert bool(counts) == bool(+plain)
        assert counts.of(positions) == {each: plain[each] for each in positions if plain[each]}
        assert all(counts.get(each) == plain[each] for each in positions)


def test_acks_one_by_one_look_only_at_their_neighbours() -> None:
    counts = RedeliveryCounts()
    counts.raise_([Position(at) for at in range(400_000)])
    looked = 0
    for at in range(1000):
        chunks = counts._chunks
        looked = max(looked, len(chunks) + len(chunks[min(chunks)]))
        counts.forget_through(Position(at))
    assert looked < 2 * (1 << CHUNK_BITS)
    assert calls_of(lambda: counts.forget_through(Position(399_000))) < 10_000
    assert len(counts.items()) == 999
    many = RedeliveryCounts()
    many.raise_([Position(at) for at in range(400_000)])
    assert calls_of(lambda: [many.forget_through(Position(at)) for at in range(5)]) < 50
