"""Bodies: kept once for all topics of a commit, there until the last block has gone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.format.block import BodyLost
from arneb_core.store.format.bodies import (
    SHARED_BYTES_MIN,
    encode_runs,
    pack_body,
    shared_entries,
    unpack_body,
)
from arneb_core.store.format.changes import Block, Changes
from arneb_core.store.format.schema import BodyKey, Table, TopicId
from arneb_core.testing.store_kit import StoreModel, assert_holds, entry

KEY = BodyKey(bytes(12))
BIG = SHARED_BYTES_MIN

pieces = st.lists(st.sampled_from([1, BIG - 1, BIG, 3 * BIG]).map(bytes), min_size=1, max_size=4)


@given(st.binary(max_size=64))
def test_a_body_comes_back_and_a_changed_one_does_not(body: bytes) -> None:
    value = pack_body(body)
    assert unpack_body(KEY, value) == body
    for wrong in (value + b"x", value[:-1], bytes([value[0] ^ 1]) + value[1:], None):
        with pytest.raises(BodyLost):
            unpack_body(KEY, wrong)


@given(st.lists(pieces, max_size=4), st.data())
def test_shared_is_what_is_large_and_the_same_object_in_several_places(
    runs: list[list[bytes]], data: st.DataObject
) -> None:
    for run in runs[1:]:
        if data.draw(st.booleans()):
            run.append(runs[0][0])
    found = shared_entries(runs)
    everything = [id(each) for run in runs for each in run]
    assert len({id(each) for each in found}) == len(found)
    large = {id(each): each for run in runs for each in run if len(each) >= BIG}
    wanted = {number for number in large if everything.count(number) > 1}
    assert {id(each) for each in found} == (wanted if len(runs) > 1 else set())


@given(pieces, st.integers(2, 12), st.integers(0, 3))
def test_a_fan_out_is_written_once_and_counted(
    entries: list[bytes], topics: int, alone: int
) -> None:
    """``alone`` of the runs have equal bytes that are other objects."""
    runs: list[Block] = [(TopicId(n + 1), position_at(1, n), entries) for n in range(topics)]
    copies = [bytes(bytearray(each)) for each in entries]
    runs += [(TopicId(99 + n), position_at(1, 0), copies) for n in range(alone)]
    encoded = encode_runs(runs, shared_entries([run for _, _, run in runs[:topics]]))
    distinct = {id(each): len(each) for each in entries if len(each) >= BIG}
    assert len(encoded.bodies) == len(distinct)
    assert sum(each.references for each in encoded.bodies.values()) == topics * sum(
        len(each) >= BIG for each in entries
    )
    once = encode_runs(runs[topics:], []).size + sum(distinct.values())
    small = sum(len(each) for each in entries if len(each) < BIG)
    overhead = 64 * topics * (len(entries) + 1)
    assert encoded.size <= once + topics * small + overhead


def test_what_is_in_one_place_only_is_no_body() -> None:
    big = bytes(BIG)
    encoded = encode_runs([(TopicId(1), position_at(1, 0), [big])], [big])
    assert encoded.bodies == {}
    assert encoded.blocks == encode_runs([(TopicId(1), position_at(1, 0), [big])], []).blocks


@pytest.fixture
def fan(tmp_path: Path) -> Path:
    """Three topics that share one entry, in ledgers that are closed."""
    model, big = StoreModel(), entry(bytes(100_000))
    with Store.open(tmp_path / "data") as store:
        changes = Changes(shared=[big])
        for name in ("a", "b", "c"):
            model.create_topic(changes, name)
            model.append(changes, name, [big])
        store.commit(changes)
        with store.snapshot() as snapshot:
            assert_holds(snapshot, model)
            assert rows(snapshot) == (1, 1)
        for name in ("a", "b"):
            changes = Changes()
            model.delete_topic(changes, name)
            store.commit(changes)
            with store.snapshot() as snapshot:
                assert_holds(snapshot, model)
                assert rows(snapshot) == (1, 1)
                assert check(snapshot) == []
    return tmp_path / "data"


def rows(snapshot: object) -> tuple[int, int]:
    return snapshot.rows(Table.BODIES), snapshot.rows(Table.REFERENCES)  # type: ignore[attr-defined]


def test_a_body_outlives_the_topic_that_it_is_named_after(fan: Path) -> None:
    assert check(fan) == []
    with Store.open(fan) as store:
        with store.snapshot() as snapshot:
            ((position, [found]),) = snapshot.iter_blocks(TopicId(3))
            assert (position, len(found)) == (position_at(1, 0), 100_040)
        store.commit(Changes(trims=[(TopicId(3), Position(0), position_at(9, 0))]))
        with store.snapshot() as snapshot:
            assert rows(snapshot) == (0, 0)


def test_a_copy_has_the_bodies(fan: Path, tmp_path: Path) -> None:
    with Store.open(fan) as store:
        for compact in (True, False):
            target = tmp_path / str(compact)
            target.mkdir()
            store.copy(target, compact=compact)
            assert check(target) == []


def test_ranges_are_bounded_by_what_they_hold_and_not_by_what_their_blocks_do(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "data") as store:
        model, big = StoreModel(), entry(bytes(100_000))
        for name in ("a", "b"):
            model.create_topic(changes := Changes(), name)
            store.commit(changes)
        for _ in range(5):
            changes = Changes(shared=[big])
            for name in ("a", "b"):
                model.append(changes, name, [big])
            store.commit(changes)
        with store.snapshot() as snapshot:
            found = snapshot.read_blocks(TopicId(1), Position(0), bytes_max=250_000)
            assert len(found) == 3
