"""Filters that Spark pushes down, as conditions on ranges of the log and on rows.

The rule: a filter that the topic's name and the ledger id decide exactly is taken over, so that
Spark need not check the rows again; a span has one of each, and none of these columns is ever null,
so negation is plain. Any other simple comparison is used and also returned to Spark: it drops only
rows that Spark would drop too, but may keep others.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from arneb_core.api.entries.position import Position, position_at
from pyspark_arneb.log.topics import partition_index, short_name, without_partition
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.schema import Column, Field

SpanFilter = Callable[[str, int], bool]
"""Whether rows of the topic and the ledger are wanted."""

_SUBJECTS: Final[Mapping[Field, Callable[[str, int], Any]]] = {
    Field.TOPIC: lambda topic, ledger: topic,
    Field.PARTITION: lambda topic, ledger: partition_index(topic),
    Field.LEDGER_ID: lambda topic, ledger: ledger,
    Field.KAFKA_TOPIC: lambda topic, ledger: short_name(without_partition(topic)),
    Field.KAFKA_PARTITION: lambda topic, ledger: max(0, partition_index(topic)),
}

_TESTS: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda subject, values: subject in values,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}

ROW_FIELDS: Final = frozenset({Field.PUBLISH_TIME, Field.ENTRY_ID, Field.KEY})
"""The fields by which rows are filtered here. Other filters are left to Spark, which compiles
them."""

_ROW_TESTS: Final[Mapping[type[Filter], str]] = {
    EqualTo: "equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
}


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A comparison of one column with a value, or with several for ``In``; picklable."""

    column: str
    field: Field
    test: str
    values: tuple[Any, ...]

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that may be wanted; a null never is."""
        column = batch.column(self.column)
        if self.test == "in":
            mask = pc.is_in(column, pa.array(self.values, column.type))
        else:
            compare = getattr(pc, self.test)
            mask = compare(column, pa.scalar(self.values[0], column.type))
        return batch.filter(mask)

    def bounds(self) -> tuple[int, int]:
        """Return the least and the greatest entry id that may be wanted."""
        assert self.field is Field.ENTRY_ID, f"{self.field} bounds no entries"
        least, most = min(self.values), max(self.values)
        return {
            "in": (least, most),
            "equal": (least, most),
            "greater": (least + 1, _ENTRY_MAX),
            "greater_equal": (least, _ENTRY_MAX),
            "less": (0, most - 1),
            "less_equal": (0, most),
        }[self.test]


_ENTRY_MAX: Final = (1 << 32) - 1


def compile_filter(pushed: Filter, columns: Sequence[Column]) -> SpanFilter | None:
    """Return the condition, or None if topic and ledger alone cannot decide it."""
    if isinstance(pushed, Not):
        inner = compile_filter(pushed.child, columns)
        return None if inner is None else lambda topic, ledger: not inner(topic, ledger)
    column = _column(pushed, columns)
    subject = None if column is None else _SUBJECTS.get(column.field)
    if subject is None:
        return None
    if isinstance(pushed, IsNotNull | IsNull):
        answer = isinstance(pushed, IsNotNull)
        return lambda topic, ledger: answer
    test = _TESTS.get(type(pushed))
    value = getattr(pushed, "value", None)
    if test is None or value is None or (isinstance(pushed, In) and None in value):
        return None  # NOT IN a list with null is true of nothing
    return lambda topic, ledger: test(subject(topic, ledger), value)


def row_filter(pushed: Filter, columns: Sequence[Column]) -> RowFilter | None:
    """Return the comparison, or None if it is not a supported one."""
    column = _column(pushed, columns)
    if column is None or column.field not in ROW_FIELDS:
        return None
    value = getattr(pushed, "value", None)
    if isinstance(pushed, In):
        values = tuple(value or ())
        test: str | None = "in"
    else:
        values, test = (value,), _ROW_TESTS.get(type(pushed))
    if test is None or not values or any(each is None for each in values):
        return None
    try:
        pa.array(values, column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None  # a comparison of Spark's with another type
    return RowFilter(column.name, column.field, test, values)


def within(span: Span, filters: Sequence[RowFilter]) -> Span | None:
    """Return the part of the span that may hold wanted entries, if there is one."""
    first, last = span.first, span.last
    for each in filters:
        if each.field is Field.ENTRY_ID:
            least, most = each.bounds()
            if least > _ENTRY_MAX or most < 0:
                return None
            first = max(first, position_at(span.ledger, max(least, 0)))
            last = Position(min(last, position_at(span.ledger, min(most, _ENTRY_MAX))))
    if last < first:
        return None
    entries = last - first + 1
    messages = max(entries, span.messages_before(entries))
    goes_on = span.goes_on or first > span.first
    return replace(span, first=first, last=last, messages=messages, goes_on=goes_on)


def _column(pushed: Filter, columns: Sequence[Column]) -> Column | None:
    """Return the column that the filter concerns, if it is one of ``columns``."""
    path = getattr(pushed, "attribute", ())
    return next((column for column in columns if tuple(path) == (column.name,)), None)
