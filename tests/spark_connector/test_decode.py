"""Decoding: the short cut gives what the codecs give, and nothing makes a log unreadable."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from entries_strategies import (
    amqp_entries,
    amqp_runs,
    damaged,
    damaged_or_not,
    pulsar_entries,
    uniform_runs,
)
from hypothesis import given
from hypothesis import strategies as st
from log_generator import START_MS, amqp_entry, moment, pulsar_entry
from pamqp.commands import Basic

from arneb_amqp.codec import encode_message
from arneb_core.api.entries.codec import Codec, ColumnCodec, Message, MessageColumns, codecs
from arneb_core.api.entries.entry import HEADER_BYTES, EntryFlag, EntryHeader, Origin, read_header
from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.format.schema import TopicId
from arneb_pulsar.codec import encode_messages
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.metadata import parse_metadata
from pyspark_arneb.decode import chunks, decoder
from pyspark_arneb.decode.amqp_runs import AmqpRun, MixedRun, UniformRun, amqp_run
from pyspark_arneb.decode.chunks import ROWS_MAX, Chunk
from pyspark_arneb.decode.decoder import Decoder
from pyspark_arneb.decode.heads import Heads
from pyspark_arneb.decode.message_id import message_id
from pyspark_arneb.decode.rows import AmqpRows, KnownProperties, MessageRows, Rows, decoded
from pyspark_arneb.decode.times import TIME_MS_MAX
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.options import ColumnStyle
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.schema import DEAR, STYLES, Column, Field, RowFlag, arrow_schema

SHORT_CUT_FIELDS = (
    Field.KEY,
    Field.VALUE,
    Field.PUBLISH_TIME,
    Field.EVENT_TIME,
    Field.PRODUCER_NAME,
    Field.SEQUENCE_ID,
    Field.FLAGS,
    Field.TIMESTAMP_TYPE,
    Field.EXCHANGE,
    Field.ORDERING_KEY,
    Field.SCHEMA_VERSION,
    Field.DELIVER_AT,
    Field.EXPIRES_AT,
    Field.DEAD_LETTER_REASON,
    Field.FIRST_DEATH_REASON,
    Field.FIRST_DEATH_QUEUE,
    Field.FIRST_DEATH_EXCHANGE,
    Field.PROPERTIES,
    Field.HEADERS,
    Field.KAFKA_HEADERS,
)
LEDGER = 7


def chunk_of(entries: Sequence[bytes]) -> Chunk:
    start = position_at(LEDGER, 100)
    return chunks.chunk_of(range(start, start + len(entries)), entries)


def plain_rows(entries: Sequence[bytes]) -> MessageRows:
    """The rows that AMQP's codec makes."""
    chunk = chunk_of(entries)
    columns = decoded(codecs()[Origin.AMQP], entries, properties=True, bytes_max=1 << 40)
    assert columns.entries == len(entries)
    return MessageRows(Origin.AMQP, chunk.positions, chunk.heads, [1] * len(entries), columns)


def short_rows(entries: Sequence[bytes], run: AmqpRun) -> AmqpRows:
    shared = KnownProperties(codecs()[Origin.AMQP]).of(run, entries)
    chunk = chunk_of(entries)
    return AmqpRows(chunk.positions, chunk.heads, run, shared)


def columns_of(rows: Rows) -> dict[Field, list[Any]]:
    found = {}
    for field in SHORT_CUT_FIELDS:
        column = rows.column(field)
        column.validate(full=True)
        found[field] = (column.type, column.to_pylist())
    return found


@given(amqp_runs())
def test_the_short_cut_and_the_codec_make_the_same_columns(entries: list[bytes]) -> None:
    run = amqp_run(entries)
    assert run is not None, "the fast path must know what the frontend writes"
    assert columns_of(short_rows(entries, run)) == columns_of(plain_rows(entries))


@given(uniform_runs())
def test_each_form_of_the_short_cut_gives_the_same_columns(entries: list[bytes]) -> None:
    uniform, mixed = UniformRun.of(entries), MixedRun.of(entries)
    assert uniform is not None
    assert mixed is not None
    assert columns_of(short_rows(entries, uniform)) == columns_of(short_rows(entries, mixed))


