"""Which schemas go with which, by strategy."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.schemas.compatibility import (
    IncompatibleSchema,
    Strategy,
    check_consumer,
    check_producer,
    check_valid,
    is_same,
)
from arneb_pulsar.schemas.schema import (
    SCHEMA_BYTES_MAX,
    Schema,
    SchemaType,
    from_wire,
    to_wire,
    version_number,
)


def record(*fields: str, kind: SchemaType = SchemaType.AVRO, **more: Any) -> Schema:
    """A record of integers; a field whose name ends in ``?`` has a default."""
    found = [
        {"name": name[:-1], "type": "int", "default": 0}
        if name.endswith("?")
        else {"name": name, "type": "int"}
        for name in fields
    ]
    definition = {"type": "record", "name": "R", "fields": found} | more
    return Schema(kind, json.dumps(definition).encode())


STRING, INT = Schema(SchemaType.STRING), Schema(SchemaType.INT32)


def accepts(present: list[Schema], new: Schema, strategy: Strategy) -> bool:
    try:
        check_producer(present, new, strategy)
    except IncompatibleSchema:
        return False
    return True


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
@pytest.mark.parametrize(
    ("new", "backward", "forward"),
    [
        (["a", "b?"], True, True),
        (["a", "b"], False, True),
        (["b?"], True, False),
        (["b"], False, False),
        (["a"], True, True),
    ],
)
def test_each_strategy_asks_who_can_read_whom(
    kind: SchemaType, new: list[str], backward: bool, forward: bool
) -> None:
    old, later = record("a", kind=kind), record(*new, kind=kind, doc="later")
    expected = {
        Strategy.ALWAYS_COMPATIBLE: True,
        Strategy.ALWAYS_INCOMPATIBLE: False,
        Strategy.BACKWARD: backward,
        Strategy.BACKWARD_TRANSITIVE: backward,
        Strategy.FORWARD: forward,
        Strategy.FORWARD_TRANSITIVE: forward,
        Strategy.FULL: backward and forward,
        Strategy.FULL_TRANSITIVE: backward and forward,
    }
    assert {each: accepts([old], later, each) for each in Strategy} == expected
    assert all(accepts([], later, each) for each in Strategy)


def test_transitive_strategies_ask_all() -> None:
    present = [record("a"), record("a?", "b?"), record("b?")]
    new = record("a")
    assert accepts(present[1:2], new, Strategy.BACKWARD)
    assert not accepts(present, new, Strategy.BACKWARD_TRANSITIVE)
    assert accepts([record("z"), record("a")], record("a", doc="x"), Strategy.FULL)
    assert not accepts([record("z"), record("a")], record("a", doc="x"), Strategy.FULL_TRANSITIVE)


@pytest.mark.parametrize(
    "strategy", [each for each in Strategy if each is not Strategy.ALWAYS_COMPATIBLE]
)
def test_types_must_agree(strategy: Strategy) -> None:
    with pytest.raises(IncompatibleSchema, match="exists schema type STRING, new schema type INT"):
        check_producer([STRING], INT, strategy)
    with pytest.raises(IncompatibleSchema, match="exists schema type"):
        check_consumer([STRING], record("a"), strategy)


def test_a_consumer_must_read_what_is_there() -> None:
    check_consumer([record("a", "b")], record("a"), Strategy.FULL)
    check_consumer([record("a")], record("a"), Strategy.FORWARD)
    with pytest.raises(IncompatibleSchema, match="Unable to read schema"):
        check_consumer([record("a")], record("a", "b"), Strategy.FORWARD)
    with pytest.raises(IncompatibleSchema, match="active topic .* new schema type STRING"):
        check_consumer([], STRING, Strategy.FULL)
    check_consumer([], STRING, Strategy.ALWAYS_COMPATIBLE)


def key_value(key: Schema | None, value: Schema | None) -> Schema:
    data, properties = b"", {}
    for which, part in (("key", key), ("value", value)):
        body = b"" if part is None else part.data
        data += len(body).to_bytes(4, "big") + body
        properties[f"{which}.schema.type"] = "BYTES" if part is None else part.type.name
    return Schema(SchemaType.KEY_VALUE, data, properties)


def test_keys_and_values_are_compared_apart() -> None:
    old = key_value(STRING, record("a"))
    assert accepts([old], key_value(STRING, record("a", "b?")), Strategy.FULL)
    assert not accepts([old], key_value(STRING, record("b")), Strategy.FULL)
    assert not accepts([old], key_value(INT, record("a", doc="x")), Strategy.FULL)
    check_valid(key_value(None, None))
    with pytest.raises(IncompatibleSchema):
        check_valid(Schema(SchemaType.KEY_VALUE, b"\xff\xff"))


@pytest.mark.parametrize(
    "schema",
    [
        Schema(SchemaType.AVRO, b"not json"),
        Schema(SchemaType.AVRO, b'{"type": "unheard"}'),
        Schema(SchemaType.AVRO, b"\xff"),
        Schema(SchemaType.AVRO, b"[" * 100_000),
        Schema(SchemaType.JSON, b"[" * 100_000),
        Schema(SchemaType.JSON, b"3"),
        Schema(SchemaType.STRING, b"x"),
        Schema(SchemaType.AUTO_CONSUME),
        Schema(SchemaType.AVRO, b'["int", "string"]'),
        Schema(SchemaType.PROTOBUF_NATIVE, bytes(SCHEMA_BYTES_MAX + 1)),
    ],
)
def test_what_is_no_definition_is_refused(schema: Schema) -> None:
    with pytest.raises(IncompatibleSchema):
        check_valid(schema)


def test_a_union_is_a_definition_in_json_only() -> None:
    check_valid(Schema(SchemaType.JSON, b'["int", "string"]'))
    with pytest.raises(IncompatibleSchema, match=r"typed \[UNION\] is not supported"):
        check_valid(Schema(SchemaType.AVRO, b'["int", "string"]'))


def test_python_defines_what_needs_no_definition() -> None:
    python = Schema(SchemaType.STRING, b"null")
    check_valid(python)
    check_valid(key_value(python, python))
    assert accepts([STRING], python, Strategy.FULL)
    assert accepts([python], STRING, Strategy.FULL)


@given(data=st.binary(max_size=60), kind=st.sampled_from(SchemaType))
def test_anything_is_valid_or_incompatible(data: bytes, kind: SchemaType) -> None:
    schema = Schema(kind, data)
    try:
        check_valid(schema)
    except IncompatibleSchema:
        return
    assert is_same(schema, schema)
    check_producer([schema], schema, Strategy.FULL)


def test_json_schemas_of_the_older_form_are_let_be() -> None:
    old = Schema(SchemaType.JSON, b'{"type": "object", "id": "urn:x", "properties": {}}')
    check_valid(old)
    assert accepts([old], record("a", kind=SchemaType.JSON), Strategy.FULL)


def test_what_says_the_same_is_the_same() -> None:
    spaced = Schema(SchemaType.AVRO, record("a").data.replace(b",", b" , "))
    assert is_same(record("a"), spaced)
    assert is_same(record("a"), record("a", doc="a comment"))
    assert not is_same(record("a"), record("b"))
    assert not is_same(record("a"), record("a", kind=SchemaType.JSON))
    assert is_same(STRING, Schema(SchemaType.STRING))


def test_a_schema_crosses_the_wire_unchanged() -> None:
    schema = Schema(SchemaType.AVRO, b"{}", {"k": "v"})
    message = to_wire(schema, "t")
    assert message.name == "t"
    assert from_wire(message, {each.key: each.value for each in message.properties}) == schema
    assert version_number(bytes(7) + b"\x05") == 5
    with pytest.raises(ValueError, match="8 bytes"):
        version_number(b"")
