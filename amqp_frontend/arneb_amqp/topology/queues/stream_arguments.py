"""Arguments of streams: where a consumer begins, what it sees, and how long messages stay.

The rule: read once, checked as RabbitMQ checks them, errors in its words.

Source: ``rabbit_amqqueue`` and ``rabbit_stream_queue``; texts as 3.10.8 was seen to send them.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb_amqp.errors import internal_error, precondition_failed
from arneb_amqp.topology.queues.arguments import MAX_LENGTH_BYTES, number
from arneb_amqp.wire.erlang import render_value
from arneb_amqp.wire.stamp import STREAM_OFFSET
from arneb_amqp.wire.tables import Field, FieldType, Table, lookup_bool, lookup_text
from arneb_core.api.settings import WITHOUT_END, TopicSettings

MAX_AGE: Final = "x-max-age"
SEGMENT_BYTES: Final = "x-stream-max-segment-size-bytes"
FILTER: Final = "x-stream-filter"
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"

SECONDS: Final = {
    "Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1,
}  # fmt: skip
"""The units of ``x-max-age`` and of an interval."""


class Start(Enum):
    """Where a consumer begins; the value is the name in the argument, if it has one."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    OFFSET = "an offset"
    TIME = "a time"


@dataclass(frozen=True, slots=True)
class StartsAt:
    """A start with its offset, or its time in ms since the epoch."""

    start: Start
    number: int = 0


def start_of(arguments: Table, queue: str, now_ms: int) -> StartsAt:
    """Where ``x-stream-offset`` says; at the next message without it. Raises RabbitMQ's 406, and
    its 541 for what it cannot make sense of at all."""
    field = arguments.get(STREAM_OFFSET)
    if field is None:
        return StartsAt(Start.NEXT)
    if field.type is FieldType.TIMESTAMP and isinstance(field.value, int):
        return StartsAt(Start.TIME, field.value * 1000)
    if field.is_integer and isinstance(field.value, int):
        return StartsAt(Start.OFFSET, max(0, field.value))
    if field.type is not FieldType.LONGSTR:
        raise internal_error()
    for start in (Start.FIRST, Start.LAST, Start.NEXT):
        if field.text == start.value:
            return StartsAt(start)
    return StartsAt(Start.TIME, now_ms - _interval_ms(field, queue))


def filter_of(arguments: Table, queue: str) -> frozenset[str] | None:
    """The values of ``x-stream-filter``; None when it is not there."""
    field = arguments.get(FILTER)
    if field is None:
        return None
    fields = field.value if field.type is FieldType.ARRAY else (field,)
    assert isinstance(fields, tuple), "an array holds its items as a tuple"
    if not all(isinstance(each, Field) and each.type is FieldType.LONGSTR for each in fields):
        raise precondition_failed(
            f"invalid arg '{FILTER}' for {queue}: expected a string or an array of strings"
        )
    return frozenset(each.text for each in fields)


def matches_unfiltered(arguments: Table) -> bool:
    """Whether messages without a filter value are wanted too."""
    return lookup_bool(arguments, MATCH_UNFILTERED)


def stream_settings(arguments: Table) -> TopicSettings:
    """How the log of a stream with valid ``arguments`` is kept."""
    age = lookup_text(arguments, MAX_AGE)
    size = number(arguments, MAX_LENGTH_BYTES)
    return TopicSettings(
        retention_ms=WITHOUT_END if age is None else int(age[:-1]) * SECONDS[age[-1]] * 1000,
        retention_bytes=WITHOUT_END if size is None else size,
        ledger_bytes_max=number(arguments, SEGMENT_BYTES) or 0,
    )


def _interval_ms(field: Field, queue: str) -> int:
    digits = field.text[: len(field.text) - len(field.text.lstrip("0123456789"))]
    unit = field.text[len(digits) :]
    if not digits:
        raise internal_error()
    if not int(digits) or unit not in SECONDS:
        raise precondition_failed(
            f"invalid arg '{STREAM_OFFSET}' for {queue}: "
            f"{{invalid_stream_offset_arg,{{longstr,{render_value(field.value)}}}}}"
        )
    return int(digits) * SECONDS[unit] * 1000
