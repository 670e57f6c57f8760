"""Values with a type: by the topic's schema, as JSON, as text."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_generator import LogWriter, amqp_entry, pulsar_entry

from arneb_core.api.entries.codec import Message
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, frontend_key
from arneb_pulsar.codec import encode_messages
from arneb_pulsar.schemas.schema import Schema, SchemaType, Version
from arneb_pulsar.services.topics import schemas as registry
from pyspark_arneb.decode.headers import TYPES_NAME, typed_headers
from pyspark_arneb.decode.reading import read_batches
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import read_options
from pyspark_arneb.plan.planning import plan_read
from pyspark_arneb.resolving import resolved
from pyspark_arneb.schema import columns_of
from pyspark_arneb.values.avro_types import arrow_type
from pyspark_arneb.values.ddl import struct_type
from pyspark_arneb.values.forms import JsonForm, converter
from pyspark_arneb.values.registry import living_schemas

OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", "double"], "default": None},
    ],
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "log"
    close_environments()


def row_of(version: int, schema: Schema | None) -> bytes:
    """A row as the Pulsar frontend's registry writes it."""
    return registry._pack(Version(version, schema, 17))


def give_schemas(writer: LogWriter, topic: str, *schemas: Schema | None) -> None:
    puts: list[tuple[Table, bytes, bytes | None]] = []
    for version, schema in enumerate(schemas):
        key = f"{registry.SCHEMAS}public/default/{topic}/{version}"
        puts.append((Table.CATALOG, frontend_key(key), row_of(version, schema)))
    writer._store.commit(Changes(puts=puts))


def pulsar(value: bytes, version: int | None = None, *, null: bool = False) -> bytes:
    stamp = None if version is None else version.to_bytes(8, "big")
    message = Message(value, publish_time_ms=1, schema_version=stamp, is_null=null)
    return pulsar_entry(encode_messages([message]))


def values(log: Path, **given_options: str) -> list[Any]:
    options = resolved(read_options({"path": str(log), "columns": "value", **given_options}))
    columns = columns_of(options)
    found: list[Any] = []
    for span in plan_read(options).spans:
        for batch in read_batches(options.location.open(), span, columns, options):
            assert batch.schema.types == [columns[0].type]
            found += [row["value"] for row in batch.to_pylist()]
    return found


def avro(schema: Any, record: Any) -> bytes:
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), record)
    return data.getvalue()


def test_avro_values_are_read_as_they_were_written_and_shown_as_the_latest(log: Path) -> None:
    with LogWriter(log) as writer:
        writer.create("t")
        give_schemas(
            writer, "t",
            Schema(SchemaType.AVRO, json.dumps(OLD).encode()),
            Schema(SchemaType.AVRO, json.dumps(NEW).encode()),
        )  # fmt: skip
        writer.append(
            "t",
            [
                pulsar(avro(OLD, {"id": 1, "note": "x"}), 0),
                pulsar(avro(NEW, {"id": 2, "amount": 2.5}), 1),
                pulsar(avro(NEW, {"id": 3, "amount": None})),
                pulsar(b"", 1, null=True),
                pulsar(b"\xff" * 12, 1),
            ],
        )
    assert values(log, topic="t", valueAs="schema") == [
        {"id": 1, "amount": None},
        {"id": 2, "amount": 2.5},
        {"id": 3, "amount": None},
        None,
        None,
    ]


def test_a_record_may_have_another_name_in_each_version(log: Path) -> None:
    """As for Pulsar's clients: classes are renamed."""
    named = [{**OLD, "name": "shop.OldOrder"}, {**OLD, "name": "Second"}, {**NEW, "name": "Newer"}]
    with LogWriter(log) as writer:
        writer.create("t")
        schemas = [Schema(SchemaType.AVRO, json.dumps(each).encode()) for each in named]
        give_schemas(writer, "t", *schemas)
        bodies = [{"id": 1, "note": "x"}, {"id": 2, "note": None}, {"id": 3, "amount": 2.5}]
        writer.append(
            "t",
            [pulsar(avro(named[n], body), n) for n, body in enumerate(bodies)],
        )
    assert values(log, topic="t", valueAs="schema") == [
        {"id": 1, "amount": None},
        {"id": 2, "amount": None},
        {"id": 3, "amount": 2.5},
    ]


