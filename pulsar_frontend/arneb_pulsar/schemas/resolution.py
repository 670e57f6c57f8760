"""Resolution: whether data written with one Avro schema can be read with another.

The rules are those of Avro's Java resolver, which Pulsar's brokers use, with its leniencies:
records need not have the same name, and a reader's enum may lack symbols.
"""

from typing import Final

from avro.schema import (
    ArraySchema,
    EnumSchema,
    Field,
    FixedSchema,
    MapSchema,
    RecordSchema,
    Schema,
    UnionSchema,
)

PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""The other types that a primitive may be read as."""

Seen = dict[tuple[int, int], bool]
"""Pairs of records compared. In recursive types, pairs under way are assumed to match."""


def can_read(reader: Schema, writer: Schema, seen: Seen | None = None) -> bool:
    """Whether everything that ``writer`` may have written has a meaning for ``reader``."""
    seen = {} if seen is None else seen
    if isinstance(writer, UnionSchema):
        return all(can_read(reader, each, seen) for each in writer.schemas)
    if isinstance(reader, UnionSchema):
        return _reads_in_union(reader, writer, seen)
    if isinstance(reader, RecordSchema) and isinstance(writer, RecordSchema):
        return _reads_record(reader, writer, seen)
    if isinstance(reader, ArraySchema) and isinstance(writer, ArraySchema):
        return can_read(reader.items, writer.items, seen)
    if isinstance(reader, MapSchema) and isinstance(writer, MapSchema):
        return can_read(reader.values, writer.values, seen)
    if isinstance(reader, EnumSchema) and isinstance(writer, EnumSchema):
        return bool(reader.fullname == writer.fullname)
    if isinstance(reader, FixedSchema) and isinstance(writer, FixedSchema):
        return bool(reader.fullname == writer.fullname and reader.size == writer.size)
    return reader.type == writer.type or reader.type in PROMOTIONS.get(writer.type, ())


def _reads_in_union(reader: UnionSchema, writer: Schema, seen: Seen) -> bool:
    return any(can_read(each, writer, seen) for each in reader.schemas)


def _reads_record(reader: RecordSchema, writer: RecordSchema, seen: Seen) -> bool:
    pair = id(reader), id(writer)
    if pair not in seen:
        seen[pair] = True
        written: dict[str, Field] = {each.name: each for each in writer.fields}
        seen[pair] = all(_reads_field(each, written.get(each.name), seen) for each in reader.fields)
    return seen[pair]


def _reads_field(reader: Field, writer: Field | None, seen: Seen) -> bool:
    if writer is None:
        return bool(reader.has_default)
    return can_read(reader.type, writer.type, seen)
