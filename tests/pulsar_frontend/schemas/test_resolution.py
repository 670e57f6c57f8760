"""What can be read with another schema; fastavro, which reads for real, is the judge."""

import io
import json
from typing import Any

import fastavro
import pytest
from avro.schema import parse
from fastavro.utils import generate_one
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.schemas.resolution import can_read

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


def fields_of(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from("abc"), unique=True, max_size=3)
    return names.flatmap(
        lambda chosen: st.tuples(*(types for _ in chosen)).map(
            lambda found: [
                {"name": name, "type": each} | ({"default": None} if _is_optional(each) else {})
                for name, each in zip(chosen, found, strict=True)
            ]
        )
    )


def _is_optional(schema: Any) -> bool:
    return isinstance(schema, list) and schema[0] == "null"


def records(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return fields_of(types).map(lambda fields: {"type": "record", "name": "R", "fields": fields})


SIMPLE = st.sampled_from(PRIMITIVES)
UNIONS = st.lists(SIMPLE, unique=True, min_size=1, max_size=3)
NESTED = st.one_of(
    SIMPLE,
    UNIONS,
    SIMPLE.map(lambda items: {"type": "array", "items": items}),
    SIMPLE.map(lambda values: {"type": "map", "values": values}),
)
SCHEMAS = st.one_of(NESTED, records(NESTED))


def avro(schema: Any) -> Any:
    return parse(json.dumps(schema), validate_names=False)


@given(schema=SCHEMAS)
def test_everything_reads_itself(schema: Any) -> None:
    assert can_read(avro(schema), avro(schema))


def readable(value: Any) -> Any:
    """The value with bytes that are text. Bytes may be read as a string, by the rules and by the
    schemas alone; that random ones are no UTF-8 is a matter of the data, for who reads them."""
    match value:
        case bytes():
            return value.hex().encode()
        case dict():
            return {key: readable(each) for key, each in value.items()}
        case list():
            return [readable(each) for each in value]
    return value


@given(reader=SCHEMAS, writer=SCHEMAS)
def test_what_is_said_to_be_readable_is_read(reader: Any, writer: Any) -> None:
    if not can_read(avro(reader), avro(writer)):
        return
    written = io.BytesIO()
    fastavro.schemaless_writer(written, writer, readable(generate_one(writer)))
    written.seek(0)
    fastavro.schemaless_reader(written, writer, reader)


def record(*fields: dict[str, Any], name: str = "R") -> Any:
    return avro({"type": "record", "name": name, "fields": list(fields)})


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
B_OR_NOT = {"name": "b", "type": ["null", "string"], "default": None}


@pytest.mark.parametrize(
    ("reader", "writer", "fits"),
    [
        (record(A), record(A, B), True),
        (record(A, B), record(A), False),
        (record(A, B_OR_NOT), record(A), True),
        (record(A, name="S"), record(A), True),
        (record({"name": "a", "type": "long"}), record(A), True),
        (record(A), record({"name": "a", "type": "long"}), False),
        (avro(["null", "int"]), avro("int"), True),
        (avro("int"), avro(["null", "int"]), False),
        (avro("int"), avro(["int"]), True),
        (avro({"type": "array", "items": "long"}), avro({"type": "array", "items": "int"}), True),
        (avro({"type": "map", "values": "int"}), avro({"type": "array", "items": "int"}), False),
        (avro("string"), avro("bytes"), True),
    ],
)
def test_the_rules(reader: Any, writer: Any, fits: bool) -> None:
    assert can_read(reader, writer) is fits


def test_enums_and_fixed_go_by_name() -> None:
    def enum(name: str, *symbols: str) -> Any:
        return avro({"type": "enum", "name": name, "symbols": symbols})

    def fixed(name: str, size: int) -> Any:
        return avro({"type": "fixed", "name": name, "size": size})

    assert can_read(enum("E", "a", "b"), enum("E", "a"))
    assert can_read(enum("E", "a"), enum("E", "a", "b")), "Avro's Java resolver allows this"
    assert not can_read(enum("E", "a"), enum("F", "a"))
    assert can_read(fixed("F", 4), fixed("F", 4))
    assert not can_read(fixed("F", 4), fixed("F", 5))
    assert not can_read(fixed("F", 4), fixed("G", 4))


def test_a_type_may_hold_itself() -> None:
    def tree(payload: str) -> Any:
        child = {"name": "next", "type": ["null", "R"], "default": None}
        return record({"name": "x", "type": payload}, child)

    assert can_read(tree("long"), tree("int"))
    assert not can_read(tree("int"), tree("long"))