def test_json_values_have_the_fields_of_the_topics_schema(log: Path) -> None:
    with LogWriter(log) as writer:
        writer.create("t-partition-0")
        give_schemas(
            writer, "t",
            Schema(SchemaType.STRING), None, Schema(SchemaType.JSON, json.dumps(NEW).encode()),
        )  # fmt: skip
        documents = [
            b'{"id": 7, "amount": {"double": 1.5}, "other": 1}',
            b'{"id": "x"}',
            b"{",
            b"3",
        ]
        writer.append("t-partition-0", [pulsar(each, 2) for each in documents])
    assert values(log, topic="t", valueAs="schema") == [
        {"id": 7, "amount": 1.5},
        {"id": None, "amount": None},
        None,
        None,
    ]


def test_primitive_schemas_are_their_numbers_and_texts(log: Path) -> None:
    with LogWriter(log) as writer:
        for name, kind, value in (
            ("n", SchemaType.INT32, b"\xff\xff\xff\xfe"), ("s", SchemaType.STRING, b"hi\xff"),
        ):  # fmt: skip
            writer.create(name)
            give_schemas(writer, name, Schema(kind))
            writer.append(name, [pulsar(value), pulsar(b"")])
    assert values(log, topic="n", valueAs="schema") == [-2, None]
    assert values(log, topic="s", valueAs="schema") == ["hi\ufffd", ""]


def test_json_bodies_of_amqp_are_read_on_demand(log: Path) -> None:
    with LogWriter(log) as writer:
        writer.create("q")
        bodies = [b'{"amount": 3, "tags": ["a", 1], "at": {"x": 1}}', b"no json", b"[]"]
        writer.append("q", [amqp_entry(body) for body in bodies])
    fields = "amount double, tags array<string>, at struct<x: int>, rest map<string, long>"
    found = values(log, queue="q", valueAs="json", valueSchema=fields)
    assert found == [
        {"amount": 3.0, "tags": ["a", "1"], "at": {"x": 1}, "rest": None},
        None,
        None,
    ]
    assert values(log, queue="q", valueAs="string") == [body.decode() for body in bodies]


@pytest.mark.parametrize(
    ("given_options", "reason"),
    [
        ({"topic": "none", "valueAs": "schema"}, "topic none: expected a topic with a schema"),
        ({"topic": "proto", "valueAs": "schema"}, "topic proto: expected a schema of type JSON"),
        ({"topics": "a,b", "valueAs": "schema"}, "topics a and b have different schemas"),
        ({"topic": "union", "valueAs": "schema"}, "union of null and one type of x, got 2"),
        ({"topic": "a", "valueAs": "json"}, 'option "valueSchema": is required'),
        ({"topic": "a", "valueSchema": "x int"}, 'is for valueAs "json"'),
        ({"topic": "a", "valueAs": "json", "valueSchema": "x"}, "expected a type, got ''"),
        ({"topic": "a", "valueAs": "json", "valueSchema": "x array<int"}, "expected '>'"),
        ({"topic": "a", "valueAs": "json", "valueSchema": "x int y"}, "expected ','"),
    ],
)
def test_what_cannot_be_read_so_is_refused_in_one_line(
    log: Path, given_options: dict[str, str], reason: str
) -> None:
    union = {"type": "record", "name": "U", "fields": [{"name": "x", "type": ["int", "string"]}]}
    with LogWriter(log) as writer:
        for name, schema in {
            "none": None,
            "proto": Schema(SchemaType.PROTOBUF, b"{}"),
            "a": Schema(SchemaType.JSON, json.dumps(OLD).encode()),
            "b": Schema(SchemaType.JSON, json.dumps(NEW).encode()),
            "union": Schema(SchemaType.AVRO, json.dumps(union).encode()),
        }.items():
            writer.create(name)
            if schema is not None:
                give_schemas(writer, name, schema)
    with pytest.raises(OptionError) as refusal:
        values(log, **given_options)
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_registrys_rows_are_read_as_the_frontend_writes_them() -> None:
    schema = Schema(SchemaType.AVRO, b"x" * 300, {"k": "v"})
    rows = {0: row_of(0, schema), 1: row_of(1, None), 3: row_of(3, schema)}
    (living,) = living_schemas(rows)
    assert (living.version, living.type, living.definition) == (3, 4, schema.data)


