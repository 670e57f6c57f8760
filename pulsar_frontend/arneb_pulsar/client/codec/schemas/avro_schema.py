"""Values in Avro's binary form, without a header: the topic keeps the definition.

The rule: bytes are read with the writer's definition and resolved to the reader's; the records'
names need not agree, since classes in Java and in Python are named differently.
"""

import json
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, Generic, TypeVar

import fastavro
from fastavro.schema import SchemaParseException

from arneb_pulsar.client.codec.schemas.records import (
    Definition,
    definition_text,
    from_plain,
    to_plain,
)
from arneb_pulsar.client.codec.schemas.schema import SchemaInfo
from arneb_pulsar.client.errors import ConfigurationError, SchemaError
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema

WRITERS_REMEMBERED: Final = 256
"""Parsed writers' definitions that are cached, for all topics together."""

T = TypeVar("T")


class AvroSchema(Generic[T]):
    """Values of a dataclass, or dicts for a record definition, as Avro."""

    def __init__(self, record: type[T] | Definition) -> None:
        self._cls = record if isinstance(record, type) else None
        text = definition_text(record)
        self._parsed = _parsed(text.encode())
        self.info = SchemaInfo(WireSchema.Avro, json.loads(text)["name"], text.encode())

    def __repr__(self) -> str:
        return f"<AvroSchema {self.info.name}>"

    def encode(self, value: T) -> bytes:
        """Encode a value. Raises :class:`SchemaError` if the definition does not allow it."""
        if self._cls is not None and not isinstance(value, self._cls):
            raise SchemaError(f"expected {self._cls.__name__}, got {type(value).__name__}")
        out = BytesIO()
        try:
            fastavro.schemaless_writer(
                out, self._parsed, to_plain(value), strict_allow_default=True
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SchemaError(f"expected a value of {self.info.name}: {error}") from error
        return out.getvalue()

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> T:
        """Decode a value. Raises :class:`SchemaError` if ``data`` is damaged, or its writer's
        definition cannot be resolved to this one."""
        written = self._parsed if writer is None else _writer(writer.data, self.info.name)
        found = read_avro(data, written, self._parsed)
        if self._cls is None:
            return found  # type: ignore[no-any-return]
        return from_plain(self._cls, found)  # type: ignore[no-any-return]


def read_avro(data: bytes, written: Any, reader: Any = None) -> Any:
    """Read a value written with one definition, resolved to ``reader`` if that is given. Raises
    :class:`SchemaError`."""
    source = BytesIO(data)
    try:
        found = fastavro.schemaless_reader(source, written, reader)
    except Exception as error:
        # Damaged bytes make the library raise errors of many types.
        raise SchemaError(f"expected a value in Avro, got {len(data)} bytes: {error!r}") from error
    if source.read(1):
        raise SchemaError(f"expected the end of a value in Avro before byte {source.tell()}")
    return found


def parse_definition(data: bytes) -> Any:
    """Parse a writer's definition for :func:`read_avro`. Raises :class:`SchemaError`."""
    try:
        return _parsed(data)
    except ConfigurationError as error:
        raise SchemaError(str(error)) from error


@lru_cache(maxsize=WRITERS_REMEMBERED)
def _writer(data: bytes, name: str) -> Any:
    try:
        found = json.loads(data)
        found["name"] = name
        found.pop("namespace", None)
        return _parsed(json.dumps(found).encode())
    except (ConfigurationError, ValueError, TypeError, AttributeError) as error:
        raise SchemaError(f"expected the writer's definition of {name}: {error}") from error


@lru_cache(maxsize=WRITERS_REMEMBERED)
def _parsed(data: bytes) -> Any:
    try:
        return fastavro.parse_schema(json.loads(data))
    except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"expected a definition in Avro: {error!r}") from error
