"""Filters that Spark hands down, as conditions on a topic and a ledger; pure.

The rule: a filter is taken only if it is decided exactly by the topic's name and the ledger
id, which a span has one of each, so that Spark need not look at the rows again. None of
these columns is ever null, so negation is plain.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

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

from pyspark_arneb.log.topics import partition_index, short_name, without_partition
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


def compile_filter(pushed: Filter, columns: Sequence[Column]) -> SpanFilter | None:
    """The condition, or None if it cannot be decided by topic and ledger alone."""
    if isinstance(pushed, Not):
        inner = compile_filter(pushed.child, columns)
        return None if inner is None else lambda topic, ledger: not inner(topic, ledger)
    subject = _subject(getattr(pushed, "attribute", ()), columns)
    if subject is None:
        return None
    if isinstance(pushed, IsNotNull | IsNull):
        answer = isinstance(pushed, IsNotNull)
        return lambda topic, ledger: answer
    test = _TESTS.get(type(pushed))
    value = getattr(pushed, "value", None)
    if test is None or value is None:
        return None
    return lambda topic, ledger: test(subject(topic, ledger), value)


def _subject(path: Sequence[str], columns: Sequence[Column]) -> Callable[[str, int], Any] | None:
    """What the filter looks at, if it is one of the columns that a span decides."""
    for column in columns:
        if tuple(path) == (column.name,):
            return _SUBJECTS.get(column.field)
    return None
