"""Which columns of a DataFrame are written, and as what.

The rule: a table that was read from a log can be written back as it is. The source's columns, in
any of its styles, are known here; those that only describe the original message's position or
sender are ignored, and an unknown column is refused rather than silently dropped.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_arneb.log.topics import full_name
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.schema import STYLES
from pyspark_arneb.sink.rows import Body, Target, encode_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_BYTES: Final = (BinaryType, StringType)
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_TIMES: Final = (TimestampType, LongType)
"""A whole number is ms since the epoch, as in the Pulsar connector."""
_TYPES: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "ordering_key": _BYTES,
    "properties": (MapType,),
    "headers": (ArrayType, MapType),
    "event_time": _TIMES,
    "deliver_at": _TIMES,
    "priority": _WHOLE,
    "topic": (StringType,),
}
"""The columns that are written, and their allowed types."""

_PROPERTY: Final = (*_BYTES, *_WHOLE, BooleanType, FloatType, DoubleType)
"""The types that a property's value may have."""
_TYPED: Final = {"text", "long", "double", "boolean"}
"""The fields that the struct of a typed property must have."""
_PAIRS: Final = "map<string,string> or array<struct<key:string,value:binary>>"

_ALSO: Final[Mapping[str, str]] = {
    "routing_key": "key",
    "__key": "key",
    "__topic": "topic",
    "__eventTime": "event_time",
    "__messageProperties": "properties",
}
"""Other names of these columns, among them the Pulsar connector's."""

_PASSED_OVER: Final = {column.name for style in STYLES.values() for column in style} - {
    *_TYPES,
    *_ALSO,
}
"""Ignored columns: the original message's position and sender; a new message gets its own."""


class RowEncoder:
    """Encodes a DataFrame's Arrow batches as bodies; sent to the executors."""

    def __init__(self, schema: StructType, target: Target | None) -> None:
        """``target`` None: each row's column ``topic`` is its target.

        Raises :class:`ColumnError` on a column that cannot be written, and :class:`.OptionError`
        when nothing determines the target.
        """
        self._target = target
        self._columns: dict[str, str] = {}
        for field in schema.fields:
            meaning = _ALSO.get(field.name, field.name)
            if meaning in _TYPES:
                _check_type(field.name, field.dataType, _TYPES[meaning])
                if meaning in ("properties", "headers"):
                    _check_pairs(field.name, field.dataType)
                if meaning in self._columns.values():
                    raise ColumnError(field.name, f"another column is already the {meaning}")
                self._columns[field.name] = meaning
            elif field.name not in _PASSED_OVER:
                raise ColumnError(field.name, "cannot be written" + _similar(field.name))
        written = self._columns.values()
        if "value" not in written:
            raise ColumnError(
                "value", f"is required; there are {', '.join(schema.names) or 'none'}"
            )
        if "headers" in written and "properties" in written:
            raise ColumnError("headers", 'there is "properties" as well: give one of them')
        if target is None and "topic" not in written:
            raise OptionError("topic", 'give topic, queue or exchange, or a column "topic"')

    def bodies(self, batch: "pa.RecordBatch") -> "Iterator[Body]":
        """Yield the rows of one batch as bodies. Raises :class:`ValueError` on a name that no topic
        can have."""
        import pyarrow as pa

        arrays: dict[str, pa.Array] = {}
        targets = [] if self._target is None else [self._target]
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            meaning = self._columns.get(name)
            if meaning == "topic":
                if self._target is None:
                    arrays["target"], targets = _targets(column)
            elif meaning == "headers":
                arrays["properties"] = column
            elif meaning is not None:
                arrays[meaning] = column
        if not targets:
            return
        yield from encode_rows(pa.RecordBatch.from_pydict(arrays), targets)

    def __repr__(self) -> str:
        return f"<RowEncoder of {', '.join(self._columns)} to {self._target or 'column topic'}>"


class ColumnError(ValueError):
    """A DataFrame cannot be written because of one of its columns; the text names it."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(f'column "{column}": {problem}')


def _check_type(name: str, found: DataType, allowed: Sequence[type[DataType]]) -> None:
    if not isinstance(found, tuple(allowed)):
        expected = " or ".join(each.typeName() for each in allowed)
        hint = "; see to_json" if name == "value" else ""
        raise ColumnError(name, f"expected {expected}, got {found.simpleString()}{hint}")


def _check_pairs(name: str, found: DataType) -> None:
    """Check that a column holds pairs of a name and a value that a message can have."""
    match found:
        case MapType():
            pair: Sequence[DataType] = (found.keyType, found.valueType)
        case ArrayType(elementType=StructType(names=["key", "value"], fields=fields)):
            pair = [field.dataType for field in fields]
        case _:
            pair = ()
    match pair:
        case [StringType(), StructType(names=names)] if set(names) >= _TYPED:
            return
        case [StringType(), value] if isinstance(value, _PROPERTY):
            return
    raise ColumnError(name, f"expected {_PAIRS}, got {found.simpleString()}")


def _similar(name: str) -> str:
    close = get_close_matches(name.lower(), {*_TYPES, *_ALSO}, n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; there are {', '.join(_TYPES)}"


def _targets(names: "pa.Array") -> "tuple[pa.Array, list[Target]]":
    """Return each row's index in the list of distinct topics, and that list."""
    encoded = names.dictionary_encode()
    if encoded.null_count:
        raise ColumnError("topic", "expected a topic in every row, got null")
    try:
        targets: list[Target] = [
            {"topic": full_name(name)} for name in encoded.dictionary.to_pylist()
        ]
    except ValueError as problem:
        raise ColumnError("topic", str(problem)) from None
    return encoded.indices, targets
