"""Values of any schema that a topic has.

The rule: only for reading. The writer's schema decides the value: text, a dict for a record, a
Protocol Buffers message, or bytes for any other type.
"""

import json
from typing import Any

from arneb_pulsar.client.codec.schemas.avro_schema import parse_definition, read_avro
from arneb_pulsar.client.codec.schemas.protobuf_schema import read_protobuf
from arneb_pulsar.client.codec.schemas.schema import SchemaInfo, StringSchema
from arneb_pulsar.client.errors import SchemaError
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema


class AutoConsumeSchema:
    """Decodes each message with its writer's definition."""

    info = SchemaInfo(WireSchema.AutoConsume, "AutoConsume")

    def encode(self, value: Any) -> bytes:
        """Raise :class:`SchemaError`: this schema cannot write."""
        raise SchemaError("expected a schema to write with, got one that only reads")

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        """Return the value. Raises :class:`SchemaError` if ``data`` does not match its writer's
        schema."""
        if writer is None:
            return data
        if writer.type == WireSchema.String:
            return StringSchema().decode(data)
        if writer.type == WireSchema.Json:
            try:
                return json.loads(data)
            except (ValueError, RecursionError) as error:
                raise SchemaError(f"expected JSON, got {len(data)} bytes: {error}") from error
        if writer.type == WireSchema.Avro:
            return read_avro(data, parse_definition(writer.data))
        if writer.type == WireSchema.ProtobufNative:
            return read_protobuf(data, writer.data)
        return data