@given(damaged(amqp_runs()))
def test_the_short_cut_never_reads_what_the_codec_would_not(entries: list[bytes]) -> None:
    """Except in property lists, which were judged when they were published."""
    run = amqp_run(entries)
    if run is None or Heads.of(entries) is None:
        return
    expected = plain_rows(entries)
    if not expected.columns.raw:
        assert columns_of(short_rows(entries, run)) == columns_of(expected)


@given(damaged(uniform_runs()), damaged(uniform_runs()))
def test_damaged_entries_never_break_the_short_cut(one: list[bytes], two: list[bytes]) -> None:
    run = amqp_run(one + two)
    if run is not None and Heads.of(one + two) is not None:
        chunk = chunk_of(one + two)
        rows = AmqpRows(chunk.positions, chunk.heads, run)
        for field in set(SHORT_CUT_FIELDS) - DEAR:
            rows.column(field).validate(full=True)


@given(damaged(amqp_runs()))
def test_a_damaged_entry_costs_its_own_row_at_most(entries: list[bytes]) -> None:
    heads = Heads.of(entries)
    if heads is None or max(heads.messages) > 1000:
        return  # its header says that it is no entry, or of an origin that is none
    rows = table(entries)
    assert sorted({row["entry_id"] for row in rows}) == list(range(100, 100 + len(entries)))


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=3))
def test_the_short_cut_leaves_anything_else_alone(entries: list[bytes]) -> None:
    assert amqp_run(entries) is None


def table(entries: Sequence[bytes], style: ColumnStyle = ColumnStyle.ARNEB) -> list[dict[str, Any]]:
    columns = STYLES[style]
    return rows_of(entries, columns)


def rows_of(
    entries: Sequence[bytes], columns: Sequence[Column], topic: str = "orders"
) -> list[dict[str, Any]]:
    span = Span(TopicId(1), full_name(topic), position_at(LEDGER, 0), Position(1 << 62), 1)
    found: list[dict[str, Any]] = []
    for batch in Decoder(span, columns).batches(chunk_of(entries)):
        assert batch.schema == arrow_schema(columns)
        batch.validate(full=True)
        found += batch.to_pylist(maps_as_pydicts="strict")
    return found


@given(st.lists(amqp_entries() | pulsar_entries(), min_size=1, max_size=6))
def test_every_message_of_every_entry_is_one_row_in_order(entries: list[bytes]) -> None:
    rows = table(entries)
    expected = [
        (100 + number, message.batch_index, None if message.is_null else message.value)
        for number, entry in enumerate(entries)
        for message in codecs()[read_header(entry).origin].decode(entry)
    ]
    assert [(row["entry_id"], row["batch_index"], row["value"]) for row in rows] == expected
    for row in rows:
        assert row["message_id"] == message_id(LEDGER, row["entry_id"], -1, row["batch_index"])


@given(
    st.lists(amqp_entries() | pulsar_entries(), min_size=1, max_size=5)
    | damaged(st.lists(amqp_entries() | pulsar_entries(), min_size=1, max_size=5)),
    st.lists(st.sampled_from(STYLES[ColumnStyle.ARNEB]), min_size=1, max_size=5, unique=True),
)
def test_fewer_columns_are_the_same_columns_of_the_same_rows(
    entries: list[bytes], chosen: list[Column]
) -> None:
    """Of damaged entries too: a count must not depend on what else is read."""
    heads = Heads.of(entries)
    if heads is None or max(heads.messages) > 1000:
        return
    expected = [{column.name: row[column.name] for column in chosen} for row in table(entries)]
    assert rows_of(entries, chosen) == expected


@given(st.lists(pulsar_entries(), min_size=1, max_size=4).flatmap(damaged_or_not))
def test_the_columns_of_pulsars_codec_are_what_it_says_message_by_message(
    entries: list[bytes],
) -> None:
    heads = Heads.of(entries)
    if heads is None or set(heads.origins) != {Origin.PULSAR} or max(heads.messages) > 1000:
        return
    codec = codecs()[Origin.PULSAR]
    assert isinstance(codec, ColumnCodec)
    columns = codec.decode_columns(entries, properties=True, bytes_max=1 << 40)
    expected = MessageColumns()
    for entry in entries:
        header = read_header(entry)
        messages: Sequence[Message] = ()
        with suppress(ValueError):
            messages = codec.decode(entry)
        if len(messages) == header.messages:
            for message in messages:
                expected.add(message)
        else:
            count = header.messages
            indexes = range(count) if count > 1 or codec.are_batches([entry])[0] else (-1,)
            expected.add_raw(entry[HEADER_BYTES:], header.publish_time_ms, indexes)
        expected.entries += 1
    assert columns == expected
    assert codec.are_batches(entries) == list(map(is_batch, entries))


