"""What bodies say by their schemas; fastavro, which reads for real, is the judge of Avro."""

import io
import json
from struct import pack
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_one
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.schemas.test_resolution import SCHEMAS

from arneb_pulsar.schemas.avro_value import (
    DEPTH_MAX,
    NAMES_CHARACTERS_MAX,
    STEPS_MAX,
    InvalidValue,
    read_avro,
)
from arneb_pulsar.schemas.schema import Schema, SchemaType
from arneb_pulsar.schemas.values import READABLE, value_text


def definition(schema: Any) -> bytes:
    return json.dumps(schema).encode()


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def plain(value: Any) -> Any:
    """A value of fastavro's as ours."""
    match value:
        case bytes():
            return f"0x{value.hex()}"
        case float() if value in (float("inf"), float("-inf")) or value != value:
            return str(value)
        case list():
            return [plain(each) for each in value]
        case dict():
            return {key: plain(each) for key, each in value.items()}
    return value


@given(SCHEMAS)
def test_values_are_what_fastavro_reads(schema: Any) -> None:
    body = written(schema, generate_one(fastavro.parse_schema(schema)))
    known = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(schema), None)
    assert read_avro(definition(schema), body) == plain(known)


@given(SCHEMAS, st.binary(max_size=200))
def test_whatever_a_body_is_it_is_read_or_refused(schema: Any, body: bytes) -> None:
    try:
        json.dumps(read_avro(definition(schema), body))
    except InvalidValue as error:
        assert str(error)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["int", "record", "x", "a.b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "name", "fields", "items", "values", "symbols", "size", "namespace",
                 "logicalType", "scale"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(ANY_JSON, st.binary(max_size=50))
def test_whatever_a_definition_is_it_is_followed_or_refused(schema: Any, body: bytes) -> None:
    try:
        read_avro(definition(schema), body)
    except InvalidValue as error:
        assert str(error)


def zigzag(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


NULLS = {"type": "array", "items": "null"}


def test_an_array_of_nothing_is_not_believed() -> None:
    with pytest.raises(InvalidValue, match=f"more than {STEPS_MAX}"):
        read_avro(definition(NULLS), zigzag(1 << 50) + b"\0")
    with pytest.raises(InvalidValue, match=f"more than {STEPS_MAX}"):
        read_avro(definition(NULLS), zigzag(STEPS_MAX // 2) * 3 + b"\0")


def test_what_holds_itself_is_as_deep_as_may_be_and_no_deeper() -> None:
    node = {
        "type": "record", "name": "Node", "namespace": "n",
        "fields": [{"name": "next", "type": ["null", "Node"]}],
    }  # fmt: skip
    assert read_avro(definition(node), b"\2\2\0") == {"next": {"next": {"next": None}}}
    with pytest.raises(InvalidValue, match=f"deeper than {DEPTH_MAX}"):
        read_avro(definition(node), b"\2" * 1000 + b"\0")


def test_long_names_are_not_written_again_and_again() -> None:
    field = {"name": "x" * 1000, "type": "null"}
    many = {"type": "array", "items": {"type": "record", "name": "R", "fields": [field]}}
    count = NAMES_CHARACTERS_MAX // 1000
    assert len(read_avro(definition(many), zigzag(count) + b"\0")) == count
    with pytest.raises(InvalidValue, match="its names are more than"):
        read_avro(definition(many), zigzag(count + 10) + b"\0")


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1_000, "1970-01-01T00:00:01Z"),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1, "1970-01-01T00:00:00.000001Z"),
        ({"type": "int", "logicalType": "date"}, 31, "1970-02-01"),
        ({"type": "string", "logicalType": "uuid"}, "a-b", "a-b"),
    ],
)
def test_times_are_written_as_people_do(schema: Any, value: Any, shown: str) -> None:
    bare = {name: each for name, each in schema.items() if name != "logicalType"}
    assert read_avro(definition(schema), written(bare, value)) == shown


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    schema = {"type": "long", "logicalType": "timestamp-micros"}
    assert read_avro(definition(schema), written("long", 1 << 62)) == 1 << 62


def test_a_decimal_is_a_decimal() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert read_avro(definition(schema), written("bytes", (-1234).to_bytes(2, signed=True))) == (
        "-12.34"
    )


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        (SchemaType.INT8, b"\xff", "-1"),
        (SchemaType.INT16, pack(">h", -2), "-2"),
        (SchemaType.INT32, pack(">i", 3), "3"),
        (SchemaType.INT64, pack(">q", 1 << 40), str(1 << 40)),
        (SchemaType.DOUBLE, pack(">d", 0.5), "0.5"),
        (SchemaType.FLOAT, pack(">f", float("nan")), '"nan"'),
        (SchemaType.BOOLEAN, b"\1", "true"),
        (SchemaType.STRING, "Köln".encode(), '"Köln"'),
        (SchemaType.JSON, b'{"a":1}', '{\n  "a": 1\n}'),
    ],
)
def test_primitives_are_shown(kind: SchemaType, body: bytes, shown: str) -> None:
    assert value_text(Schema(kind), body) == shown


@pytest.mark.parametrize("kind", sorted(set(SchemaType), key=lambda each: each.value))
@given(body=st.binary(max_size=30))
def test_a_body_of_any_schema_is_shown_or_refused(kind: SchemaType, body: bytes) -> None:
    try:
        value_text(Schema(kind, b'"long"'), body)
        assert kind in READABLE
    except InvalidValue as error:
        assert str(error)


def pair(encoding: str) -> Schema:
    long = b'"long"'
    data = pack(">i", 0) + pack(">i", len(long)) + long
    properties = {
        "key.schema.type": "STRING", "value.schema.type": "AVRO", "kv.encoding.type": encoding,
    }  # fmt: skip
    return Schema(SchemaType.KEY_VALUE, data, properties)


def test_a_pair_is_shown_by_its_two_schemas() -> None:
    inline = pack(">i", 1) + b"k" + pack(">i", 1) + b"\6"
    assert json.loads(value_text(pair("INLINE"), inline)) == {"key": "k", "value": 3}
    assert json.loads(value_text(pair("SEPARATED"), b"\6", b"k")) == {"key": "k", "value": 3}
    nothing = pack(">ii", -1, -1)
    assert json.loads(value_text(pair("INLINE"), nothing)) == {"key": None, "value": None}
    with pytest.raises(InvalidValue, match="bytes more"):
        value_text(pair("INLINE"), inline + b"x")
