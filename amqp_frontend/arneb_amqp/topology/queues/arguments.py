"""Queue and consumer arguments: which there are, and what RabbitMQ says to wrong ones.

The rule: every argument that RabbitMQ knows is checked here and kept with the queue, in its
wire type, because a later declaration is compared with it, in what RabbitMQ compares. What has
no meaning here is listed in :data:`WITHOUT_MEANING_HERE`.

Sources: ``rabbit_amqqueue:assert_args_equivalence`` and ``check_declare_arguments``, and the
``capabilities`` of ``rabbit_classic_queue``, ``rabbit_quorum_queue`` and ``rabbit_stream_queue``,
RabbitMQ 3.13.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from arneb_amqp.errors import precondition_failed
from arneb_amqp.wire.erlang import render_string, render_value
from arneb_amqp.wire.tables import Field, FieldType, Table, lookup_text

QUEUE_TYPE: Final = "x-queue-type"
SINGLE_ACTIVE_CONSUMER: Final = "x-single-active-consumer"
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
DEAD_LETTER_ROUTING_KEY: Final = "x-dead-letter-routing-key"
CONSUMER_PRIORITY: Final = "x-priority"
EXPIRES: Final = "x-expires"
MESSAGE_TTL: Final = "x-message-ttl"
MAX_LENGTH: Final = "x-max-length"
MAX_LENGTH_BYTES: Final = "x-max-length-bytes"
OVERFLOW: Final = "x-overflow"
MAX_PRIORITY: Final = "x-max-priority"
DELIVERY_LIMIT: Final = "x-delivery-limit"
CONSUMER_TIMEOUT: Final = "x-consumer-timeout"
STREAM_FILTER_SIZE: Final = "x-stream-filter-size-bytes"

EXPIRY_MS_MAX: Final = 315_360_000_000
"""Ten years, RabbitMQ's bound for times to live."""
PRIORITY_MAX: Final = 255
SEGMENT_BYTES_MAX: Final = 3_000_000_000
"""RabbitMQ's bound for one segment of a stream."""


class QueueType(Enum):
    """What ``x-queue-type`` may ask for; the value is the name in that argument."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"

    @property
    def in_words(self) -> str:
        """As RabbitMQ's error texts name it."""
        return f"rabbit_{self.value}_queue"


QUEUE_ARGUMENTS: Final[Mapping[QueueType, tuple[str, ...]]] = {
    QueueType.CLASSIC: (
        "x-expires", "x-message-ttl", DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY,
        "x-max-length", "x-max-length-bytes", MAX_PRIORITY, "x-overflow", "x-queue-mode",
        "x-queue-version", SINGLE_ACTIVE_CONSUMER, QUEUE_TYPE, "x-queue-master-locator",
    ),
    QueueType.QUORUM: (
        DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, "x-dead-letter-strategy", "x-expires",
        "x-max-length", "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes",
        "x-overflow", SINGLE_ACTIVE_CONSUMER, QUEUE_TYPE, "x-quorum-initial-group-size",
        "x-delivery-limit", "x-message-ttl", "x-queue-leader-locator",
    ),
    QueueType.STREAM: (
        "x-max-length-bytes", QUEUE_TYPE, "x-max-age", "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size", "x-queue-leader-locator",
    ),
}  # fmt: skip
"""The arguments that mean something to each type, in the order in which they are compared; what
means something to other types only is refused."""

NOT_COMPARED: Final[Mapping[QueueType, tuple[str, ...]]] = {
    QueueType.CLASSIC: (CONSUMER_TIMEOUT,),
    QueueType.QUORUM: (CONSUMER_TIMEOUT,),
    QueueType.STREAM: (CONSUMER_TIMEOUT, STREAM_FILTER_SIZE),
}
"""The arguments that came after RabbitMQ's list of each type was made and never got into it: acted
on as the first declaration has them, passed over in a later one, and refused for no type."""

CONSUMER_ARGUMENTS: Final[Mapping[QueueType, tuple[str, ...]]] = {
    QueueType.CLASSIC: (CONSUMER_PRIORITY, "x-cancel-on-ha-failover"),
    QueueType.QUORUM: (CONSUMER_PRIORITY,),
    QueueType.STREAM: ("x-stream-offset",),
}
"""What a consumer may ask of each type alone. Arguments that no type knows are passed over, and so
are those of a stream's filter by the others: they are in RabbitMQ's list of none."""

WITHOUT_MEANING_HERE: Final = frozenset(
    {
        "x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-queue-leader-locator",
        "x-max-in-memory-length", "x-max-in-memory-bytes", "x-quorum-initial-group-size",
        "x-initial-cluster-size", STREAM_FILTER_SIZE, "x-dead-letter-strategy",
    }
)  # fmt: skip
"""They tell RabbitMQ where and how to keep messages, which the log decides for itself; and dead
letters are never lost here, whichever strategy is asked for."""


