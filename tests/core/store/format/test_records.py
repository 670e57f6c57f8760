"""Records: what is written is read back, and other bytes are a ValueError and nothing else."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from arneb_core.api.entries.position import Position
from arneb_core.store.format.records import (
    CursorRecord,
    LedgerRecord,
    SubscriptionRecord,
    TopicRecord,
    TrimmedRecord,
    pack_holes,
    pack_mask,
    pack_number,
    pack_trims,
    unpack_holes,
    unpack_mask,
    unpack_number,
    unpack_trims,
)
from arneb_core.store.format.schema import SubscriptionId, TopicId

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
bound = st.integers(-1, 2**63 - 1)
positions = u64.map(Position)
properties = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)

topic_records = st.builds(TopicRecord, u32.map(TopicId), st.booleans(), bound, bound, properties)
subscription_records = st.builds(SubscriptionRecord, u32.map(SubscriptionId), properties)
ledger_records = st.builds(LedgerRecord, u64, u64, u32, u64, u64)
cursor_records = st.builds(CursorRecord, positions, positions)
trimmed_records = st.builds(TrimmedRecord, positions, positions)

RECORDS = (TopicRecord, SubscriptionRecord, LedgerRecord, CursorRecord, TrimmedRecord)
UNPACKERS: tuple[Callable[[bytes], object], ...] = (
    *(record.unpack for record in RECORDS),
    unpack_number,
    unpack_trims,
    unpack_holes,
    unpack_mask,
)


@given(topic_records | subscription_records | ledger_records | cursor_records | trimmed_records)
def test_a_record_is_read_back_as_written(
    record: TopicRecord | SubscriptionRecord | LedgerRecord | CursorRecord | TrimmedRecord,
) -> None:
    assert type(record).unpack(record.pack()) == record


@given(st.sets(st.integers(0, 0xFFFF), min_size=1))
def test_holes_are_read_back(holes: set[int]) -> None:
    assert set(unpack_holes(pack_holes(BitMap(holes)))) == holes


@given(st.integers(0, 2**300))
def test_a_mask_is_read_back(mask: int) -> None:
    assert unpack_mask(pack_mask(mask)) == mask


@given(u32, st.lists(st.tuples(u32.map(TopicId), positions, positions), max_size=4))
def test_numbers_and_trims_are_read_back(
    number: int, trims: list[tuple[TopicId, Position, Position]]
) -> None:
    assert unpack_number(pack_number(number)) == number
    assert unpack_trims(pack_trims(trims)) == trims


@given(st.binary(max_size=64))
def test_random_bytes_are_a_value_error_at_most(value: bytes) -> None:
    for unpack in UNPACKERS:
        with suppress(ValueError):
            unpack(value)


@given(
    st.one_of(topic_records, subscription_records, ledger_records, cursor_records),
    st.data(),
)
def test_mutated_records_are_a_value_error_at_most(
    record: TopicRecord | SubscriptionRecord | LedgerRecord | CursorRecord, data: st.DataObject
) -> None:
    value = bytearray(record.pack())
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(value)))
    for part in (bytes(value), bytes(value[:cut]), bytes(value) + b"}"):
        with suppress(ValueError):
            type(record).unpack(part)


@given(st.binary(min_size=1, max_size=600), st.sets(st.integers(0, 0xFFFF), min_size=1), st.data())
def test_mutated_holes_never_harm_the_process(
    noise: bytes, holes: set[int], data: st.DataObject
) -> None:
    value = bytearray(pack_holes(BitMap(holes)))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at : at + len(noise)] = noise
    for part in (bytes(value), bytes(value[: at + 1])):
        with suppress(ValueError):
            list(unpack_holes(part))


@pytest.mark.parametrize(
    "value",
    [
        b"[]",
        b"{}",
        b"1",
        b'{"id":true,"durable":true,"retention_ms":0,"retention_bytes":0,"properties":{}}',
        b'{"id":1,"durable":1,"retention_ms":0,"retention_bytes":0,"properties":{}}',
        b'{"id":1,"durable":true,"retention_ms":"0","retention_bytes":0,"properties":{}}',
        b'{"id":1,"durable":true,"retention_ms":0,"retention_bytes":0,"properties":[]}',
        b'{"id":1,"durable":true,"retention_ms":0,"retention_bytes":0,"properties":{"a":1}}',
    ],
)
def test_a_topic_record_with_a_wrong_type_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="expected"):
        TopicRecord.unpack(value)


def test_holes_that_are_empty_or_too_high_are_refused() -> None:
    for holes in (BitMap(), BitMap([65536])):
        with pytest.raises(ValueError, match="expected a bitmap"):
            unpack_holes(bytes(holes.serialize()))
