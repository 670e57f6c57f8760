"""Values as JSON, described by an Avro definition.

The rule: a field that the reader does not know is ignored, and one that the writer did not know has
its default; there is no other schema evolution in JSON.
"""

import json
from typing import Any, Generic, TypeVar

from arneb_pulsar.client.codec.schemas.records import (
    Definition,
    definition_text,
    from_plain,
    to_json,
)
from arneb_pulsar.client.codec.schemas.schema import SchemaInfo
from arneb_pulsar.client.errors import SchemaError
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema

T = TypeVar("T")


class JsonSchema(Generic[T]):
    """Values of a dataclass, or dicts for a record definition, as JSON."""

    def __init__(self, record: type[T] | Definition) -> None:
        self._cls = record if isinstance(record, type) else None
        text = definition_text(record)
        name = json.loads(text)["name"]
        self.info = SchemaInfo(WireSchema.Json, name, text.encode())

    def __repr__(self) -> str:
        return f"<JsonSchema {self.info.name}>"

    def encode(self, value: T) -> bytes:
        """Encode a value. Raises :class:`SchemaError` for one of another type."""
        if self._cls is not None and not isinstance(value, self._cls):
            raise SchemaError(f"expected {self._cls.__name__}, got {type(value).__name__}")
        try:
            text = json.dumps(to_json(value), separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise SchemaError(f"expected a value that JSON can say: {error}") from error
        return text.encode()

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> T:
        """Decode a value. Raises :class:`SchemaError` if ``data`` is not JSON, or not of this
        record."""
        found = _parse(data)
        if self._cls is None:
            return found  # type: ignore[no-any-return]
        return from_plain(self._cls, found)  # type: ignore[no-any-return]


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"expected JSON, got {len(data)} bytes: {error}") from error
