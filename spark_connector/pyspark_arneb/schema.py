"""The columns: what each is called in each style, its type, and what it holds.

The rule: a :class:`Field` is what a column holds, a :class:`Column` is its name and type in
one style; so the decoders know fields only, and a new style is one more table here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag, auto
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_arneb.options import ColumnStyle, OptionError, ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


class Field(Enum):
    """What a column holds."""

    TOPIC = auto()
    """The log's full name, a partition's suffix included."""
    PARTITION = auto()
    LEDGER_ID = auto()
    ENTRY_ID = auto()
    BATCH_INDEX = auto()
    MESSAGE_ID = auto()
    KEY = auto()
    VALUE = auto()
    PUBLISH_TIME = auto()
    EVENT_TIME = auto()
    PRODUCER_NAME = auto()
    SEQUENCE_ID = auto()
    FLAGS = auto()
    PROPERTIES = auto()
    KAFKA_TOPIC = auto()
    """The short name, without a partition's suffix."""
    KAFKA_PARTITION = auto()
    """As PARTITION, but 0 where Pulsar says -1."""
    OFFSET = auto()
    TIMESTAMP_TYPE = auto()
    HEADERS = auto()
    """The properties as Kafka's source shows headers."""


class RowFlag(IntFlag):
    """The bits of the column ``flags``; the lower 16 are
    :class:`arneb_core.api.entry.EntryFlag`."""

    RAW = 1 << 16
    """The entry cannot be decoded (it is encrypted, say): ``value`` is its body as stored, and
    the row stands for all messages of the entry."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    field: Field
    type: DataType


_TEXT, _BYTES, _INT, _LONG, _TIME = (
    StringType(), BinaryType(), IntegerType(), LongType(), TimestampType(),
)  # fmt: skip
_PROPERTIES: Final = MapType(_TEXT, _TEXT)
_HEADERS: Final = ArrayType(StructType([StructField("key", _TEXT), StructField("value", _BYTES)]))

STYLES: Final[dict[ColumnStyle, tuple[Column, ...]]] = {
    ColumnStyle.ARNEB: (
        Column("topic", Field.TOPIC, _TEXT),
        Column("partition", Field.PARTITION, _INT),
        Column("ledger_id", Field.LEDGER_ID, _LONG),
        Column("entry_id", Field.ENTRY_ID, _LONG),
        Column("batch_index", Field.BATCH_INDEX, _INT),
        Column("message_id", Field.MESSAGE_ID, _BYTES),
        Column("key", Field.KEY, _BYTES),
        Column("value", Field.VALUE, _BYTES),
        Column("publish_time", Field.PUBLISH_TIME, _TIME),
        Column("event_time", Field.EVENT_TIME, _TIME),
        Column("producer_name", Field.PRODUCER_NAME, _TEXT),
        Column("sequence_id", Field.SEQUENCE_ID, _LONG),
        Column("flags", Field.FLAGS, _INT),
        Column("properties", Field.PROPERTIES, _PROPERTIES),
    ),
    ColumnStyle.KAFKA: (
        Column("key", Field.KEY, _BYTES),
        Column("value", Field.VALUE, _BYTES),
        Column("topic", Field.KAFKA_TOPIC, _TEXT),
        Column("partition", Field.KAFKA_PARTITION, _INT),
        Column("offset", Field.OFFSET, _LONG),
        Column("timestamp", Field.PUBLISH_TIME, _TIME),
        Column("timestampType", Field.TIMESTAMP_TYPE, _INT),
        Column("headers", Field.HEADERS, _HEADERS),
    ),
    ColumnStyle.PULSAR: (
        Column("value", Field.VALUE, _BYTES),
        Column("__key", Field.KEY, _BYTES),
        Column("__topic", Field.TOPIC, _TEXT),
        Column("__messageId", Field.MESSAGE_ID, _BYTES),
        Column("__publishTime", Field.PUBLISH_TIME, _TIME),
        Column("__eventTime", Field.EVENT_TIME, _TIME),
        Column("__messageProperties", Field.PROPERTIES, _PROPERTIES),
    ),
}

DEAR: Final = frozenset({Field.PROPERTIES, Field.HEADERS})
"""Fields that are parsed from every message, so there only on request."""


def columns_of(options: ReadOptions) -> tuple[Column, ...]:
    """The table's columns when the user gives no schema.

    Raises :class:`OptionError` when ``columns`` names one that the style has not. A column
    that is named there is included even if it would otherwise come on request only.
    """
    style = STYLES[options.style]
    if options.columns is None:
        return tuple(c for c in style if options.include_properties or c.field not in DEAR)
    known = {column.name: column for column in style}
    for name in options.columns:
        if name not in known:
            raise OptionError("columns", f"no column {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(options.columns))


def spark_schema(columns: Sequence[Column]) -> StructType:
    """The columns as Spark describes them. All are nullable: Spark compares the schema of our
    Arrow batches exactly, and Arrow's fields are nullable unless one says otherwise."""
    return StructType([StructField(column.name, column.type) for column in columns])


def columns_in(schema: StructType, style: ColumnStyle) -> tuple[Column, ...]:
    """The columns that a schema asks for: the table's own, or fewer of them in any order.

    Raises :class:`OptionError` on columns that the style has not, or has with another type.
    """
    known = {column.name.lower(): column for column in STYLES[style]}
    columns: list[Column] = []
    for wanted in schema.fields:
        column = known.get(wanted.name.lower())
        if column is None:
            names = ", ".join(column.name for column in STYLES[style])
            raise OptionError("schema", f"no column {wanted.name!r}; there are {names}")
        if wanted.dataType != column.type or not wanted.nullable:
            given = wanted.dataType.simpleString() + ("" if wanted.nullable else " not null")
            expected = column.type.simpleString()
            raise OptionError("schema", f"column {wanted.name!r} is {expected}, not {given}")
        columns.append(Column(wanted.name, column.field, column.type))
    return tuple(columns)


def arrow_schema(columns: Sequence[Column]) -> "pa.Schema":
    """The columns as Arrow describes them; equal to what Spark derives from its own schema."""
    import pyarrow as pa

    types = {
        _TEXT: pa.string(),
        _BYTES: pa.binary(),
        _INT: pa.int32(),
        _LONG: pa.int64(),
        _TIME: pa.timestamp("us", "UTC"),
        _PROPERTIES: pa.map_(pa.string(), pa.string()),
        _HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.schema([(column.name, types[column.type]) for column in columns])
