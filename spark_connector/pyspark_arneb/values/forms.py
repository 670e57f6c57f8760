"""Forms: how bodies and payloads are converted, by the option ``valueAs``.

The rule: a value that does not fit its form is null, never an error: one odd message must not make
a topic unreadable. The driver fixes what a form needs (definitions, by version), so that all
executors read alike; a form is a plain value that is sent to them.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from struct import Struct, error
from typing import Any, Final, Protocol

import pyarrow as pa

from pyspark_arneb.values.avro_types import arrow_type
from pyspark_arneb.values.registry import AVRO, JSON, STRING, TopicSchema
from pyspark_arneb.values.text import printable

US_PER_MS: Final = 1000
"""Times in JSON are ms since the epoch, like Avro's ``timestamp-millis``."""


class ValueForm(Protocol):
    """A conversion of values; picklable."""

    @property
    def type(self) -> pa.DataType:
        """The column's type."""
        ...

    def read(self, values: Sequence[bytes | None], versions: Sequence[int | None]) -> pa.Array:
        """Return the column of the values; ``versions`` are those of the schemas that wrote
        them."""
        ...


@dataclass(frozen=True, slots=True)
class TextForm:
    """UTF-8 text, with replacement characters for invalid bytes."""

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def read(self, values: Sequence[bytes | None], versions: Sequence[int | None]) -> pa.Array:
        found = [None if value is None else value.decode("utf-8", "replace") for value in values]
        return pa.array(found, pa.string())


@dataclass(frozen=True, slots=True)
class JsonForm:
    """JSON documents: the fields of a type; other fields are dropped."""

    type: pa.DataType

    def read(self, values: Sequence[bytes | None], versions: Sequence[int | None]) -> pa.Array:
        convert = converter(self.type)
        return pa.array([_document(value, convert) for value in values], self.type)


@dataclass(frozen=True, slots=True)
class AvroForm:
    """Avro records: each is read with the definition that wrote it, and shown as the latest."""

    type: pa.DataType
    latest: bytes
    versions: Mapping[int, bytes] = field(default_factory=dict)

    def read(self, values: Sequence[bytes | None], versions: Sequence[int | None]) -> pa.Array:
        from fastavro import parse_schema, schemaless_reader

        written = {number: json.loads(text) for number, text in self.versions.items()}
        reader = parse_schema(_also_called(json.loads(self.latest), list(written.values())))
        writers = {number: parse_schema(definition) for number, definition in written.items()}
        found: list[Any] = []
        for value, version in zip(values, versions, strict=True):
            try:
                writer = writers.get(version, reader) if version is not None else reader
                record = (
                    None if value is None else schemaless_reader(BytesIO(value), writer, reader)
                )
            except Exception:
                record = None
            found.append(record)
        try:
            return pa.array(found, self.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            convert = converter(self.type)
            return pa.array([None if each is None else convert(each) for each in found], self.type)


@dataclass(frozen=True, slots=True)
class NumberForm:
    """A primitive type of Pulsar's: a big-endian number."""

    type: pa.DataType
    format: str

    def read(self, values: Sequence[bytes | None], versions: Sequence[int | None]) -> pa.Array:
        layout = Struct(self.format)

        def number(value: bytes | None) -> Any:
            try:
                return None if value is None else layout.unpack(value)[0]
            except error:
                return None

        return pa.array(list(map(number, values)), self.type)


_NUMBERS: Final[Mapping[int, NumberForm]] = {
    5: NumberForm(pa.bool_(), ">?"),
    6: NumberForm(pa.int8(), ">b"),
    7: NumberForm(pa.int16(), ">h"),
    8: NumberForm(pa.int32(), ">i"),
    9: NumberForm(pa.int64(), ">q"),
    10: NumberForm(pa.float32(), ">f"),
    11: NumberForm(pa.float64(), ">d"),
}
"""Forms of primitive types, by Pulsar's numbers of schema types."""


def form_of(schemas: Sequence[TopicSchema]) -> ValueForm:
    """Return the form of a topic's values from its schemas, the oldest first. Raises
    :class:`ValueError`, with a reason in one line."""
    if not schemas:
        raise ValueError("expected a topic with a schema, got one without")
    latest = schemas[-1]
    if latest.type == STRING:
        return TextForm()
    if latest.type in _NUMBERS:
        return _NUMBERS[latest.type]
    if latest.type == JSON:
        return JsonForm(arrow_type(latest.definition))
    if latest.type == AVRO:
        versions = {each.version: each.definition for each in schemas if each.type == AVRO}
        return AvroForm(arrow_type(latest.definition), latest.definition, versions)
    raise ValueError(
        f"expected a schema of type JSON, AVRO, STRING, BOOL or a number, got type {latest.type}"
    )


def _also_called(latest: Any, written: Sequence[Any]) -> Any:
    """Return the definition with the record names of all versions as aliases. Avro's own library,
    and so Pulsar's clients and brokers, ignore a record's name where one version is read as
    another; fastavro requires the same name."""
    if not isinstance(latest, dict) or latest.get("type") != "record":
        return latest
    names = {
        str(each["name"]).rpartition(".")[2]
        for each in written
        if isinstance(each, dict) and "name" in each
    }
    return latest | {"aliases": sorted(names | set(latest.get("aliases", ())))}


def _document(value: bytes | None, convert: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    try:
        return convert(json.loads(value))
    except (ValueError, RecursionError):
        return None


def converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that converts a JSON value to a type, or to null if it does not fit."""
    if pa.types.is_struct(kind):
        parts = [(each.name, converter(each.type)) for each in kind]
        return lambda found: (
            {name: convert(found.get(name)) for name, convert in parts}
            if isinstance(found, dict)
            else None
        )
    if pa.types.is_list(kind):
        item = converter(kind.value_type)
        return lambda found: list(map(item, found)) if isinstance(found, list) else None
    if pa.types.is_map(kind):
        item = converter(kind.item_type)
        return lambda found: (
            [(printable(name), item(each)) for name, each in found.items()]
            if isinstance(found, dict)
            else None
        )
    return lambda found: _scalar(found, kind)


def _scalar(found: Any, kind: pa.DataType) -> Any:
    # Pulsar's JSON wraps a value of a union in an object with its type's name.
    if isinstance(found, dict) and len(found) == 1 and not pa.types.is_string(kind):
        (found,) = found.values()
    if found is None:
        return None
    if pa.types.is_string(kind):
        return printable(found) if isinstance(found, str) else json.dumps(found)
    if pa.types.is_boolean(kind):
        return found if isinstance(found, bool) else None
    if pa.types.is_binary(kind):
        return _octets(found)
    if isinstance(found, bool):
        return None
    try:
        return pa.scalar(_plain(found, kind), kind).as_py()
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return None


def _plain(found: Any, kind: pa.DataType) -> Any:
    """Convert a JSON value to Python's for a type; raises if it does not fit."""
    if pa.types.is_decimal(kind):
        return Decimal(str(found))
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(found) if isinstance(found, str) else int(found) * US_PER_MS
    if pa.types.is_date(kind):
        return date.fromisoformat(found) if isinstance(found, str) else int(found)
    if pa.types.is_floating(kind):
        return float(found)
    if not isinstance(found, int):
        raise TypeError(f"expected a whole number, got {found!r}")
    return found


def _octets(found: Any) -> bytes | None:
    if isinstance(found, bytes):
        return found
    if not isinstance(found, str):
        return None
    try:
        return b64decode(found, validate=True)
    except ValueError:
        return printable(found).encode()
