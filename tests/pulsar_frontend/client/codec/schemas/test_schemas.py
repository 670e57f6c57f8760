"""Every schema: what it encodes it decodes, and what it cannot is an error of one kind."""

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.client.codec.schemas.auto import AutoConsumeSchema
from arneb_pulsar.client.codec.schemas.avro_schema import AvroSchema
from arneb_pulsar.client.codec.schemas.json_schema import JsonSchema
from arneb_pulsar.client.codec.schemas.protobuf_schema import ProtobufNativeSchema
from arneb_pulsar.client.codec.schemas.schema import (
    BytesSchema,
    SchemaInfo,
    StringSchema,
)
from arneb_pulsar.client.errors import ConfigurationError, SchemaError
from arneb_pulsar.schemas.compatibility import Strategy, check_producer, check_valid
from arneb_pulsar.schemas.schema import Schema as BrokerSchema
from arneb_pulsar.schemas.schema import SchemaType
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema


class Colour(Enum):
    BROWN = 1
    WHITE = 2


@dataclass
class Ear:
    length: float
    marks: list[str] = field(default_factory=list)


@dataclass
class Hare:
    name: str
    weight: int
    colour: Colour
    seen: datetime
    born: date
    tag: UUID
    photo: bytes
    ears: list[Ear]
    left: Ear
    counts: dict[str, int]
    burrow: str | None = None
    is_fast: bool = True


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
EARS = st.builds(Ear, st.floats(allow_nan=False, allow_infinity=False), st.lists(TEXTS, max_size=2))
MILLISECONDS = st.integers(-(10**12), 10**13).map(
    lambda ms: datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
)
HARES = st.builds(
    Hare,
    name=TEXTS,
    weight=LONGS,
    colour=st.sampled_from(Colour),
    seen=MILLISECONDS,
    born=st.dates(),
    tag=st.uuids(),
    photo=st.binary(max_size=5),
    ears=st.lists(EARS, max_size=2),
    left=EARS,
    counts=st.dictionaries(TEXTS, LONGS, max_size=2),
    burrow=st.none() | TEXTS,
    is_fast=st.booleans(),
)


@given(HARES)
def test_avro_brings_back_what_it_was_given(hare: Hare) -> None:
    schema = AvroSchema(Hare)
    assert schema.decode(schema.encode(hare)) == hare
    assert schema.decode(schema.encode(hare), schema.info) == hare


@dataclass
class Plain:
    """What JSON can say: no bytes."""

    name: str
    weight: int
    colour: Colour
    seen: datetime
    born: date
    tag: UUID
    ears: list[Ear]
    counts: dict[str, int]
    burrow: str | None = None
    is_fast: bool = True


@given(HARES)
def test_json_brings_back_what_it_was_given(hare: Hare) -> None:
    names = Plain.__dataclass_fields__
    plain = Plain(**{name: getattr(hare, name) for name in names})
    schema = JsonSchema(Plain)
    assert schema.decode(schema.encode(plain)) == plain


@given(st.binary())
def test_bytes_are_bytes(data: bytes) -> None:
    assert BytesSchema().decode(BytesSchema().encode(data)) == data
    assert BytesSchema().info.to_wire() is None


@given(TEXTS)
def test_text_is_utf_8(text: str) -> None:
    assert StringSchema().encode(text) == text.encode()
    assert StringSchema().decode(text.encode()) == text


def test_protobuf_brings_its_descriptors_and_reads_what_it_wrote() -> None:
    schema = ProtobufNativeSchema(FieldDescriptorProto)
    value = FieldDescriptorProto(name="ear", number=2)
    assert schema.decode(schema.encode(value)) == value
    definition = json.loads(schema.info.data)
    assert definition["rootMessageTypeName"] == "google.protobuf.FieldDescriptorProto"
    assert definition["rootFileDescriptorName"] == "google/protobuf/descriptor.proto"
    check_valid(BrokerSchema(SchemaType.PROTOBUF_NATIVE, schema.info.data))


@pytest.mark.parametrize("schema", [AvroSchema(Hare), JsonSchema(Plain)])
def test_a_broker_takes_the_definition(schema: AvroSchema[Hare] | JsonSchema[Plain]) -> None:
    check_valid(BrokerSchema(SchemaType(schema.info.type), schema.info.data))
    wire = schema.info.to_wire()
    assert wire is not None
    assert SchemaInfo.from_wire(wire) == schema.info


def test_a_definition_says_what_the_dataclass_says() -> None:
    assert json.loads(AvroSchema(Ear).info.data) == {
        "type": "record",
        "name": "Ear",
        "fields": [
            {"name": "length", "type": "double"},
            {"name": "marks", "type": {"type": "array", "items": "string"}, "default": []},
        ],
    }
    fields = {each["name"]: each for each in json.loads(AvroSchema(Hare).info.data)["fields"]}
    assert fields["burrow"] == {"name": "burrow", "type": ["null", "string"], "default": None}
    assert fields["left"]["type"] == "Ear"
    assert fields["seen"]["type"] == {"type": "long", "logicalType": "timestamp-millis"}


@dataclass
class Before:
    name: str
    weight: int
    gone: str = ""


@dataclass
class After:
    name: str
    weight: float
    home: str | None = "form"
    note: str | None = None


