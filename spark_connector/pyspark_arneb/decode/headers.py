"""Properties and headers as columns: texts, typed texts, and dead-letter headers.

The rule: everything is derived from the strings of the neutral message, whose reserved names hold
the types (docs/internals/translation.md); a text that does not fit its type has no typed field, and
nothing fails.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa

from pyspark_arneb.decode.times import TIME_MS_MAX, US_PER_MS
from pyspark_arneb.schema import HEADER, HEADERS, KAFKA_HEADERS, PROPERTIES, Field
from pyspark_arneb.values.text import printable

TYPES_NAME: Final = "amqp.header_types"
EXCHANGE_NAME: Final = "amqp.exchange"
RESERVED: Final = "amqp."
PLAIN: Final = "longstr"
"""The type of a string; RabbitMQ's name."""

_WHOLE: Final = frozenset(
    {
        "byte", "unsignedbyte", "short", "unsignedshort", "signedint", "unsignedint", "long",
    }
)  # fmt: skip
_REAL: Final = frozenset({"float", "double"})
_OCTETS: Final = frozenset({"binary", "longstr/base64"})
_LONGS: Final = range(-(1 << 63), 1 << 63)

DEATHS: Final[Mapping[Field, str]] = {
    Field.DEAD_LETTER_REASON: "x-last-death-reason",
    Field.FIRST_DEATH_REASON: "x-first-death-reason",
    Field.FIRST_DEATH_QUEUE: "x-first-death-queue",
    Field.FIRST_DEATH_EXCHANGE: "x-first-death-exchange",
}
"""The headers after the dead-letter columns."""


def texts(items: Sequence[str | None]) -> pa.Array:
    """Return a column of texts, with invalid UTF-8 replaced."""
    try:
        return pa.array(items, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if each is None else printable(each) for each in items], pa.string())


def property_maps(rows: Sequence[Mapping[str, str]]) -> pa.Array:
    """Return the properties of each row."""
    if not any(rows):
        nothing = pa.nulls(0, pa.string())
        none = pa.MapArray.from_arrays(pa.array([0, 0], pa.int32()), nothing, nothing)
        return pa.repeat(none.cast(PROPERTIES)[0], len(rows))
    names = texts(list(chain.from_iterable(rows)))
    values = texts(list(chain.from_iterable(row.values() for row in rows)))
    return pa.MapArray.from_arrays(_offsets(rows), names, values).cast(PROPERTIES)


def kafka_headers(rows: Sequence[Mapping[str, str]]) -> pa.Array:
    """Return headers as Kafka's source does: an array of key and value, null when there are
    none."""
    lists: list[Any] = [
        [
            {"key": printable(key), "value": value.encode("utf-8", "surrogateescape")}
            for key, value in row.items()
        ]
        or None
        for row in rows
    ]
    return pa.array(lists, KAFKA_HEADERS)


def typed_headers(rows: Sequence[Mapping[str, str]]) -> pa.Array:
    """Return the typed properties of each row, without those that hold the types."""
    maps: list[list[tuple[str, dict[str, Any]]]] = []
    for row in rows:
        types = _types(row.get(TYPES_NAME))
        maps.append(
            [
                (printable(name), _typed(types.get(name, PLAIN), text))
                for name, text in row.items()
                if name != TYPES_NAME
            ]
        )
    return pa.array(maps, HEADERS)


def _offsets(rows: Iterable[Mapping[str, str]]) -> pa.Array:
    return pa.array([0, *accumulate(map(len, rows))], pa.int32())


def _types(text: str | None) -> Mapping[str, str]:
    if text is None:
        return {}
    try:
        types = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(types, dict):
        return {}
    return {name: kind for name, kind in types.items() if isinstance(kind, str)}


def _typed(kind: str, text: str) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(_FIELDS)
    found["type"] = printable(kind)
    found["text"] = printable(text)
    try:
        if kind in _WHOLE:
            number = int(text)
            found["long"] = number if number in _LONGS else None
        elif kind in _REAL:
            found["double"] = float(text)
        elif kind == "bool":
            found["boolean"] = {"true": True, "false": False}.get(text)
        elif kind == "timestamp":
            found["time"] = _time_us(int(text))
        elif kind in _OCTETS:
            found["binary"] = b64decode(text, validate=True)
    except (ValueError, TypeError):
        pass  # the text was changed and its type was not
    return found


_FIELDS: Final = tuple(each.name for each in HEADER)


def _time_us(seconds: int) -> int | None:
    ms = seconds * 1000
    return ms * US_PER_MS if 0 < ms <= TIME_MS_MAX else None
