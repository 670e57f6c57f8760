"""Commit records: what was written comes back, and nothing else is taken for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.format.block import BLOCK_BYTES_MAX
from arneb_core.store.format.bodies import SHARED_BYTES_MIN, encode_runs
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import (
    HEADER_BYTES,
    MAGIC,
    RecordCorrupt,
    encode_changes,
    encode_record,
    merged_blocks,
    parse_record,
    rows_in,
    seal,
)
from arneb_core.store.format.schema import TABLE_NUMBERS, Table, TopicId

TOPICS = st.integers(1, 3).map(TopicId)
PLACES = st.builds(position_at, st.integers(1, 3), st.integers(0, 50))
RUNS = st.lists(
    st.tuples(TOPICS, PLACES, st.lists(st.binary(max_size=40), min_size=1, max_size=3)),
    max_size=5,
    unique_by=lambda run: run[:2],
)
TABLES = st.sampled_from(Table)
KEYS = st.tuples(TABLES, st.binary(min_size=1, max_size=20))
PUTS = st.tuples(TABLES, st.binary(min_size=1, max_size=20), st.none() | st.binary(max_size=30))
CHANGES = st.builds(
    Changes,
    RUNS,
    puts=st.lists(PUTS, max_size=4),
    deletes=st.lists(KEYS, max_size=3),
    prefixes=st.lists(KEYS, max_size=3),
    trims=st.lists(st.tuples(TOPICS, PLACES, PLACES), max_size=3),
)
NUMBERS = st.integers(0, (1 << 64) - 1)
SUMS = st.integers(0, (1 << 32) - 1)


def whole(changes: Changes) -> tuple:
    """What of changes must come back; runs may have been cut."""
    return (
        merged_blocks([changes]),
        changes.puts,
        changes.deletes,
        changes.prefixes,
        changes.trims,
    )


@given(CHANGES, NUMBERS, NUMBERS, SUMS, SUMS, st.binary(max_size=70))
def test_what_was_written_comes_back(
    changes: Changes, epoch: int, number: int, before: int, salt: int, around: bytes
) -> None:
    data, checksum = encode_record(epoch, number, before, changes, salt)
    found = parse_record(around + data + around, len(around), salt)
    assert found is not None
    record, end = found
    assert (record.epoch, record.number, record.before) == (epoch, number, before)
    assert record.checksum == checksum
    assert end == len(around) + len(data)
    assert whole(record.changes) == whole(changes)


@given(CHANGES)
def test_rows_are_counted_without_a_look_at_them(changes: Changes) -> None:
    rows = (changes.puts, changes.deletes, changes.prefixes, changes.trims)
    assert rows_in(encode_changes(changes)) == sum(map(len, rows))


@pytest.mark.parametrize("size", [0, 23])
def test_bytes_that_have_no_counts_are_said(size: int) -> None:
    with pytest.raises(RecordCorrupt, match=f"expected six counts, got {size} bytes"):
        rows_in(bytes(size))


@given(CHANGES, st.data())
def test_no_changed_byte_goes_unnoticed(changes: Changes, data: st.DataObject) -> None:
    record = bytes(encode_record(1, 2, 3, changes, 4)[0])
    at = data.draw(st.integers(0, len(record) - 1))
    flipped = bytes([record[at] ^ data.draw(st.integers(1, 255))])
    assert parse_record(record[:at] + flipped + record[at + 1 :], 0, 4) is None
    assert parse_record(record[:at], 0, 4) is None


@given(CHANGES, SUMS, SUMS)
def test_a_record_with_another_salt_is_none(changes: Changes, salt: int, other: int) -> None:
    data, _ = encode_record(1, 2, 3, changes, salt)
    assert (parse_record(bytes(data), 0, other) is None) == (salt != other)


@pytest.mark.parametrize("size", [SHARED_BYTES_MIN, BLOCK_BYTES_MAX + 1])
def test_what_was_to_be_kept_once_still_is(size: int) -> None:
    shared, own = bytes(size), b"own" * size
    runs = [(TopicId(topic), position_at(1, 0), [shared, own]) for topic in (1, 2)]
    data, _ = encode_record(1, 1, 0, Changes(runs, shared=[shared]))
    assert len(data) < 2 * (len(own) + size)
    found = parse_record(bytes(data))
    assert found is not None
    changes = found[0].changes
    assert whole(changes) == whole(Changes(runs))
    assert changes.shared == [shared]
    copies = [run[0] for _, _, run in merged_blocks([changes])]
    assert copies[0] is copies[1] is changes.shared[0]
    again, first = (
        encode_runs(runs_of, keep).bodies
        for runs_of, keep in ((changes.blocks, changes.shared), (runs, [shared]))
    )
    assert again.keys() == first.keys()


def test_a_long_run_comes_back() -> None:
    entries = [bytes([index % 251]) * 5_000 for index in range(200)]
    data, _ = encode_record(1, 1, 0, Changes([(TopicId(1), position_at(1, 7), entries)]))
    found = parse_record(bytes(data))
    assert found is not None
    assert merged_blocks([found[0].changes]) == [(TopicId(1), position_at(1, 7), entries)]


def test_every_table_has_a_number_of_its_own() -> None:
    assert TABLE_NUMBERS.keys() == set(Table)
    assert len(set(TABLE_NUMBERS.values())) == len(Table)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" * 23,
        b"\0" * 24,
        b"\0\0\0\1" * 6,
        b"\0" * 31 + b"\2",
        b"\0" * 31 + b"\1more",
        b"\0" * 11 + b"\1" * 60,
    ],
)
def test_a_whole_record_that_holds_no_commit_is_said(body: bytes) -> None:
    with pytest.raises(RecordCorrupt):
        parse_record(bytes(seal(MAGIC, 1, 1, 0, body, 0)[0]))


@given(st.lists(RUNS.map(Changes), max_size=4))
def test_merging_keeps_every_entry_in_its_place(commits: list[Changes]) -> None:
    def positions(runs: list) -> list:
        return sorted(
            (topic, Position(first + index), body)
            for topic, first, entries in runs
            for index, body in enumerate(entries)
        )

    apart = [run for changes in commits for run in changes.blocks]
    assert positions(merged_blocks(commits)) == positions(apart)


def test_the_header_is_what_the_table_says() -> None:
    data, checksum = encode_record(0x1122, 0x3344, 0x5566, Changes())
    assert data[:4] == MAGIC
    assert int.from_bytes(data[4:8], "big") == checksum
    assert int.from_bytes(data[8:16], "big") == 0x1122
    assert int.from_bytes(data[16:24], "big") == 0x3344
    assert int.from_bytes(data[24:28], "big") == 0x5566
    assert int.from_bytes(data[28:32], "big") == len(data) - HEADER_BYTES == 24 + 8
    assert int.from_bytes(data[-8:], "big") == 0x3344