def is_batch(entry: bytes) -> bool:
    """What protobuf says of the whole metadata."""
    try:
        metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
    except PayloadError:
        return False
    return metadata.HasField("num_messages_in_batch")


def test_a_row_of_amqp_says_what_was_published() -> None:
    entry = amqp_entry(
        b"body",
        exchange=b"shop",
        routing_key=b"order.paid",
        publish_time_ms=START_MS + 5,
        properties=Basic.Properties(
            delivery_mode=1,
            timestamp=datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC),
            headers={"region": "eu"},
        ),
        flags=EntryFlag.TRANSIENT,
    )
    (row,) = table([entry])
    assert row.pop("properties")["region"] == "eu"
    assert row.pop("headers")["region"]["text"] == "eu"
    assert row == {
        "topic": "persistent://public/default/orders",
        "partition": -1,
        "ledger_id": 7,
        "entry_id": 100,
        "batch_index": -1,
        "message_id": message_id(7, 100, -1, -1),
        "key": b"order.paid",
        "value": b"body",
        "publish_time": moment(START_MS + 5),
        "event_time": datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC),
        "producer_name": None,
        "sequence_id": None,
        "flags": EntryFlag.TRANSIENT,
        "exchange": "shop",
        "ordering_key": None,
        "deliver_at": None,
        "expires_at": None,
        "schema_version": None,
        "dead_letter_reason": None,
        "first_death_reason": None,
        "first_death_queue": None,
        "first_death_exchange": None,
    }


def typed(kind: str, text: str, **fields: object) -> dict[str, object]:
    """A header as the column ``headers`` has it."""
    empty = dict.fromkeys(("long", "double", "boolean", "time", "binary"))
    return {"type": kind, "text": text, **empty, **fields}


def test_headers_keep_their_types() -> None:
    headers = {
        "n": 5, "f": 2.5, "ok": True, "none": None, "t": moment(START_MS), "list": [1, "a"],
        "raw": bytearray(b"\xff"), "s": "text",
    }  # fmt: skip
    (row,) = table([amqp_entry(b"", properties=Basic.Properties(headers=headers))])
    found = row["headers"]
    assert found.pop("amqp.delivery_mode")["type"] == "longstr"
    assert found["n"]["long"] == 5
    assert found["f"]["double"] == 2.5
    assert found["ok"]["boolean"] is True
    assert found["none"]["type"] == "void"
    assert found["t"]["time"] == moment(START_MS)
    assert found["raw"]["binary"] == b"\xff"
    assert found["list"]["type"] == "array"
    assert found["s"] == typed("longstr", "text")
    assert set(found) == set(headers)


def test_the_headers_of_a_dead_letter_say_why_and_others_are_not_believed() -> None:
    deaths = Basic.Properties(
        headers={
            "x-last-death-reason": "expired",
            "x-first-death-reason": "rejected",
            "x-first-death-queue": "work",
            "x-first-death-exchange": "shop",
        }
    )
    dead = amqp_entry(b"x", properties=deaths, flags=EntryFlag.DEAD_LETTERED)
    rows = table([dead, amqp_entry(b"y", properties=deaths), amqp_entry(b"z")])
    names = (
        "dead_letter_reason",
        "first_death_reason",
        "first_death_queue",
        "first_death_exchange",
    )
    assert [[row[name] for name in names] for row in rows] == [
        ["expired", "rejected", "work", "shop"],
        [None] * 4,
        [None] * 4,
    ]


def test_times_of_delivery_and_expiry_are_those_of_the_header() -> None:
    head = EntryHeader(Origin.PULSAR, 2, deliver_at_ms=START_MS + 1, expires_at_ms=START_MS + 2)
    body = encode_messages(BATCH)
    rows = table([head.pack() + body, pulsar_entry(body, messages=2)])
    assert [(row["deliver_at"], row["expires_at"]) for row in rows] == [
        *[(moment(START_MS + 1), moment(START_MS + 2))] * 2,
        *[(None, None)] * 2,
    ]


