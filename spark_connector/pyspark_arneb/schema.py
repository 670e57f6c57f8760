"""The columns: the name, type and content of each, in every style.

The rule: a :class:`Field` is the content of a column, a :class:`Column` its name and type in one
style; so the decoders know only fields, and a new style is one more table here. Types are Arrow's:
Spark is not needed to decode a log, only to read it as a table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntFlag, auto
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ColumnStyle, ReadOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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
    EXCHANGE = auto()
    ORDERING_KEY = auto()
    DELIVER_AT = auto()
    EXPIRES_AT = auto()
    SCHEMA_VERSION = auto()
    DEAD_LETTER_REASON = auto()
    FIRST_DEATH_REASON = auto()
    FIRST_DEATH_QUEUE = auto()
    FIRST_DEATH_EXCHANGE = auto()
    PROPERTIES = auto()
    HEADERS = auto()
    """The properties with their types."""
    KAFKA_TOPIC = auto()
    """The short name, without a partition's suffix."""
    KAFKA_PARTITION = auto()
    """As PARTITION, but 0 where Pulsar says -1."""
    OFFSET = auto()
    TIMESTAMP_TYPE = auto()
    KAFKA_HEADERS = auto()
    """The properties as Kafka's source shows headers."""


class RowFlag(IntFlag):
    """The bits of the column ``flags``; the lower 16 are
    :class:`arneb_core.api.entries.entry.EntryFlag`."""

    RAW = 1 << 16
    """The entry cannot be decoded (it is encrypted, say): ``value`` is its stored body, in the row
    of the entry's first message; the rows of its other messages have no value."""
    CORRUPT = 1 << 17
    """With ``onCorrupt=raw``: the row stands for a damaged block, at the position of its first
    entry; ``value`` is the stored block."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    field: Field
    type: pa.DataType
    meaning: str = ""
    """One line for the documentation."""


TEXT: Final = pa.string()
BYTES: Final = pa.binary()
INT: Final = pa.int32()
LONG: Final = pa.int64()
TIME: Final = pa.timestamp("us", "UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())
KAFKA_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
HEADER: Final = pa.struct(
    [
        ("type", pa.string()),
        ("text", pa.string()),
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
        ("time", TIME),
        ("binary", pa.binary()),
    ]
)
"""A header with its type: its text, and its value in the field for the type."""
HEADERS: Final = pa.map_(pa.string(), HEADER)

_ARNEB: Final = (
    Column("topic", Field.TOPIC, TEXT,
           "full name, `persistent://public/default/orders`; a partition's ends in `-partition-n`"),
    Column("partition", Field.PARTITION, INT,
           "number of the partition; -1 if the topic has no partitions"),
    Column("ledger_id", Field.LEDGER_ID, LONG,
           "with `entry_id`: the entry's position; its message id has another number for it"),
    Column("entry_id", Field.ENTRY_ID, LONG,
           "index of the entry in its ledger, from 0, without gaps"),
    Column("batch_index", Field.BATCH_INDEX, INT,
           "index in a Pulsar batch; -1 if the entry is not a batch (AMQP's never are)"),
    Column("message_id", Field.MESSAGE_ID, BYTES,
           "as a Pulsar client's `MessageId.serialize()`: usable with `seek` and readers"),
    Column("key", Field.KEY, BYTES,
           "AMQP: routing key, null if empty; Pulsar: partition key, null if none"),
    Column("value", Field.VALUE, BYTES,
           "body or payload, decompressed, with chunks joined; null if the producer sent null "
           "(a tombstone). Its type follows `valueAs`"),
    Column("publish_time", Field.PUBLISH_TIME, TIME,
           "AMQP: when the broker received it; Pulsar: when it was sent, by the producer's clock"),
    Column("event_time", Field.EVENT_TIME, TIME,
           "AMQP: property `timestamp`; Pulsar: event time; null if not set"),
    Column("producer_name", Field.PRODUCER_NAME, TEXT,
           "name of the Pulsar producer; null for AMQP"),
    Column("sequence_id", Field.SEQUENCE_ID, LONG,
           "sequence id of the Pulsar message; null for AMQP"),
    Column("flags", Field.FLAGS, INT,
           "bit 0: published as transient; bit 1: dead-lettered; bit 16: raw; bit 17: damaged"),
    Column("exchange", Field.EXCHANGE, TEXT,
           "AMQP: exchange it was published to, empty for the default one; null for Pulsar"),
    Column("ordering_key", Field.ORDERING_KEY, BYTES, "Pulsar: ordering key; null if none"),
    Column("deliver_at", Field.DELIVER_AT, TIME, "earliest time of delivery; null: at once"),
    Column("expires_at", Field.EXPIRES_AT, TIME,
           "time after which it is not delivered; null: never expires"),
    Column("schema_version", Field.SCHEMA_VERSION, LONG,
           "version of the topic's schema with which the value was written; null if none"),
    Column("dead_letter_reason", Field.DEAD_LETTER_REASON, TEXT,
           "why it last became a dead letter: `rejected`, `expired`, `maxlen`, `delivery_limit`; "
           "null if it never did"),
    Column("first_death_reason", Field.FIRST_DEATH_REASON, TEXT,
           "why it first became a dead letter"),
    Column("first_death_queue", Field.FIRST_DEATH_QUEUE, TEXT, "the queue in which it first did"),
    Column("first_death_exchange", Field.FIRST_DEATH_EXCHANGE, TEXT,
           "the exchange it had been published to before that"),
    Column("properties", Field.PROPERTIES, PROPERTIES,
           "properties and headers as text; on request, with `includeProperties`"),
    Column("headers", Field.HEADERS, HEADERS,
           "properties and headers with their types: `type`, `text`, and `long`, `double`, "
           "`boolean`, `time` or `binary`; on request, by its name in `columns`"),
)  # fmt: skip

STYLES: Final[dict[ColumnStyle, tuple[Column, ...]]] = {
    ColumnStyle.ARNEB: _ARNEB,
    ColumnStyle.KAFKA: (
        Column("key", Field.KEY, BYTES),
        Column("value", Field.VALUE, BYTES),
        Column("topic", Field.KAFKA_TOPIC, TEXT),
        Column("partition", Field.KAFKA_PARTITION, INT),
        Column("offset", Field.OFFSET, LONG),
        Column("timestamp", Field.PUBLISH_TIME, TIME),
        Column("timestampType", Field.TIMESTAMP_TYPE, INT),
        Column("headers", Field.KAFKA_HEADERS, KAFKA_HEADERS),
    ),
    ColumnStyle.PULSAR: (
        Column("value", Field.VALUE, BYTES),
        Column("__key", Field.KEY, BYTES),
        Column("__topic", Field.TOPIC, TEXT),
        Column("__messageId", Field.MESSAGE_ID, BYTES),
        Column("__publishTime", Field.PUBLISH_TIME, TIME),
        Column("__eventTime", Field.EVENT_TIME, TIME),
        Column("__messageProperties", Field.PROPERTIES, PROPERTIES),
    ),
}

DEAR: Final = frozenset({Field.PROPERTIES, Field.HEADERS, Field.KAFKA_HEADERS})
"""Fields that must be parsed from every message, so they are there only on request."""

EVERY_COLUMN: Final = "*"
"""In ``columns``: the default columns."""


def columns_of(options: ReadOptions) -> tuple[Column, ...]:
    """Return the table's columns when the user gives no schema.

    Raises :class:`OptionError` when ``columns`` names a column that the style does not have.
    """
    style = style_of(options)
    wanted = {Field.PROPERTIES, Field.KAFKA_HEADERS} if options.include_properties else set()
    usual = tuple(c for c in style if c.field not in DEAR or c.field in wanted)
    if options.columns is None:
        return usual
    known = {column.name.lower(): column for column in style}
    chosen: dict[str, Column] = {}
    for name in options.columns:
        if name == EVERY_COLUMN:
            chosen |= {column.name: column for column in usual}
            continue
        column = known.get(name.lower())
        if column is None:
            names = ", ".join(each.name for each in style)
            raise OptionError("columns", f"no column {name!r}; there are {names}")
        chosen[column.name] = column
    return tuple(chosen.values())


def style_of(options: ReadOptions) -> tuple[Column, ...]:
    """Return all columns of the style, with the value's type in this table."""
    style = STYLES[options.style]
    if options.value_form is None:
        return style
    kind = options.value_form.type
    return tuple(replace(c, type=kind) if c.field is Field.VALUE else c for c in style)


