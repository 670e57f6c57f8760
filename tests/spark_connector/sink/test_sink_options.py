"""Options and columns of a write: what is wrong is refused in one line that names it."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import MapType, StringType, StructType
from tests.spark_connector.sink.wire import decode_rows, targets_of

from pyspark_arneb.decode.headers import typed_headers
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ColumnStyle
from pyspark_arneb.schema import STYLES, Column, spark_schema
from pyspark_arneb.sink.columns import ColumnError, RowEncoder
from pyspark_arneb.sink.options import Delivery, sink_options
from pyspark_arneb.sink.rows import TYPES_NAME
from pyspark_arneb.values.ddl import struct_type

URL = {"service.url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"topic": "a"}, {"topic": "persistent://public/default/a"}),
        ({"queue": "a/b"}, {"queue": "a/b", "vhost": "/"}),
        ({"queue": "a", "vhost": "v"}, {"queue": "a", "vhost": "v"}),
        ({"queue": " a ", "vhost": " v"}, {"queue": " a ", "vhost": " v"}),
        (
            {"exchange": "e ", "routingKey": " k"},
            {"exchange": "e ", "vhost": "/", "routing_key": " k"},
        ),
        ({"exchange": "e"}, {"exchange": "e", "vhost": "/"}),
        (
            {"exchange": "", "routingKey": "k"},
            {"exchange": "", "vhost": "/", "routing_key": "k"},
        ),
        ({}, None),
    ],
)
def test_rows_go_to_one_target(given: dict[str, str], target: dict[str, str] | None) -> None:
    assert sink_options({**URL, **given}, overwrite=False).target == target


def test_spark_s_own_options_of_a_query_are_no_mistake() -> None:
    given = {**URL, "checkpointlocation": "/c", "queryname": "q", "delivery": "AT-LEAST-ONCE"}
    assert sink_options(given, overwrite=False).delivery is Delivery.AT_LEAST_ONCE


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"service.url": ""}, 'option "service.url": expected http'),
        ({"queue": "a", "topic": "b"}, 'option "queue": give at most one of topic, queue'),
        ({"routingKey": "a"}, 'option "routingKey": is for "exchange"'),
        ({"topic": "a", "vhost": "b"}, 'option "vhost": is for "queue" and "exchange"'),
        ({"topic": "a/b"}, 'option "topic": expected topic'),
        ({"delivery": "once"}, 'option "delivery": expected one of exactly-once, at-least'),
        (
            {"idempotenceId": "a b", "idempotenceVersion": "1"},
            'option "idempotenceId": expected 1 to 200 letters',
        ),
        ({"idempotenceVersion": "1"}, 'option "idempotenceVersion": is for "idempotenceId"'),
        ({"idempotenceId": "a"}, 'option "idempotenceId": of a batch write needs "idempotenceV'),
        (
            {"idempotenceId": "a", "idempotenceVersion": "-1"},
            'option "idempotenceVersion": expected a whole number of 0 to 92233',
        ),
        (
            {"idempotenceId": "a", "delivery": "at-least-once"},
            'option "idempotenceId": is for delivery "exactly-once"',
        ),
        ({"maxOffsetsPerTrigger": "3"}, 'option "maxOffsetsPerTrigger": is for reads'),
        ({"startingoffsets": "latest"}, 'option "startingOffsets": is for reads'),
        ({"que": "a"}, 'option "que": no such option; did you mean "queue"'),
        ({"path": "/d"}, 'option "path": give "path" or "service.url", not both'),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_options({**URL, **given}, overwrite=False)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stream_has_its_own_batches() -> None:
    given = {**URL, "topic": "a", "idempotenceId": "q", "idempotenceVersion": "3"}
    assert sink_options(given, overwrite=False).idempotence_version == 3
    with pytest.raises(OptionError, match='"idempotenceVersion": is for batch writes'):
        sink_options(given, overwrite=False, is_stream=True)


def test_a_directory_takes_no_rows() -> None:
    with pytest.raises(
        OptionError, match='"service.url": is required: rows are written through a broker'
    ):
        sink_options({"path": "/d", "topic": "a"}, overwrite=False)


def test_nothing_is_overwritten() -> None:
    with pytest.raises(ValueError, match='only appended to: expected mode "append".*"overwrite"'):
        sink_options({**URL, "topic": "a"}, overwrite=True)


TARGET = {"topic": "t"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (StructType().add("key", "string"), 'column "value": is required; there are key'),
        (
            StructType().add("value", StructType().add("a", "integer")),
            'column "value": expected binary or string, got struct<a:int>; see to_json',
        ),
        (
            StructType().add("value", "string").add("priorty", "integer"),
            'column "priorty": cannot be written; did you mean "priority"?',
        ),
        (
            StructType().add("value", "string").add("key", "string").add("routing_key", "string"),
            'column "routing_key": another column is already the key',
        ),
        (
            StructType().add("value", "string").add("event_time", "string"),
            'column "event_time": expected timestamp or long, got string',
        ),
        (
            StructType().add("VALUE", "string"),
            'column "VALUE": cannot be written; did you mean "value"?',
        ),
    ],
)
def test_a_column_that_cannot_be_written_is_named(schema: StructType, reason: str) -> None:
    with pytest.raises(ColumnError) as caught:
        RowEncoder(schema, TARGET)
    assert str(caught.value) == reason


def test_somebody_must_say_where_to() -> None:
    with pytest.raises(OptionError, match='"topic": give topic, queue or exchange, or a column'):
        RowEncoder(StructType().add("value", "string"), None)


def test_a_column_says_where_each_row_goes() -> None:
    schema = StructType().add("value", "string").add("topic", "string")
    batch = pa.record_batch({"value": ["1", "2", "3"], "topic": ["a", "b", "a"]})
    (body,) = RowEncoder(schema, None).bodies(batch)
    names = [target["topic"].rpartition("/")[2] for target in targets_of(body.data)]
    assert [names[row["target"]] for row in decode_rows(body.data)] == ["a", "b", "a"]
    (body,) = RowEncoder(schema, TARGET).bodies(batch)
    assert targets_of(body.data) == [TARGET]
    assert "target" not in decode_rows(body.data)[0], (
        "the option must take precedence over the column"
    )


def test_a_topic_that_none_can_be_called_is_one_of_the_column() -> None:
    schema = StructType().add("value", "string").add("topic", "string")
    batch = pa.record_batch({"value": ["1"], "topic": ["a/b"]})
    with pytest.raises(ColumnError, match='column "topic": expected topic, tenant/namespace/topic'):
        list(RowEncoder(schema, None).bodies(batch))


PAIR: Final = "array<struct<key: string, value: {}>>".format


@pytest.mark.parametrize(
    ("name", "kind", "pairs"),
    [
        ("properties", "map<string, string>", [("a", "1")]),
        ("properties", "map<string, bigint>", [("a", 1)]),
        ("properties", "map<string, double>", [("a", 1.5)]),
        ("properties", "map<string, boolean>", [("a", True)]),
        ("headers", "map<string, binary>", [("a", b"1")]),
        ("headers", PAIR("binary"), [{"key": "a", "value": b"1"}]),
        ("headers", PAIR("string"), [{"key": "a", "value": "1"}]),
    ],
)
def test_properties_are_pairs_of_what_a_message_can_have(
    name: str, kind: str, pairs: list[Any]
) -> None:
    columns = pa.schema(list(struct_type(f"value string, {name} {kind}")))
    batch = pa.record_batch([["v"], [pairs]], columns)
    (body,) = RowEncoder(from_arrow_schema(columns), TARGET).bodies(batch)
    (found,) = decode_rows(body.data)[0]["properties"].values()
    assert str(found).lower() in ("1", "1.5", "true")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("headers", "array<string>"),
        ("headers", "array<struct<key: string>>"),
        ("headers", PAIR("timestamp")),
        ("headers", "array<struct<value: string, key: string>>"),
        ("headers", "array<struct<name: string, value: string>>"),
        ("properties", "map<int, string>"),
        ("properties", "map<string, array<int>>"),
        ("properties", "map<string, decimal(4,1)>"),
        ("properties", "map<string, struct<a: int>>"),
    ],
)
def test_properties_of_another_form_are_refused_before_a_row_is_sent(name: str, kind: str) -> None:
    columns = pa.schema(list(struct_type(f"value string, {name} {kind}")))
    with pytest.raises(ColumnError, match=f'column "{name}": expected map<string,string> or arr'):
        RowEncoder(from_arrow_schema(columns), TARGET)


@pytest.mark.parametrize("style", ColumnStyle)
def test_a_table_that_was_read_can_be_written_back(style: ColumnStyle) -> None:
    """In every style, with all its columns."""
    columns = [each for each in STYLES[style] if not _typed_headers(each)]
    encoder = RowEncoder(spark_schema(columns), TARGET)
    batch = pa.record_batch(
        [pa.nulls(1, each.type) for each in columns], [each.name for each in columns]
    )
    (body,) = encoder.bodies(batch)
    assert [row["value"] for row in decode_rows(body.data)] == [None]


def _typed_headers(column: Column) -> bool:
    """There beside ``properties``, and as good: one of them is written."""
    return column.name == "headers" and pa.types.is_map(column.type)


def test_headers_keep_their_types() -> None:
    column = next(each for each in STYLES[ColumnStyle.ARNEB] if _typed_headers(each))
    given: dict[str, tuple[str, Any]]
    given = {"n": ("long", 7), "f": ("double", 1.5), "b": ("boolean", True), "t": ("text", "x")}
    given |= {
        "o": ("binary", b"\xff\x00"),
        "w": ("time", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        "d": ("decimal", "12e-1"),
        "v": ("void", ""),
    }
    types = {"text": "longstr", "time": "timestamp"}
    none = dict.fromkeys(("type", "text", "long", "double", "boolean", "time", "binary"))
    headers = [
        (name, {**none, "text": str(value), kind: value, "type": types.get(kind, kind)})
        for name, (kind, value) in given.items()
    ]
    batch = pa.record_batch({"value": ["v"], "headers": pa.array([headers], column.type)})
    encoder = RowEncoder(
        StructType().add("value", "string").add("headers", MapType(StringType(), StringType())),
        TARGET,
    )
    (body,) = encoder.bodies(batch)
    found = decode_rows(body.data)[0]["properties"]
    kinds = json.loads(found.pop(TYPES_NAME))
    assert kinds == {"o": "binary", "w": "timestamp", "d": "decimal", "v": "void"}
    texts = {"o": "/wA=", "w": "1767323045", "d": "12e-1", "v": ""}
    assert found == {"n": 7, "f": 1.5, "b": True, "t": "x", **texts}
    (read,) = typed_headers([{**texts, TYPES_NAME: json.dumps(kinds)}]).to_pylist()
    assert (dict(read)["o"]["binary"], dict(read)["w"]["time"]) == (given["o"][1], given["w"][1])
