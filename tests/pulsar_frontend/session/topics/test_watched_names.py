"""Watched names: as a sorted list would have them, at a cost that hardly grows with it."""

from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_pulsar.session.topics import watched_names as module
from arneb_pulsar.session.topics.lookup import hash_of_topics
from arneb_pulsar.session.topics.watched_names import BLOCK_NAMES, WatchedNames

NAMES = st.text("ab,é", max_size=4)


@given(st.lists(NAMES, unique=True), st.lists(st.tuples(NAMES, st.booleans())))
def test_they_are_as_a_set_says(first: list[str], changes: list[tuple[str, bool]]) -> None:
    before, module.BLOCK_NAMES = module.BLOCK_NAMES, 2  # type: ignore[misc]
    try:
        names, model = WatchedNames(first), set(first)
        for name, came in changes:
            assert names.change(name, came=came) is (came is not (name in model))
            (model.add if came else model.discard)(name)
            assert [*names] == sorted(model)
            assert len(names) == len(model)
            assert names.hash() == hash_of_topics(model)
    finally:
        module.BLOCK_NAMES = before  # type: ignore[misc]


def test_one_name_more_costs_a_block_and_a_checksum_of_each() -> None:
    count = 100 * BLOCK_NAMES
    names = WatchedNames(f"persistent://public/default/{number:06}" for number in range(count))
    joined = [block.text for block in names._blocks]

    def change() -> None:
        assert names.change("persistent://public/default/000500x", came=True)
        assert names.hash()

    assert calls_of(change) < 100 * 3 + 50
    assert sum(block.text not in joined for block in names._blocks) == 1