def test_a_null_value_is_null_and_an_empty_one_is_empty() -> None:
    null = Message(b"", key=b"k", publish_time_ms=1, is_null=True)
    empty = Message(b"", key=b"k", publish_time_ms=1)
    entries = [
        pulsar_entry(encode_messages([null])),
        pulsar_entry(encode_messages([empty])),
        pulsar_entry(encode_messages([replace(empty, batch_index=0), null]), messages=2),
        encode_message(null, "q"),
        encode_message(empty, "q"),
    ]
    assert [row["value"] for row in table(entries)] == [None, b"", b"", None, None, b""]
    assert [row["value"] for row in table(entries[3:])] == [None, b""]
    assert "pulsar.null_value" not in table(entries[3:])[0]["properties"]


BATCH = [
    Message(
        b"v%d" % index,
        key=b"k",
        properties={"n": str(index)},
        event_time_ms=START_MS + index,
        publish_time_ms=START_MS + 9,
        producer_name="shop-1",
        sequence_id=40 + index,
        ordering_key=b"o",
        schema_version=(3).to_bytes(8, "big"),
    )
    for index in range(2)
]


def test_rows_of_a_pulsar_batch_say_what_was_produced() -> None:
    entry = pulsar_entry(encode_messages(BATCH), messages=2)
    first, second = table([entry])
    assert (first["batch_index"], second["batch_index"]) == (0, 1)
    assert {**second, "message_id": b""} == {
        "topic": "persistent://public/default/orders",
        "partition": -1,
        "ledger_id": 7,
        "entry_id": 100,
        "batch_index": 1,
        "message_id": b"",
        "key": b"k",
        "value": b"v1",
        "publish_time": moment(START_MS + 9),
        "event_time": moment(START_MS + 1),
        "producer_name": "shop-1",
        "sequence_id": 41,
        "flags": 0,
        "exchange": None,
        "ordering_key": b"o",
        "deliver_at": None,
        "expires_at": None,
        "schema_version": 3,
        "dead_letter_reason": None,
        "first_death_reason": None,
        "first_death_queue": None,
        "first_death_exchange": None,
        "properties": {"n": "1"},
        "headers": {"n": typed("longstr", "1")},
    }


def test_kafka_style_shows_the_same_messages() -> None:
    entries = [amqp_entry(b"a"), pulsar_entry(encode_messages(BATCH), messages=2)]
    amqp, first, second = rows_of(entries, STYLES[ColumnStyle.KAFKA], "orders-partition-3")
    assert second == {
        "key": b"k",
        "value": b"v1",
        "topic": "orders",
        "partition": 3,
        "offset": (7 << 36) + (101 << 16) + 1,
        "timestamp": moment(START_MS + 9),
        "timestampType": 0,
        "headers": [{"key": "n", "value": b"1"}],
    }
    assert (amqp["timestampType"], amqp["headers"]) == (1, None)
    assert amqp["offset"] < first["offset"] < second["offset"]


def test_pulsar_style_shows_the_same_messages() -> None:
    entry = pulsar_entry(encode_messages(BATCH), messages=2)
    _, second = table([entry], ColumnStyle.PULSAR)
    assert second == {
        "value": b"v1",
        "__key": b"k",
        "__topic": "persistent://public/default/orders",
        "__messageId": message_id(7, 100, -1, 1),
        "__publishTime": moment(START_MS + 9),
        "__eventTime": moment(START_MS + 1),
        "__messageProperties": {"n": "1"},
    }


@given(st.binary(max_size=60))
def test_an_entry_that_cannot_be_decoded_is_as_many_rows_as_it_has_messages(body: bytes) -> None:
    """An encrypted batch looks so to us: its producer's body, and a count."""
    header = EntryHeader(Origin.PULSAR, messages=3, publish_time_ms=START_MS)
    rows = table([header.pack() + b"\x00" + body])
    assert [row["value"] for row in rows] == [b"\x00" + body, None, None]
    assert [row["batch_index"] for row in rows] == [0, 1, 2]
    for row in rows:
        assert row["flags"] == RowFlag.RAW
        assert (row["key"], row["properties"]) == (None, {})
        assert row["publish_time"] == moment(START_MS)