def queue_type(arguments: Table) -> QueueType:
    """The type that valid ``arguments`` ask for."""
    return QueueType(lookup_text(arguments, QUEUE_TYPE) or QueueType.CLASSIC.value)


def number(arguments: Table, name: str) -> int | None:
    """The integer argument of that name; None when it is not there."""
    field = arguments.get(name)
    return field.value if field is not None and isinstance(field.value, int) else None


def check_queue_arguments(arguments: Table, queue: str) -> None:
    """Raise RabbitMQ's 406 for the first argument that is wrong; ``queue`` as in error texts."""
    _check(arguments, queue, (QUEUE_TYPE,))
    kind = queue_type(arguments)
    known = QUEUE_ARGUMENTS[kind]
    looked_at = {*known, *NOT_COMPARED[kind]}
    _check(arguments, queue, [name for name in _QUEUE_CHECKS if name in looked_at])
    foreign = {name for names in QUEUE_ARGUMENTS.values() for name in names} - set(known)
    for name in arguments:
        if name in foreign:
            raise precondition_failed(
                f"invalid arg '{name}' for {queue} of queue type {kind.in_words}"
            )


def check_dead_letter_exchange(arguments: Table, queue: str) -> None:
    """RabbitMQ looks at this one before all others, and words the error differently."""
    check_exchange_name_argument(arguments, DEAD_LETTER_EXCHANGE, queue)


def check_exchange_name_argument(arguments: Table, name: str, owner: str) -> None:
    """An argument that names an exchange is a string or it is not there."""
    field = arguments.get(name)
    if field is not None and field.type is not FieldType.LONGSTR:
        kind = field.type.erlang_name
        raise precondition_failed(f"invalid type '{kind}' for arg '{name}' in {owner}")


def check_consumer_arguments(arguments: Table, queue: str, kind: QueueType) -> None:
    """Raise RabbitMQ's 406 for an argument that is wrong, or is for consumers of other queues."""
    known = CONSUMER_ARGUMENTS[kind]
    for names in CONSUMER_ARGUMENTS.values():
        for name in names:
            if name in arguments and name not in known:
                raise precondition_failed(
                    f"invalid arg '{name}' for {queue} of queue type {kind.in_words}"
                )
    _check(arguments, queue, [name for name in known if name in _CHECKS])


def consumer_priority(arguments: Table) -> int:
    """``x-priority`` of a consumer, 0 when it has none. Higher goes first."""
    field = arguments.get(CONSUMER_PRIORITY)
    return field.value if field is not None and isinstance(field.value, int) else 0


def assert_equivalent(current: Table, received: Table, name: str, resource: str) -> None:
    """Raise RabbitMQ's 406 unless both tables say the same about argument ``name``."""
    old, new = current.get(name), received.get(name)
    if old is not None and new is not None:
        same_class = old.type is new.type or (old.is_integer and new.is_integer)
        if not (same_class and old.value == new.value):
            raise inequivalent(name, resource, _quoted(new), _quoted(old))
    elif old is not new and not _both_classic(name, old or new):
        raise inequivalent(name, resource, _in_words(new), _in_words(old))


def inequivalent(name: str, resource: str, received: str, current: str) -> Exception:
    """The error for a declaration that does not agree with what is there."""
    return precondition_failed(
        f"inequivalent arg '{name}' for {resource}: received {received} but current is {current}"
    )


def _both_classic(name: str, field: Field | None) -> bool:
    """No type at all is the classic type."""
    assert field is not None
    return name == QUEUE_TYPE and field.value == QueueType.CLASSIC.value.encode()


def _quoted(field: Field) -> str:
    return f"'{_shown(field)}'"


