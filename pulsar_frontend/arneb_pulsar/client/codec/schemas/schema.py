"""The interface of schemas, and the schemas that need no definition.

The rule: a value written with another version of a schema is read with two definitions: the
writer's, which the caller looks up by the message's schema version, and the reader's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from arneb_pulsar.client.errors import SchemaError
from arneb_pulsar.wire.proto.pulsar_pb2 import KeyValue
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SchemaInfo:
    """A schema as brokers keep it."""

    type: int
    """The type's number in the protocol."""
    name: str
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> WireSchema | None:
        """Return the field for PRODUCER and SUBSCRIBE; None for plain bytes, which need none."""
        if self.type == WireSchema.Type.Value("None"):
            return None
        pairs = [KeyValue(key=key, value=value) for key, value in self.properties.items()]
        return WireSchema(
            name=self.name,
            schema_data=self.data,
            type=WireSchema.Type.ValueType(self.type),
            properties=pairs,
        )

    @classmethod
    def from_wire(cls, schema: WireSchema) -> "SchemaInfo":
        """Return the schema in a broker's response."""
        properties = {pair.key: pair.value for pair in schema.properties}
        return cls(schema.type, schema.name, schema.schema_data, properties)


class Schema(Protocol[T]):
    """Encodes and decodes values of one type. ``writer`` is the writer's schema, if known."""

    @property
    def info(self) -> SchemaInfo: ...

    def encode(self, value: T) -> bytes: ...

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> T: ...


class BytesSchema:
    """Bytes as they are."""

    info = SchemaInfo(WireSchema.Type.Value("None"), "BYTES")

    def encode(self, value: bytes) -> bytes:
        """Return ``value`` as bytes. Raises :class:`SchemaError` if it is not bytes."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise SchemaError(f"expected bytes, got {type(value).__name__}")
        return bytes(value)

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> bytes:
        """Return ``data``."""
        return data


class StringSchema:
    """Text in UTF-8."""

    info = SchemaInfo(WireSchema.Type.Value("String"), "String")

    def encode(self, value: str) -> bytes:
        """Encode text. Raises :class:`SchemaError` if ``value`` is not text, or has a lone
        surrogate."""
        if not isinstance(value, str):
            raise SchemaError(f"expected text, got {type(value).__name__}")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise SchemaError(f"expected text that UTF-8 can say: {error}") from error

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> str:
        """Decode text. Raises :class:`SchemaError` if ``data`` is not UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SchemaError(f"expected UTF-8, got {len(data)} bytes: {error}") from error
