"""Values of whatever schema the topic has.

The rule: only for reading. What is read is what its writer meant: text, dicts of records, messages
of Protocol Buffers, or bytes where the type has no meaning here.
"""

import json
from typing import Any

from arneb_pulsar.client.codec.schemas.avro_schema import parse_definition, read_avro
from arneb_pulsar.client.codec.schemas.protobuf_schema import read_protobuf
from arneb_pulsar.client.codec.schemas.schema import SchemaInfo, StringSchema
from arneb_pulsar.client.errors import SchemaError
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema


class AutoConsumeSchema:
    """Reads with the definition that each message was written with."""

    info = SchemaInfo(WireSchema.AutoConsume, "AutoConsume")

    def encode(self, value: Any) -> bytes:
        """Raises :class:`SchemaError`: nothing is known of what is to be written."""
        raise SchemaError("expected a schema to write with, got one that only reads")

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        """Raises :class:`SchemaError` if ``data`` is not what its writer's schema says."""
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
