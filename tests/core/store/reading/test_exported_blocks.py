"""Blocks handed out as they are stored: all that hold something of what is asked for, no others."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.environment import Store
from arneb_core.store.format.block import decode_block
from arneb_core.store.format.changes import Changes
from arneb_core.store.reading.exported_blocks import export_blocks
from arneb_core.testing.store_kit import StoreModel, TopicModel, entry


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, TopicModel]]:
    """Four ledgers of blocks of uneven sizes, of which the first is not there any more."""
    with Store.open(tmp_path_factory.mktemp("trimmed") / "data") as store:
        model, changes = StoreModel(), Changes()
        model.create_topic(changes, "t")
        for ledger in range(4):
            for size in (1, 4, 2):
                model.append(changes, "t", [entry(b"%d" % ledger) for _ in range(size)])
                store.commit(changes)
                changes = Changes()
            model.close_ledger(changes, "t")
        model.drop_ledger(changes, "t")
        store.commit(changes)
        yield store, model.topics["t"]


PLACES = st.builds(position_at, st.integers(1, 5), st.integers(0, 8))


@given(bounds=st.tuples(PLACES, PLACES).map(sorted), bytes_max=st.integers(1, 2_000))
def test_what_is_handed_out_holds_something_of_what_is_asked_for(
    trimmed: tuple[Store, TopicModel], bounds: list[Position], bytes_max: int
) -> None:
    store, topic = trimmed
    first, last = bounds
    with store.snapshot() as snapshot:
        found = export_blocks(snapshot, topic.id, first, last, bytes_max)
    asked = {
        position: each for position, each in topic.entries().items() if first <= position <= last
    }
    given_out: dict[Position, bytes] = {}
    for end, block in found.blocks:
        start, entries = decode_block(block, snapshot.find_body)
        inside = [Position(start + index) for index in range(len(entries))]
        assert inside[-1] == end
        assert any(first <= position <= last for position in inside), (
            "a block outside the requested positions was read"
        )
        given_out |= dict(zip(inside, entries, strict=True))
    looked_at = {position: each for position, each in asked.items() if position < found.next}
    assert {position: given_out[position] for position in looked_at} == looked_at
    assert looked_at or not asked, "existing blocks were not looked at"


def test_nothing_is_handed_out_of_what_has_been_trimmed(trimmed: tuple[Store, TopicModel]) -> None:
    store, topic = trimmed
    first, last = position_at(1, 0), position_at(1, 6)
    with store.snapshot() as snapshot:
        found = export_blocks(snapshot, topic.id, first, last, 1 << 20)
    assert (found.blocks, found.next) == ([], last + 1)