def _in_words(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value '{_shown(field)}' of type '{field.type.erlang_name}'"


def _shown(field: Field) -> str:
    return field.text if isinstance(field.value, bytes) else render_value(field.value)


def _check(arguments: Table, queue: str, names: tuple[str, ...] | list[str]) -> None:
    for name in names:
        field = arguments.get(name)
        fault = None if field is None else _CHECKS[name](field, arguments)
        if fault is not None:
            raise precondition_failed(f"invalid arg '{name}' for {queue}: {fault}")


# Checks of one argument: the fault as an Erlang term in RabbitMQ's words, or None.

_Check = Callable[[Field, Table], str | None]


def _integer(field: Field, _: Table) -> str | None:
    return None if field.is_integer else f'"expected integer, got {field.type.erlang_name}"'


def _number(field: Field) -> int:
    assert isinstance(field.value, int)
    return field.value


def _not_negative(field: Field, arguments: Table) -> str | None:
    fault = _integer(field, arguments)
    if fault is None and _number(field) < 0:
        return f"{{value_negative,{_number(field)}}}"
    return fault


def _positive(field: Field, arguments: Table) -> str | None:
    fault = _not_negative(field, arguments)
    return "{value_zero,0}" if fault is None and not _number(field) else fault


def _expiry(field: Field, arguments: Table) -> str | None:
    fault = _not_negative(field, arguments)
    if fault is None and _number(field) > EXPIRY_MS_MAX:
        return f"{{value_too_large,{_number(field)}}}"
    return fault


def _queue_expiry(field: Field, arguments: Table) -> str | None:
    if field.is_integer and not _number(field):
        return "{value_zero,0}"
    return _expiry(field, arguments)


def _priority(field: Field, arguments: Table) -> str | None:
    fault = _not_negative(field, arguments)
    if fault is None and _number(field) > PRIORITY_MAX:
        return f"{{max_value_exceeded,{_number(field)}}}"
    return fault


def _queue_version(field: Field, arguments: Table) -> str | None:
    fault = _not_negative(field, arguments)
    if fault is None and field.value not in (1, 2):
        return f"\"unsupported queue version '{_number(field)}'\""
    return fault


def _boolean(field: Field, _: Table) -> str | None:
    return None if field.type is FieldType.BOOL else _unacceptable(field)


def _string(field: Field, _: Table) -> str | None:
    return None if field.type is FieldType.LONGSTR else _unacceptable(field)


def _dead_letter_routing_key(field: Field, arguments: Table) -> str | None:
    fault = _string(field, arguments)
    if fault is None and DEAD_LETTER_EXCHANGE not in arguments:
        return "routing_key_but_no_dlx_defined"
    return fault


def _max_age(field: Field, arguments: Table) -> str | None:
    fault = _string(field, arguments)
    if fault is None:
        count, unit = field.text[:-1], field.text[-1:]
        valid = count.isascii() and count.isdigit() and int(count) > 0 and unit in "YMDhms"
        return None if valid else "invalid_max_age"
    return fault


def _segment_size(field: Field, arguments: Table) -> str | None:
    fault = _not_negative(field, arguments)
    if fault is None and _number(field) > SEGMENT_BYTES_MAX:
        raise precondition_failed("Exceeded max value for x-stream-max-segment-size-bytes")
    return fault


def _filter_size(field: Field, _: Table) -> str | None:
    if not field.is_integer or not 16 <= _number(field) <= 255:
        raise precondition_failed(
            f"Invalid value for  {STREAM_FILTER_SIZE}"
        )  # two blanks, as there
    return None


def _one_of(*allowed: str, otherwise: str = "", unsupported: str = "") -> _Check:
    """A check whose fault is the atom ``otherwise``, or says what is ``unsupported``."""

    def check(field: Field, arguments: Table) -> str | None:
        fault = _string(field, arguments)
        if fault is None and field.text not in allowed:
            return otherwise or render_string(f"unsupported {unsupported} '{field.text}'")
        return fault

    return check


def _unacceptable(field: Field) -> str:
    return f"{{unacceptable_type,{field.type.erlang_name}}}"


_QUEUE_CHECKS: Final[Mapping[str, _Check]] = {
    "x-expires": _queue_expiry,
    "x-message-ttl": _expiry,
    DEAD_LETTER_EXCHANGE: _string,
    DEAD_LETTER_ROUTING_KEY: _dead_letter_routing_key,
    "x-dead-letter-strategy": _one_of(
        "at-most-once", "at-least-once", otherwise="invalid_dlx_strategy"
    ),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    MAX_PRIORITY: _priority,
    "x-overflow": _one_of(
        "drop-head", "reject-publish", "reject-publish-dlx", otherwise="invalid_overflow"
    ),
    "x-queue-mode": _one_of("default", "lazy", unsupported="queue mode"),
    "x-queue-version": _queue_version,
    SINGLE_ACTIVE_CONSUMER: _boolean,
    QUEUE_TYPE: _one_of(
        *(kind.value for kind in QueueType), unsupported="queue type"
    ),
    "x-delivery-limit": _not_negative,
    CONSUMER_TIMEOUT: _not_negative,
    "x-quorum-initial-group-size": _positive,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _segment_size,
    STREAM_FILTER_SIZE: _filter_size,
    "x-initial-cluster-size": _positive,
    "x-queue-leader-locator": _one_of(
        "client-local", "balanced", "random", "least-leaders",
        otherwise="invalid_queue_locator_arg",
    ),
}  # fmt: skip
"""In the order in which RabbitMQ looks at them."""

_CHECKS: Final[Mapping[str, _Check]] = {
    **_QUEUE_CHECKS,
    CONSUMER_PRIORITY: _integer,
    "x-cancel-on-ha-failover": _boolean,
}
