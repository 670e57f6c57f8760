"""Consumer arguments: the arguments of ``basic.consume``, including a stream's starting point.

The rule: they are read once and checked as RabbitMQ checks them, with its error texts.

Sources: ``rabbit_amqqueue``, ``rabbit_stream_queue`` and the ``consumer_arguments`` of each type of
queue, RabbitMQ 3.13; texts as 3.10.8 was seen to send them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb_amqp.errors import internal_error, precondition_failed
from arneb_amqp.topology.arguments import boolean, check_arguments, integer
from arneb_amqp.topology.queue_types import SECONDS, QueueType
from arneb_amqp.wire.erlang import render_value
from arneb_amqp.wire.stamp import STREAM_OFFSET
from arneb_amqp.wire.tables import Field, FieldType, Table, lookup_bool

CONSUMER_PRIORITY: Final = "x-priority"
FILTER: Final = "x-stream-filter"
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"

CONSUMER_ARGUMENTS: Final[Mapping[QueueType, tuple[str, ...]]] = {
    QueueType.CLASSIC: (CONSUMER_PRIORITY, "x-cancel-on-ha-failover"),
    QueueType.QUORUM: (CONSUMER_PRIORITY,),
    QueueType.STREAM: (STREAM_OFFSET,),
}
"""The consumer arguments of each queue type. Arguments that no type knows are ignored, and so are a
stream filter's by the other types: they are in none of RabbitMQ's lists."""

_CHECKS: Final = {CONSUMER_PRIORITY: integer, "x-cancel-on-ha-failover": boolean}


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


def check_consumer_arguments(arguments: Table, queue: str, kind: QueueType) -> None:
    """Raise RabbitMQ's 406 for an argument that is invalid, or belongs to other queue types."""
    known = CONSUMER_ARGUMENTS[kind]
    for names in CONSUMER_ARGUMENTS.values():
        for name in names:
            if name in arguments and name not in known:
                raise precondition_failed(
                    f"invalid arg '{name}' for {queue} of queue type {kind.in_words}"
                )
    check_arguments(arguments, queue, [name for name in known if name in _CHECKS], _CHECKS)


def consumer_priority(arguments: Table) -> int:
    """Return ``x-priority`` of a consumer, 0 when it has none. Higher goes first."""
    field = arguments.get(CONSUMER_PRIORITY)
    return field.value if field is not None and isinstance(field.value, int) else 0


def start_of(arguments: Table, queue: str, now_ms: int) -> StartsAt:
    """Return the start that ``x-stream-offset`` names; without it, the next message. Raises
    RabbitMQ's 406, and its 541 for values of no known form."""
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
    """Return the values of ``x-stream-filter``; None when absent."""
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
    """Whether messages without a filter value are wanted, too."""
    return lookup_bool(arguments, MATCH_UNFILTERED)


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
