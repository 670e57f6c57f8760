"""A topic's schemas, as the broker's registry stores them.

The rule: this module knows the bytes of the registry's rows, not what a definition means. A row is
the time, whether there is a schema, and Pulsar's message ``Schema``; see docs/internals/schemas.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

HEAD: Final = Struct(">QB")
DATA_FIELD: Final = 3
TYPE_FIELD: Final = 4

JSON: Final = 2
AVRO: Final = 4
STRING: Final = 1


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """One version of a topic's schema."""

    version: int
    type: int
    """As numbered in Pulsar's protocol."""
    definition: bytes


def living_schemas(rows: Mapping[int, bytes]) -> list[TopicSchema]:
    """Return the versions since the last deletion, the oldest first."""
    living: list[TopicSchema] = []
    for version in sorted(rows):
        _, present = HEAD.unpack_from(rows[version])
        if present:
            living.append(_schema(version, rows[version][HEAD.size :]))
        else:
            living.clear()
    return living


def _schema(version: int, message: bytes) -> TopicSchema:
    fields = dict(_fields(message))
    kind, definition = fields.get(TYPE_FIELD, 0), fields.get(DATA_FIELD, b"")
    assert isinstance(kind, int), "the protocol says so"
    assert isinstance(definition, bytes), "the protocol says so"
    return TopicSchema(version, kind, definition)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message that has only numbers and bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        value, at = _varint(message, at)
        if tag & 7 == 2:
            yield tag >> 3, message[at : at + value]
            at += value
        else:
            yield tag >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