def test_every_avro_type_that_spark_can_show_has_its_own() -> None:
    fields = [
        ("a", {"type": "array", "items": "int"}, pa.list_(pa.int32())),
        ("m", {"type": "map", "values": ["null", "bytes"]}, pa.map_(pa.string(), pa.binary())),
        ("e", {"type": "enum", "name": "E", "symbols": ["X"]}, pa.string()),
        ("f", {"type": "fixed", "name": "F", "size": 2}, pa.binary()),
        ("again", "F", pa.binary()),
        ("d", {"type": "int", "logicalType": "date"}, pa.date32()),
        ("t", {"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ("n", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
         pa.decimal128(9, 2)),
    ]  # fmt: skip
    record = {
        "type": "record", "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind, _ in fields],
    }  # fmt: skip
    found = arrow_type(json.dumps(record).encode())
    assert [(each.name, each.type) for each in found] == [(name, kind) for name, _, kind in fields]


def test_a_type_is_read_as_spark_writes_it() -> None:
    text = "`a b` INT, d Decimal(9, 2), m map<string, array<struct<x:int, y:date>>>"
    assert struct_type(text) == (
        pa.struct(
            [
                ("a b", pa.int32()),
                ("d", pa.decimal128(9, 2)),
                ("m", pa.map_(
                    pa.string(), pa.list_(pa.struct([("x", pa.int32()), ("y", pa.date32())]))
                )),
            ]
        )
    )  # fmt: skip


KINDS = struct_type(
    "s string, i int, l long, d double, b boolean, r binary, n decimal(9,2), t timestamp, "
    "a array<int>, m map<string, long>, o struct<x: int>"
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([each.name for each in KINDS]), ANY))
def test_whatever_json_holds_becomes_the_type_or_null(document: dict[str, Any]) -> None:
    column = JsonForm(KINDS).read([json.dumps(document).encode()], [None])
    column.validate(full=True)
    assert column.type == KINDS
    assert column.null_count == 0


def test_halves_of_characters_are_replaced() -> None:
    """JSON's escapes can say what UTF-8 cannot, and any publisher may send them."""
    fields = struct_type("a string, m map<string,int>, b binary")
    body = rb'{"a": "x\ud800y\ud83d\ude00", "m": {"\udc00": 1}, "b": "\ud800-"}'
    assert JsonForm(fields).read([body], [None]).to_pylist() == [
        {"a": "x\ufffdy\U0001f600", "m": [("\ufffd", 1)], "b": "\ufffd-".encode()}
    ]
    (headers,) = typed_headers([{"n": "7", TYPES_NAME: r'{"n": "\ud800"}'}]).to_pylist()
    assert dict(headers)["n"]["type"] == "\ufffd"


def test_numbers_and_times_fit_where_they_can() -> None:
    convert = converter(KINDS)
    found = convert({"d": 3, "n": "1.25", "t": 1000, "r": "AQI=", "i": 2.5, "b": 1})
    assert found["d"] == 3.0
    assert found["n"] == Decimal("1.25")
    assert found["t"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert found["r"] == b"\x01\x02"
    assert (found["i"], found["b"]) == (None, None)
