"""Message ids: the bytes that Pulsar's clients write and read."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.format.schema import TopicId
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageIdData
from pyspark_arneb.decode.message_id import message_id, varint
from pyspark_arneb.decode.places import OFFSET_BATCH_MAX, OFFSET_ENTRIES_MAX, Places
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.schema import Field

TOPIC = TopicId(7)
IDS = LedgerIds(TOPIC)
LEDGERS = st.integers(1, (1 << 30) - 1)
FIRSTS = st.sampled_from([0, 1, 126, 127, 128, 5_000, 16_383, 16_384, 65_535, 2_097_150]) | (
    st.integers(0, 1 << 31)
)


@given(LEDGERS, st.integers(0, 1 << 31), st.integers(-1, 10_000), st.integers(-1, 70_000))
def test_an_id_is_what_protobuf_makes_of_it(
    ledger: int, entry: int, partition: int, batch_index: int
) -> None:
    expected = MessageIdData(ledgerId=ledger, entryId=entry)
    if partition >= 0:
        expected.partition = partition
    if batch_index >= 0:
        expected.batch_index = batch_index
    assert message_id(ledger, entry, partition, batch_index) == expected.SerializeToString()


def test_a_varint_has_no_negative_numbers() -> None:
    with pytest.raises(AssertionError, match="absence"):
        varint(-1)


def column(
    topic: str, ledger: int, positions: Any, indexes: list[int] | None, field: Field
) -> list[Any]:
    span = Span(TOPIC, full_name(topic), position_at(ledger, 0), Position(1 << 62), 1)
    made = Places(span).column(field, positions, indexes)
    assert isinstance(made, pa.Array)
    made.validate(full=True)
    found: list[Any] = made.to_pylist()
    return found


@given(LEDGERS, FIRSTS, st.integers(1, 700), st.sampled_from(["t", "t-partition-3"]))
def test_ids_counted_up_equal_ids_made_singly(
    ledger: int, first: int, count: int, topic: str
) -> None:
    partition = 3 if topic.endswith("3") else -1
    positions = range(position_at(ledger, first), position_at(ledger, first) + count)
    expected = [message_id(IDS.of(ledger), first + i, partition, -1) for i in range(count)]
    assert column(topic, ledger, positions, None, Field.MESSAGE_ID) == expected
    assert column(topic, ledger, list(positions), None, Field.MESSAGE_ID) == expected
    assert column(topic, ledger, positions, None, Field.ENTRY_ID) == list(
        range(first, first + count)
    )


@given(LEDGERS, st.lists(st.tuples(st.integers(0, 70_000), st.integers(-1, 300)), min_size=1))
def test_rows_of_batches_have_ids_with_their_index(
    ledger: int, rows: list[tuple[int, int]]
) -> None:
    positions = [position_at(ledger, entry) for entry, _ in rows]
    indexes = [index for _, index in rows]
    assert column("t", ledger, positions, indexes, Field.MESSAGE_ID) == [
        message_id(IDS.of(ledger), entry, -1, index) for entry, index in rows
    ]
    assert column("t", ledger, positions, indexes, Field.BATCH_INDEX) == indexes
    assert column("t", ledger, positions, indexes, Field.ENTRY_ID) == [row[0] for row in rows]


PLACES = st.tuples(
    st.integers(1, (1 << 27) - 1),
    st.integers(0, OFFSET_ENTRIES_MAX - 1),
    st.integers(-1, OFFSET_BATCH_MAX - 1),
)


@given(PLACES, PLACES)
def test_kafka_offsets_rise_with_the_place(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    offsets = [
        column("t", ledger, [position_at(ledger, entry)], [index], Field.OFFSET)[0]
        for ledger, entry, index in (one, other)
    ]
    places = [(ledger, entry, max(index, 0)) for ledger, entry, index in (one, other)]
    assert (offsets[0] < offsets[1]) == (places[0] < places[1])
    assert all(0 <= offset < 1 << 63 for offset in offsets)


@given(st.integers(1, (1 << 27) - 1), st.integers(0, OFFSET_ENTRIES_MAX - 300), st.integers(1, 300))
def test_offsets_counted_up_equal_offsets_made_singly(ledger: int, first: int, count: int) -> None:
    positions = range(position_at(ledger, first), position_at(ledger, first) + count)
    assert column("t", ledger, positions, None, Field.OFFSET) == column(
        "t", ledger, list(positions), [-1] * count, Field.OFFSET
    )


@pytest.mark.parametrize(("entry", "index"), [(OFFSET_ENTRIES_MAX, 0), (0, OFFSET_BATCH_MAX)])
def test_an_offset_that_would_not_be_unique_is_an_error(entry: int, index: int) -> None:
    with pytest.raises(OverflowError, match="columnStyle"):
        column("t", 7, [position_at(7, entry)], [index], Field.OFFSET)


def test_constant_columns_say_where_the_topic_is() -> None:
    rows = range(position_at(4, 0), position_at(4, 3))
    name = "acme/eu/t-partition-2"
    found = {
        field: column(name, 4, rows, None, field)
        for field in (
            Field.TOPIC,
            Field.PARTITION,
            Field.LEDGER_ID,
            Field.KAFKA_TOPIC,
            Field.KAFKA_PARTITION,
        )
    }
    assert found == {
        Field.TOPIC: ["persistent://acme/eu/t-partition-2"] * 3,
        Field.PARTITION: [2] * 3,
        Field.LEDGER_ID: [4] * 3,
        Field.KAFKA_TOPIC: ["acme/eu/t"] * 3,
        Field.KAFKA_PARTITION: [2] * 3,
    }
    assert column("t", 4, rows, None, Field.PARTITION) == [-1] * 3
    assert column("t", 4, rows, None, Field.KAFKA_PARTITION) == [0] * 3