def test_what_an_older_producer_wrote_is_read_with_its_definition_and_ones_own() -> None:
    old, new = AvroSchema(Before), AvroSchema(After)
    data = old.encode(Before("Lepus", 4, "x"))
    assert new.decode(data, old.info) == After("Lepus", 4.0, "form", None)
    old_schema = BrokerSchema(SchemaType.AVRO, old.info.data)
    new_schema = BrokerSchema(SchemaType.AVRO, new.info.data)
    check_producer([old_schema], new_schema, Strategy.BACKWARD)


def test_json_fields_come_and_go() -> None:
    data = JsonSchema(Before).encode(Before("Lepus", 4, "x"))
    assert JsonSchema(After).decode(data) == After("Lepus", 4.0, "form", None)


def test_definitions_may_be_given_as_they_are() -> None:
    definition = {"type": "record", "name": "Ear", "fields": [{"name": "length", "type": "double"}]}
    for schema in (AvroSchema[dict[str, Any]](definition), JsonSchema[dict[str, Any]](definition)):
        assert schema.decode(schema.encode({"length": 2.5})) == {"length": 2.5}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (BytesSchema(), "text"),
        (StringSchema(), b"bytes"),
        (StringSchema(), "\ud800"),
        (AvroSchema(Ear), Before("a", 1)),
        (AvroSchema(Ear), Ear("long")),  # type: ignore[arg-type]
        (AvroSchema(Before), Before("a", 1 << 64)),
        (JsonSchema(Ear), {"length": 1.0}),
        (JsonSchema(Ear), Ear(float("nan"))),
        (JsonSchema(Ear), Ear(b"x")),  # type: ignore[arg-type]
        (ProtobufNativeSchema(Timestamp), FieldDescriptorProto()),
        (AutoConsumeSchema(), "anything"),
    ],
)
def test_what_a_schema_cannot_say_is_refused(schema: Any, value: Any) -> None:
    with pytest.raises(SchemaError, match="expected"):
        schema.encode(value)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (StringSchema(), b"\xff"),
        (AvroSchema(Ear), b""),
        (AvroSchema(Ear), AvroSchema(Ear).encode(Ear(1.0)) + b"x"),
        (JsonSchema(Ear), b"{"),
        (JsonSchema(Ear), b"[]"),
        (JsonSchema(Ear), b"{}"),
        (JsonSchema(Ear), b'{"length": "long"}'),
        (JsonSchema(Ear), b"[" * 100_000),
        (ProtobufNativeSchema(Timestamp), b"\xff"),
    ],
)
def test_bytes_that_a_schema_cannot_have_written_are_refused(schema: Any, data: bytes) -> None:
    with pytest.raises(SchemaError, match="expected"):
        schema.decode(data)


@given(st.binary(max_size=60), st.sampled_from([AvroSchema(Hare), JsonSchema(Plain)]))
def test_no_bytes_do_anything_else(data: bytes, schema: Any) -> None:
    with suppress(SchemaError):
        schema.decode(data)


def test_a_writer_whose_definition_fits_nothing_is_an_error() -> None:
    data = AvroSchema(Ear).encode(Ear(1.0))
    for definition in (b"", b"[]", b'{"type": "record"}', AvroSchema(After).info.data):
        with pytest.raises(SchemaError, match="expected"):
            AvroSchema(Ear).decode(data, SchemaInfo(WireSchema.Avro, "Ear", definition))


def test_types_that_avro_does_not_know_are_refused() -> None:
    @dataclass
    class Odd:
        value: complex

    with pytest.raises(ConfigurationError, match="complex"):
        AvroSchema(Odd)
    with pytest.raises(ConfigurationError, match="dataclass"):
        JsonSchema(int)


def test_an_automatic_schema_reads_what_the_producer_meant() -> None:
    auto = AutoConsumeSchema()
    ear = Ear(2.5, ["x"])
    for schema in (AvroSchema(Ear), JsonSchema(Ear)):
        assert auto.decode(schema.encode(ear), schema.info) == {"length": 2.5, "marks": ["x"]}
    assert auto.decode(b"text", StringSchema().info) == "text"
    native = ProtobufNativeSchema(Timestamp)
    read = auto.decode(native.encode(Timestamp(seconds=5, nanos=7)), native.info)
    assert (read.seconds, read.nanos) == (5, 7)
    assert auto.decode(b"\x00") == b"\x00"
    with pytest.raises(SchemaError, match="JSON"):
        auto.decode(b"{", JsonSchema(Ear).info)


@pytest.mark.parametrize(
    "definition",
    [
        b"",
        b"[]",
        b"{}",
        b'{"fileDescriptorSet": "", "rootMessageTypeName": "a.B"}',
        b'{"fileDescriptorSet": "/w==", "rootMessageTypeName": "a.B"}',
        b'{"fileDescriptorSet": 7, "rootMessageTypeName": "a.B"}',
        b'{"fileDescriptorSet": "CgUKA2EuYg==", "rootMessageTypeName": null}',
    ],
)
def test_descriptors_that_are_none_are_said_to_be_so(definition: bytes) -> None:
    written = replace(ProtobufNativeSchema(Timestamp).info, data=definition)
    with pytest.raises(SchemaError, match="expected descriptors of a message"):
        AutoConsumeSchema().decode(b"", written)


def test_what_is_no_message_of_its_writer_is_said_to_be_so() -> None:
    with pytest.raises(SchemaError, match="expected what its writer's descriptors say"):
        AutoConsumeSchema().decode(b"\xff", ProtobufNativeSchema(Timestamp).info)
