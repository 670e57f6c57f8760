"""A record in blocks of its own: the fast layout makes the same bytes as the plain one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import position_at
from arneb_core.store.format.block import BLOCK_BYTES_MAX
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import MAGIC_WITH_STAMP, parse_record, stamp_in
from arneb_core.store.format.schema import Table, TopicId
from arneb_core.store.journal.record import (
    BLOCK_BYTES,
    FEW_ENTRIES,
    end_of_block,
    in_blocks,
    in_blocks_plainly,
    stamps_of,
)
from arneb_core.store.journal.slots import SECTOR_BYTES, SLOT_BYTES, in_slots

ENTRIES = st.lists(st.binary(max_size=700), min_size=1, max_size=FEW_ENTRIES + 2)
RUNS = st.tuples(
    st.integers(1, (1 << 32) - 1).map(TopicId),
    st.builds(position_at, st.integers(1, 1 << 30), st.integers(0, 1000)),
    ENTRIES,
)
NUMBERS = st.integers(0, (1 << 64) - 2)
SUMS = st.integers(0, (1 << 32) - 1)
SLOTS = st.integers(0, 64).map(lambda slots: slots * SLOT_BYTES)
BLOCKS = st.integers(0, 64).map(lambda number: number * BLOCK_BYTES)


def stamp_at(offset: int) -> bytes:
    """Of a file whose blocks begin with where they stand."""
    assert offset % BLOCK_BYTES == 0
    return offset.to_bytes(8, "big")


@given(NUMBERS, NUMBERS, SUMS, SUMS, RUNS, BLOCKS)
def test_a_run_is_laid_out_as_the_plain_way_does(
    epoch: int, number: int, before: int, salt: int, run: tuple, offset: int
) -> None:
    position = (epoch, number, before, salt, Changes([run]), offset, stamp_at)
    made, checksum = in_blocks(*position)
    assert (bytes(made), checksum) == in_blocks_plainly(*position)


@pytest.mark.parametrize("more", [0, 1])
def test_few_entries_that_are_two_blocks_are_laid_out_in_the_plain_way(more: int) -> None:
    run = (TopicId(1), position_at(1, 0), [bytes(BLOCK_BYTES_MAX // 2 + more)] * 2)
    position = (1, 2, 3, 4, Changes([run]), 0, stamp_at)
    made, checksum = in_blocks(*position)
    assert (bytes(made), checksum) == in_blocks_plainly(*position)


@given(NUMBERS, NUMBERS, SUMS, SUMS, RUNS, st.booleans(), BLOCKS)
def test_a_whole_record_says_what_followed_it(
    epoch: int, number: int, before: int, salt: int, run: tuple, is_plain: bool, offset: int
) -> None:
    puts = [] if is_plain else [(Table.META, b"key", b"value")]
    changes = Changes([run], puts=puts)
    made, checksum = in_blocks(epoch, number, before, salt, changes, offset, stamp_at)
    found = parse_record(bytes(made), 0, salt, MAGIC_WITH_STAMP)
    assert found is not None
    record, length = found
    assert (record.changes.blocks, record.checksum) == ([run], checksum)
    assert record.changes.puts == puts
    assert length == len(made)
    behind = end_of_block(offset + length)
    assert 0 <= behind - offset - length < BLOCK_BYTES
    assert stamp_in(made, length) == stamp_at(behind)
    assert parse_record(bytes(made), 0, salt) is None  # nobody takes it for one without


@given(NUMBERS, NUMBERS, SUMS, SUMS, RUNS, SLOTS)
def test_a_whole_record_of_the_layout_before_has_its_mark_in_its_last_sector(
    epoch: int, number: int, before: int, salt: int, run: tuple, offset: int
) -> None:
    made, checksum = in_slots(epoch, number, before, salt, Changes([run]), offset)
    end = offset + len(made) - SLOT_BYTES
    assert end % SLOT_BYTES == 0
    assert end % SECTOR_BYTES
    assert (end - 1) // SECTOR_BYTES == (end + SLOT_BYTES - 1) // SECTOR_BYTES
    found = parse_record(bytes(made), 0, salt)
    assert found is not None
    record, length = found
    assert (record.changes.blocks, record.checksum) == ([run], checksum)
    assert length == len(made) - SLOT_BYTES


def test_no_record_of_the_layout_before_ends_where_a_sector_does() -> None:
    run = (TopicId(1), position_at(1, 0))
    ends = [
        len(in_slots(1, 2, 3, 4, Changes([(*run, [bytes(size)])]), 0)[0]) - SLOT_BYTES
        for size in range(0, 1_100, 8)
    ]
    assert all(end % SECTOR_BYTES for end in ends)
    assert len(ends) - len(set(ends)) > 60  # there is one for each slot


@given(st.lists(st.binary(min_size=8, max_size=8), min_size=1, max_size=9))
def test_the_stamps_of_blocks_are_what_they_begin_with(stamps: list[bytes]) -> None:
    data = b"".join(each.ljust(BLOCK_BYTES, b"-") for each in stamps)
    assert stamps_of(data) == b"".join(stamps)
