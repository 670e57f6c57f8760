"""Rows on the wire: Arrow batches as bodies of the data API (``application/vnd.arneb.rows``).

The rule: whole columns are copied and nothing is done per row, except for properties, of which
equal ones are sent once. The layout is in docs/internals/data-api.md.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

MAGIC: Final = b"ARW1"
HEAD_LENGTH: Final = Struct("<I")

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Half of a broker's default limit, which leaves room for what a row has besides its columns."""
ROWS_MAX: Final = 32_768
TARGETS_MAX: Final = 1_000
"""The most targets that the broker accepts in one body."""

NO_PROPERTIES: Final = (1 << 32) - 1
NULL: Final = -1
US_PER_MS: Final = 1000
PRIORITY_MAX: Final = 255

Properties = dict[str, Any]
"""By name: strings, numbers, booleans or null."""

TYPES_NAME: Final = "amqp.header_types"
"""The property with the types of the properties that are sent as text; see
docs/internals/translation.md."""
PLAIN: Final = "longstr"
OCTETS: Final = ("binary", "longstr/base64")
TIMESTAMP: Final = "timestamp"

BYTES_COLUMNS: Final = ("value", "key", "ordering_key")
TIME_COLUMNS: Final = ("event_time", "deliver_at")

Target = Mapping[str, str]
"""Where rows go: a topic, a queue or an exchange, as the data API names them."""


@dataclass(frozen=True, slots=True)
class Body:
    """Encoded rows."""

    rows: int
    data: bytes

    def __repr__(self) -> str:
        return f"<Body of {self.rows} rows, {len(self.data)} bytes>"


def encode_rows(batch: "pa.RecordBatch", targets: Sequence[Target]) -> Iterator["Body"]:
    """Yield the rows of ``batch``, in order, as bodies of at most :data:`BODY_BYTES_MAX` unless a
    single row is larger.

    Columns: ``value``, ``key``, ``ordering_key`` (binary or text), ``properties`` (map of texts),
    ``event_time``, ``deliver_at`` (timestamps or ms), ``priority`` and ``target`` (index in
    ``targets``). Only ``value`` is required; a missing column is null in all rows.
    """
    rows = batch.num_rows
    if rows == 0:
        return
    if rows == 1 or (rows <= ROWS_MAX and batch.nbytes <= BODY_BYTES_MAX):
        used, fewer = _used(batch, targets)
        body = _body(used, fewer) if len(fewer) <= TARGETS_MAX else None
        # Only then is the size of the properties as JSON known.
        if body is not None and (rows == 1 or len(body.data) <= BODY_BYTES_MAX):
            yield body
            return
    middle = rows // 2
    yield from encode_rows(batch.slice(0, middle), targets)
    yield from encode_rows(batch.slice(middle), targets)


def _used(
    batch: "pa.RecordBatch", targets: Sequence[Target]
) -> tuple["pa.RecordBatch", Sequence[Target]]:
    """Return the rows with only the targets that they use, if there are many."""
    if len(targets) <= TARGETS_MAX:
        return batch, targets
    at = batch.schema.get_field_index("target")
    found = batch.column(at).dictionary_encode()
    used = [targets[index] for index in found.dictionary.to_pylist()]
    return batch.set_column(at, "target", found.indices), used


def _body(batch: "pa.RecordBatch", targets: Sequence[Target]) -> "Body":
    named = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns: list[str] = []
    parts: list[Any] = []
    lists: list[Properties] = []
    for name in BYTES_COLUMNS:
        if name in named and (name == "value" or named[name].null_count < batch.num_rows):
            columns.append(name)
            parts += _texts(named[name])
    if "target" in named:
        columns.append("target")
        parts.append(_numbers(named["target"], pa.uint32()))
    if "properties" in named and named["properties"].null_count < batch.num_rows:
        indexes, lists = shared_properties(named["properties"])
        columns.append("properties")
        parts.append(_numbers(indexes, pa.uint32()))
    for name in TIME_COLUMNS:
        if name in named and named[name].null_count < batch.num_rows:
            columns.append(f"{name}_ms")
            parts.append(_numbers(_times_ms(name, named[name]), pa.int64()))
    if "priority" in named and named["priority"].null_count < batch.num_rows:
        columns.append("priority")
        parts.append(_numbers(_priorities(named["priority"]), pa.uint8()))
    head = json.dumps(
        {
            "rows": batch.num_rows,
            "columns": columns,
            "targets": [dict(target) for target in targets],
            "properties": lists,
        }
    ).encode()
    return Body(batch.num_rows, b"".join((MAGIC, HEAD_LENGTH.pack(len(head)), head, *parts)))


