"""A record with its mark: what is laid out in a hurry is what the plain way makes."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.position import position
from arneb_core.store.changes import Changes
from arneb_core.store.commit_record import parse_record
from arneb_core.store.journal_record import (
    FEW_ENTRIES,
    MARK_BYTES,
    SECTOR_BYTES,
    SLOT_BYTES,
    slotted,
    slotted_plainly,
)
from arneb_core.store.schema import Table, TopicId

ENTRIES = st.lists(st.binary(max_size=700), min_size=1, max_size=FEW_ENTRIES + 2)
RUNS = st.tuples(
    st.integers(1, (1 << 32) - 1).map(TopicId),
    st.builds(position, st.integers(1, 1 << 30), st.integers(0, 1000)),
    ENTRIES,
)
NUMBERS = st.integers(0, (1 << 64) - 2)
SUMS = st.integers(0, (1 << 32) - 1)
OFFSETS = st.integers(0, 64).map(lambda slots: slots * SLOT_BYTES)


@given(NUMBERS, NUMBERS, SUMS, SUMS, RUNS, OFFSETS)
def test_a_run_is_laid_out_as_the_plain_way_does(
    epoch: int, number: int, before: int, salt: int, run: tuple, offset: int
) -> None:
    changes = Changes([run])
    made, checksum = slotted(epoch, number, before, salt, changes, offset)
    assert (bytes(made), checksum) == slotted_plainly(epoch, number, before, salt, changes, offset)


@given(NUMBERS, NUMBERS, SUMS, SUMS, RUNS, st.booleans(), OFFSETS)
def test_a_whole_record_has_its_mark_in_its_last_sector(
    epoch: int, number: int, before: int, salt: int, run: tuple, is_plain: bool, offset: int
) -> None:
    puts = [] if is_plain else [(Table.META, b"key", b"value")]
    changes = Changes([run], puts=puts)
    made, checksum = slotted(epoch, number, before, salt, changes, offset)
    end = offset + len(made) - MARK_BYTES
    assert end % SLOT_BYTES == 0
    assert end % SECTOR_BYTES
    assert (end - 1) // SECTOR_BYTES == (end + MARK_BYTES - 1) // SECTOR_BYTES
    found = parse_record(bytes(made), 0, salt)
    assert found is not None
    record, length = found
    assert (record.changes.blocks, record.checksum) == ([run], checksum)
    assert length == len(made) - MARK_BYTES