def spark_schema(columns: Sequence[Column]) -> "StructType":
    """Return the columns as a Spark schema. All are nullable: Spark compares the schema of our
    Arrow batches exactly, and Arrow's fields are nullable by default."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(columns))


def columns_in(schema: "StructType", columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that a schema asks for: some or all of ``columns``, in any order.

    Raises :class:`OptionError` on columns that do not exist or have another type.
    """
    types = {field.name.lower(): field for field in spark_schema(columns).fields}
    known = {column.name.lower(): column for column in columns}
    chosen: list[Column] = []
    for wanted in schema.fields:
        column = known.get(wanted.name.lower())
        if column is None:
            names = ", ".join(column.name for column in columns)
            raise OptionError("schema", f"no column {wanted.name!r}; there are {names}")
        expected = types[wanted.name.lower()].dataType
        if wanted.dataType != expected or not wanted.nullable:
            given = wanted.dataType.simpleString() + ("" if wanted.nullable else " not null")
            raise OptionError(
                "schema", f"column {wanted.name!r} is {expected.simpleString()}, not {given}"
            )
        chosen.append(replace(column, name=wanted.name))
    return tuple(chosen)


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the columns as an Arrow schema, equal to the one that Spark derives from its own."""
    return pa.schema([(column.name, column.type) for column in columns])