def _texts(column: "pa.Array") -> list[Any]:
    """Return the lengths of the texts, and the texts concatenated."""
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(column), NULL)
    filled = pc.fill_null(column, b"") if column.null_count else column
    _, offsets, data = filled.buffers()
    if data is None:  # all of them are empty
        return [_numbers(lengths, pa.int32())]
    edges = pa.Array.from_buffers(
        pa.int32(), len(filled) + 1, [None, offsets], offset=filled.offset
    )
    first, end = edges[0].as_py(), edges[len(filled)].as_py()
    return [_numbers(lengths, pa.int32()), data.slice(first, end - first)]


def _numbers(column: "pa.Array", kind: "pa.DataType") -> Any:
    """Return the numbers as in memory, little-endian; 0 for null."""
    if column.type != kind:
        column = column.cast(kind)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, kind))
    width = kind.bit_width // 8
    return column.buffers()[1].slice(column.offset * width, len(column) * width)


def _priorities(column: "pa.Array") -> "pa.Array":
    bounds = pc.min_max(column).as_py()
    for found in bounds.values():
        if not 0 <= found <= PRIORITY_MAX:
            raise ValueError(f"expected a priority of 0 to {PRIORITY_MAX}, got {found}")
    return column


def _times_ms(name: str, column: "pa.Array") -> "pa.Array":
    """Convert times, or whole milliseconds since the epoch, to the latter; 0 for null. A
    ``deliver_at`` before 1970 counts as none; such an ``event_time`` is refused, because no message
    can have it."""
    times = column
    if not pa.types.is_integer(column.type):
        times = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        times = pc.divide(times, US_PER_MS)
    earliest = pc.min(times).as_py()
    if name == "event_time" and earliest < 0:
        raise ValueError(f"expected an event_time since 1970, got {earliest} ms")
    return pc.max_element_wise(pc.fill_null(times, 0), 0)


def shared_properties(column: "pa.Array") -> tuple["pa.Array", list["Properties"]]:
    """Return each row's index in the list of distinct properties, and that list.

    Raises :class:`ValueError` on what a message cannot have: a missing name, a name twice, or bytes
    that are not UTF-8.
    """
    known: dict[str, int] = {}
    lists: list[Properties] = []
    indexes: list[int] = []
    for pairs in column.to_pylist():
        if pairs is None:
            indexes.append(NO_PROPERTIES)
            continue
        found = _properties(pairs)
        index = known.setdefault(repr(found), len(known))
        if index == len(lists):
            lists.append(found)
        indexes.append(index)
    return pa.array(indexes, pa.uint32()), lists


def _properties(pairs: Sequence[Any]) -> Properties:
    found: Properties = {}
    types: dict[str, str] = {}
    for pair in pairs:
        name, value = (None, None) if pair is None else _named(pair)
        if name is None:
            raise ValueError(f"expected a name of each property in a row, got {pair!r}")
        if name in found:
            raise ValueError(f'expected each property once in a row, got "{name}" twice')
        found[name], kind = _property(name, value)
        if kind != PLAIN:
            types[name] = kind
    if types and TYPES_NAME in found:
        raise ValueError(f'expected no property "{TYPES_NAME}" beside typed headers')
    if types:
        found[TYPES_NAME] = json.dumps(types, separators=(",", ":"))
    return found


def _named(pair: Any) -> tuple[str | None, Any]:
    """Return a property from an entry of a map or from a Kafka header."""
    name, value = pair.values() if isinstance(pair, dict) else pair
    return name, value


def _property(name: str, value: Any) -> tuple[Any, str]:
    """Return a text, number or boolean, and the type that the text stands for."""
    if isinstance(value, bytes):
        try:
            return value.decode(), PLAIN
        except UnicodeDecodeError:
            raise ValueError(f'expected UTF-8 in the property "{name}", got {value!r}') from None
    return _typed(value) if isinstance(value, dict) else (value, PLAIN)


def _typed(header: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the value of a typed header (the source's column ``headers``): a number or boolean
    from its field, bytes and times too, and for other types their text."""
    for field in ("long", "double", "boolean"):
        if header[field] is not None:
            return header[field], PLAIN
    octets, time, kind = header.get("binary"), header.get("time"), header.get("type") or PLAIN
    if octets is not None:
        return b64encode(octets).decode(), kind if kind in OCTETS else OCTETS[0]
    if time is not None:
        return str(int(time.timestamp())), TIMESTAMP
    return header["text"], PLAIN if header["text"] is None else kind