def test_a_codec_that_is_not_installed_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "codecs", lambda: MappingProxyType({}))
    with pytest.raises(LookupError, match=r"origin PULSAR: install"):
        table([pulsar_entry(encode_messages(BATCH), messages=2)])


class Expanding:
    """A codec of entries that hold far more than they seem to."""

    origin = Origin.PULSAR

    def __init__(self, messages: int, value_bytes: int) -> None:
        self._messages = [Message(bytes(value_bytes), batch_index=i) for i in range(messages)]

    def decode(self, entry: bytes) -> list[Message]:
        assert len(entry) == HEADER_BYTES
        return self._messages


@pytest.mark.parametrize(
    ("messages", "value_bytes", "rows_max"), [(5000, 1, ROWS_MAX), (100, 50_000, 21)]
)
def test_batches_stay_bounded_whatever_an_entry_expands_to(
    messages: int, value_bytes: int, rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec: Codec = Expanding(messages, value_bytes)
    monkeypatch.setattr(decoder, "codecs", lambda: {codec.origin: codec})
    span = Span(TopicId(1), full_name("t"), position_at(LEDGER, 0), Position(1 << 62), 1)
    entries = [EntryHeader(Origin.PULSAR, messages).pack()] * 2
    columns = STYLES[ColumnStyle.ARNEB]
    rows = [batch.num_rows for batch in Decoder(span, columns).batches(chunk_of(entries))]
    assert sum(rows) == 2 * messages
    assert rows_max * 0.9 <= max(rows) <= rows_max


ODD = [
    Message(b"", key=b"", producer_name="p\udcff", properties={"a\udcff": "\udcfe"}),
    Message(b"", event_time_ms=TIME_MS_MAX + 1, sequence_id=(1 << 64) - 2),
    Message(b"", event_time_ms=TIME_MS_MAX, sequence_id=(1 << 63) - 1),
]


def test_odd_values_become_null_or_printable_instead_of_failing() -> None:
    columns = MessageColumns()
    for message in ODD:
        columns.add(message)
    heads = Heads(EntryHeader(Origin.PULSAR).pack() * 3)
    rows = MessageRows(Origin.PULSAR, range(3), heads, [1] * 3, columns)
    assert rows.column(Field.EVENT_TIME).to_pylist() == [None, None, moment(TIME_MS_MAX)]
    assert rows.column(Field.SEQUENCE_ID).to_pylist() == [None, -2, (1 << 63) - 1]
    assert rows.column(Field.PRODUCER_NAME).to_pylist() == ["p\ufffd", None, None]
    assert rows.column(Field.PROPERTIES).to_pylist() == [[("a\ufffd", "\ufffd")], [], []]
    assert rows.column(Field.KAFKA_HEADERS).to_pylist() == [
        [{"key": "a\ufffd", "value": b"\xfe"}],
        None,
        None,
    ]
    assert rows.column(Field.KEY).to_pylist() == [b"", None, None]


@pytest.mark.parametrize("seconds", [0, 1, TIME_MS_MAX // 1000, TIME_MS_MAX // 1000 + 1, 2**64 - 1])
@pytest.mark.parametrize("form", [UniformRun, MixedRun])
def test_any_number_may_stand_in_a_timestamp(
    form: type[UniformRun] | type[MixedRun], seconds: int
) -> None:
    stamp = datetime(2020, 1, 1, tzinfo=UTC)
    entry = amqp_entry(b"x", properties=Basic.Properties(timestamp=stamp))
    number = int(stamp.timestamp()).to_bytes(8, "big")
    assert entry.count(number) == 1
    run = form.of([entry.replace(number, seconds.to_bytes(8, "big")), entry])
    assert run is not None
    in_range = 0 < seconds <= TIME_MS_MAX // 1000
    expected = moment(seconds * 1000) if in_range else None
    assert run.event_times().to_pylist() == [expected, stamp]


def test_arrow_and_spark_agree_on_every_schema() -> None:
    """Spark compares them exactly and fails the query otherwise."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from pyspark_arneb.schema import spark_schema

    for columns in STYLES.values():
        ours: pa.Schema = arrow_schema(columns)
        assert to_arrow_schema(spark_schema(columns), timezone="UTC").equals(ours)
