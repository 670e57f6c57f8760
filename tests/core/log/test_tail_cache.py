"""The tail cache against a plain dict of positions."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from arneb_core.log.tail_cache import CacheBudget, TailCache

START = position_at(1, 0)
RUNS = st.lists(st.integers(1, 5), min_size=1, max_size=12)


def fill(cache: TailCache, sizes: list[int]) -> dict[int, bytes]:
    """Append runs of these lengths, ten bytes an entry; the model of it."""
    model: dict[int, bytes] = {}
    position = START
    for size in sizes:
        entries = [b"%010d" % (position + index) for index in range(size)]
        cache.append(position, entries, 10 * size)
        model.update({position + index: entry for index, entry in enumerate(entries)})
        position = Position(position + size)
    return model


@given(RUNS, st.integers(0, 60), st.integers(1, 10))
def test_read_gives_what_was_appended(sizes: list[int], offset: int, limit: int) -> None:
    cache = TailCache(CacheBudget())
    model = fill(cache, sizes)
    position = Position(START + offset)
    found = cache.read(position, limit)
    if position not in model:
        assert found is None
    else:
        assert found is not None and found[0] == position and 1 <= len(found[1]) <= limit
        assert found[1] == [model[position + index] for index in range(len(found[1]))]


@given(RUNS, st.integers(-1, 60))
def test_drop_through_keeps_every_run_with_a_later_entry(sizes: list[int], offset: int) -> None:
    budget = CacheBudget()
    cache = TailCache(budget)
    model = fill(cache, sizes)
    through = Position(START + offset)
    cache.drop_through(through)
    for position in model:
        if position > through:
            assert cache.read(Position(position), 1) == (position, [model[position]])
    assert budget.bytes <= 10 * len(model)
    cache.clear()
    assert budget.bytes == 0 and not cache


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=40))
def test_the_budget_bounds_all_caches_together(program: list[tuple[int, int]]) -> None:
    budget = CacheBudget(bytes_max=100)
    caches = [TailCache(budget) for _ in range(3)]
    ends = [START] * 3
    for index, size in program:
        entries = [b"%010d" % (ends[index] + each) for each in range(size)]
        caches[index].append(ends[index], entries, 10 * size)
        ends[index] = Position(ends[index] + size)
        assert budget.bytes <= 100
        assert caches[index].read(Position(ends[index] - 1), 1) is not None, "the newest stays"
