"""A schema: its type, its definition, and its properties, as in Pulsar.

The rule: a definition is kept as it came, byte for byte; clients compare and cache it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from typing import Final

from arneb_pulsar.wire.proto import pulsar_pb2 as pb

SCHEMA_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one definition. Pulsar stores them where values are bounded by this size."""

VERSION: Final = Struct(">q")


class SchemaType(Enum):
    """The types that a broker knows, by their numbers in the protocol."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    """For a consumer that takes any schema."""


STRUCTURED: Final = frozenset({SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF})
"""Types whose definitions are in Avro."""

WITHOUT_DEFINITION: Final = frozenset(
    set(SchemaType) - STRUCTURED - {SchemaType.KEY_VALUE, SchemaType.PROTOBUF_NATIVE}
)


@dataclass(frozen=True, slots=True)
class Schema:
    """What a client attaches to a topic."""

    type: SchemaType
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a topic's schema; ``schema`` None = a deletion."""

    number: int
    schema: Schema | None
    timestamp_ms: int

    @property
    def bytes(self) -> bytes:
        """The version in the form that clients get."""
        return VERSION.pack(self.number)


def version_number(data: bytes) -> int:
    """Return the number in a client's version. Raises :class:`ValueError`."""
    if len(data) != VERSION.size:
        raise ValueError(f"expected a schema version of {VERSION.size} bytes, got {len(data)}")
    number: int = VERSION.unpack(data)[0]
    return number


def from_wire(message: pb.Schema, properties: Mapping[str, str]) -> Schema:
    """Return the schema in a command; its properties are given as text."""
    return Schema(SchemaType(message.type), message.schema_data, properties)


def to_wire(schema: Schema, name: str) -> pb.Schema:
    """Return the schema in the form of a command."""
    properties = [pb.KeyValue(key=key, value=value) for key, value in schema.properties.items()]
    kind = pb.Schema.Type.ValueType(schema.type.value)
    return pb.Schema(name=name, schema_data=schema.data, type=kind, properties=properties)
