"""Queue options: the arguments of ``queue.declare``, read once.

The rule: an argument is one row of :data:`ARGUMENTS`, and sets one field of :class:`QueueOptions`.
The arguments themselves are kept with the queue as received, because later declarations are
compared with them, in the arguments that RabbitMQ compares.

Sources: ``rabbit_amqqueue:check_declare_arguments``, and the ``capabilities`` of
``rabbit_classic_queue``, ``rabbit_quorum_queue`` and ``rabbit_stream_queue``, RabbitMQ 3.13.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from arneb_amqp.errors import precondition_failed
from arneb_amqp.routing.death import DEAD_LETTER_EXCHANGE
from arneb_amqp.topology.arguments import (
    Check,
    assert_equivalent,
    boolean,
    check_arguments,
    check_exchange_name_argument,
    not_negative,
    one_of,
    positive,
    string,
    whole,
)
from arneb_amqp.topology.kept_dead_letters import KEPT_MAX
from arneb_amqp.topology.overflow import payload_bytes
from arneb_amqp.topology.queue_types import (
    DeadLetterStrategy,
    OverflowPolicy,
    QueueType,
    age_in_ms,
    is_age,
)
from arneb_amqp.wire.tables import Field, FieldType, Table
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.topics.settings import EXCLUSIVE, WITHOUT_END, TopicSettings

QUEUE_TYPE: Final = "x-queue-type"
STREAM_FILTER_SIZE: Final = "x-stream-filter-size-bytes"
HISTORY: Final = "x-history"

EXPIRY_MS_MAX: Final = 315_360_000_000
"""Ten years: RabbitMQ's bound for times to live."""
PRIORITY_MAX: Final = 255
SEGMENT_BYTES_MAX: Final = 3_000_000_000
"""RabbitMQ's bound for one segment of a stream."""

OF_ONE_CONNECTION: Final = {EXCLUSIVE: "amqp"}
"""The properties of topics of exclusive queues and of direct-reply queues."""

_SETTINGS: Final = {
    (durable, exclusive): TopicSettings(
        durable=durable, properties=OF_ONE_CONNECTION if exclusive else {}
    )
    for durable in (False, True)
    for exclusive in (False, True)
}
"""Settings of the topics of all queues except streams, by durability and exclusivity."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The options of a queue; None = not set."""

    type: QueueType = QueueType.CLASSIC
    expires_ms: int | None = None
    """The queue is deleted when unused for this long."""
    message_ttl_ms: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_strategy: DeadLetterStrategy = DeadLetterStrategy.AT_MOST_ONCE
    messages_max: int | None = None
    bytes_max: int | None = None
    overflow: OverflowPolicy = OverflowPolicy.DROP_HEAD
    priority_max: int = 0
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    """The acknowledgement timeout; 0 = never."""
    max_age_ms: int | None = None
    segment_bytes_max: int = 0
    has_history: bool = False
    """Whether the fate of its messages is recorded."""

    @classmethod
    def parse(cls, arguments: Table) -> Self:
        """Return the options that valid ``arguments`` set."""
        return cls(**asked_for(arguments))

    @property
    def refuses(self) -> bool:
        """Whether publishes are refused when the queue is full."""
        bounded = self.messages_max is not None or self.bytes_max is not None
        return bounded and self.overflow is not OverflowPolicy.DROP_HEAD

    @property
    def keeps_dead_letters(self) -> bool:
        """Whether dead letters that no queue takes are kept, instead of dropped. As in RabbitMQ, in
        quorum queues that refuse publishes only: one that drops its head must not be held up by
        what waits."""
        return (
            self.dead_letter_strategy is DeadLetterStrategy.AT_LEAST_ONCE
            and self.type is QueueType.QUORUM
            and self.overflow is OverflowPolicy.REJECT_PUBLISH
            and self.dead_letter_exchange is not None
        )

    @property
    def limits(self) -> Limits:
        """The limits that the core enforces by itself."""
        drops = self.overflow is OverflowPolicy.DROP_HEAD
        return Limits(
            message_ttl_ms=self.message_ttl_ms,
            ready_messages_max=self.messages_max if drops else None,
            ready_bytes_max=self.bytes_max if drops else None,
            delivery_limit=self.delivery_limit if self.type is QueueType.QUORUM else None,
            size_of=None if self.bytes_max is None else payload_bytes,
            departing_max=KEPT_MAX if self.keeps_dead_letters else None,
        )

    def topic_settings(self, *, durable: bool, exclusive: bool) -> TopicSettings:
        """Return the settings of the queue's topic."""
        if self.type is QueueType.STREAM:
            return TopicSettings(
                retention_ms=WITHOUT_END if self.max_age_ms is None else self.max_age_ms,
                retention_bytes=WITHOUT_END if self.bytes_max is None else self.bytes_max,
                ledger_bytes_max=self.segment_bytes_max,
            )
        return _SETTINGS[durable, exclusive]


def number(asked: Field) -> int | None:
    """The value of an integer argument."""
    return asked.value if isinstance(asked.value, int) else None


def text(asked: Field) -> str | None:
    """The value of a string argument."""
    return asked.text if asked.type is FieldType.LONGSTR else None


def is_true(asked: Field) -> bool:
    """The value of a boolean argument."""
    return asked.type is FieldType.BOOL and bool(asked.value)


def overflow_policy(asked: Field) -> OverflowPolicy | None:
    """The value of ``x-overflow``."""
    return next((each for each in OverflowPolicy if each.value == text(asked)), None)


def dead_letter_strategy(asked: Field) -> DeadLetterStrategy:
    """The value of ``x-dead-letter-strategy``."""
    return DeadLetterStrategy(asked.text)


def kind_of_queue(asked: Field) -> QueueType:
    """The value of ``x-queue-type``."""
    return QueueType(asked.text)


def age_ms(asked: Field) -> int | None:
    """The value of ``x-max-age``."""
    age = text(asked)
    return None if age is None else age_in_ms(age)


# Checks of single arguments.


def anything(_: Field, __: Table) -> str | None:
    """Accept any value: RabbitMQ never reads this one."""
    return None


def _expiry(field: Field, arguments: Table) -> str | None:
    fault = not_negative(field, arguments)
    if fault is None and whole(field) > EXPIRY_MS_MAX:
        return f"{{value_too_large,{whole(field)}}}"
    return fault


def _queue_expiry(field: Field, arguments: Table) -> str | None:
    if field.is_integer and not whole(field):
        return "{value_zero,0}"
    return _expiry(field, arguments)


def _priority(field: Field, arguments: Table) -> str | None:
    fault = not_negative(field, arguments)
    if fault is None and whole(field) > PRIORITY_MAX:
        return f"{{max_value_exceeded,{whole(field)}}}"
    return fault


def _queue_version(field: Field, arguments: Table) -> str | None:
    fault = not_negative(field, arguments)
    if fault is None and field.value not in (1, 2):
        return f"\"unsupported queue version '{whole(field)}'\""
    return fault


def _dead_letter_routing_key(field: Field, arguments: Table) -> str | None:
    fault = string(field, arguments)
    if fault is None and DEAD_LETTER_EXCHANGE not in arguments:
        return "routing_key_but_no_dlx_defined"
    return fault


def _max_age(field: Field, arguments: Table) -> str | None:
    fault = string(field, arguments)
    if fault is None:
        return None if is_age(field.text) else "invalid_max_age"
    return fault


def _segment_size(field: Field, arguments: Table) -> str | None:
    fault = not_negative(field, arguments)
    if fault is None and whole(field) > SEGMENT_BYTES_MAX:
        raise precondition_failed("Exceeded max value for x-stream-max-segment-size-bytes")
    return fault


def _filter_size(field: Field, _: Table) -> str | None:
    if not field.is_integer or not 16 <= whole(field) <= 255:
        raise precondition_failed(
            f"Invalid value for  {STREAM_FILTER_SIZE}"
        )  # two blanks, as in RabbitMQ
    return None


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: its check, its queue types and the option it sets."""

    name: str
    check: Check
    compared: Mapping[QueueType, int] = field(default_factory=dict)
    """Its position in RabbitMQ's argument list of each type, the order in which declarations are
    compared. Arguments that only other types list are refused."""
    also: tuple[QueueType, ...] = ()
    """Types that accept it though it is not in RabbitMQ's list of them: the first declaration
    counts, and later ones are not compared."""
    option: str = ""
    """The field of :class:`QueueOptions` that it sets; empty = it has no meaning here."""
    read: Callable[[Field], object] = number


def _at(*, classic: int = 0, quorum: int = 0, stream: int = 0) -> Mapping[QueueType, int]:
    ranks = {QueueType.CLASSIC: classic, QueueType.QUORUM: quorum, QueueType.STREAM: stream}
    return {kind: rank for kind, rank in ranks.items() if rank}


ARGUMENTS: Final = (
    Argument("x-expires", _queue_expiry, _at(classic=1, quorum=4), option="expires_ms"),
    Argument("x-message-ttl", _expiry, _at(classic=2, quorum=14), option="message_ttl_ms"),
    Argument(
        DEAD_LETTER_EXCHANGE, string, _at(classic=3, quorum=1),
        option="dead_letter_exchange", read=text,
    ),
    Argument(
        "x-dead-letter-routing-key", _dead_letter_routing_key, _at(classic=4, quorum=2),
        option="dead_letter_routing_key", read=text,
    ),
    Argument(
        "x-dead-letter-strategy",
        one_of(*(each.value for each in DeadLetterStrategy), otherwise="invalid_dlx_strategy"),
        _at(quorum=3), option="dead_letter_strategy", read=dead_letter_strategy,
    ),
    Argument("x-max-length", not_negative, _at(classic=5, quorum=5), option="messages_max"),
    Argument(
        "x-max-length-bytes", not_negative, _at(classic=6, quorum=6, stream=1), option="bytes_max"
    ),
    # The log decides for itself where and how messages are stored.
    Argument("x-max-in-memory-length", not_negative, _at(quorum=7)),
    Argument("x-max-in-memory-bytes", not_negative, _at(quorum=8)),
    Argument("x-max-priority", _priority, _at(classic=7), option="priority_max"),
    Argument(
        "x-overflow",
        one_of(*(each.value for each in OverflowPolicy), otherwise="invalid_overflow"),
        _at(classic=8, quorum=9), option="overflow", read=overflow_policy,
    ),
    Argument(
        "x-queue-mode", one_of("default", "lazy", unsupported="queue mode"), _at(classic=9)
    ),
    Argument("x-queue-version", _queue_version, _at(classic=10)),
    Argument(
        "x-single-active-consumer", boolean, _at(classic=11, quorum=10),
        option="single_active_consumer", read=is_true,
    ),
    Argument(
        QUEUE_TYPE, one_of(*(kind.value for kind in QueueType), unsupported="queue type"),
        _at(classic=12, quorum=11, stream=2),
        option="type", read=kind_of_queue,
    ),
    Argument("x-delivery-limit", not_negative, _at(quorum=13), option="delivery_limit"),
    Argument(
        "x-consumer-timeout", not_negative, also=tuple(QueueType), option="consumer_timeout_ms"
    ),
    Argument("x-quorum-initial-group-size", positive, _at(quorum=12)),
    Argument("x-max-age", _max_age, _at(stream=3), option="max_age_ms", read=age_ms),
    Argument(
        "x-stream-max-segment-size-bytes", _segment_size, _at(stream=4),
        option="segment_bytes_max",
    ),
    Argument(STREAM_FILTER_SIZE, _filter_size, also=(QueueType.STREAM,)),
    Argument("x-initial-cluster-size", positive, _at(stream=5)),
    Argument(
        "x-queue-leader-locator",
        one_of(
            "client-local", "balanced", "random", "least-leaders",
            otherwise="invalid_queue_locator_arg",
        ),
        _at(quorum=15, stream=6),
    ),
    Argument("x-queue-master-locator", anything, _at(classic=13)),
    # Arneb's own: the fate of each message is recorded.
    Argument(
        HISTORY, boolean, also=(QueueType.CLASSIC, QueueType.QUORUM), option="has_history",
        read=is_true,
    ),
)  # fmt: skip
"""Every argument of RabbitMQ, in its order of checks, and ours."""

_CHECKS: Final = {row.name: row.check for row in ARGUMENTS}


def asked_for(arguments: Table) -> dict[str, Any]:
    """Return the options that valid ``arguments`` set: fields of :class:`QueueOptions` by name."""
    options: dict[str, Any] = {}
    for row in ARGUMENTS:
        asked = arguments.get(row.name) if row.option else None
        value = None if asked is None else row.read(asked)
        if value is not None:
            options[row.option] = value
    return options


def queue_type(arguments: Table) -> QueueType:
    """Return the queue type that valid ``arguments`` name."""
    asked = arguments.get(QUEUE_TYPE)
    return QueueType.CLASSIC if asked is None else kind_of_queue(asked)


def compared_arguments(kind: QueueType) -> list[str]:
    """Return the arguments in which declarations of a queue of this type must agree, in RabbitMQ's
    order."""
    rows = [row for row in ARGUMENTS if kind in row.compared]
    return [row.name for row in sorted(rows, key=lambda row: row.compared[kind])]


def check_queue_arguments(arguments: Table, queue: str) -> None:
    """Raise RabbitMQ's 406 for the first invalid argument; ``queue`` as in error texts."""
    # RabbitMQ checks this one before all others, and words the error differently.
    check_exchange_name_argument(arguments, DEAD_LETTER_EXCHANGE, queue)
    check_arguments(arguments, queue, (QUEUE_TYPE,), _CHECKS)
    kind = queue_type(arguments)
    known = [row.name for row in ARGUMENTS if kind in row.compared or kind in row.also]
    check_arguments(arguments, queue, known, _CHECKS)
    foreign = {row.name for row in ARGUMENTS if row.compared and kind not in row.compared}
    for name in arguments:
        if name in foreign:
            raise precondition_failed(
                f"invalid arg '{name}' for {queue} of queue type {kind.in_words}"
            )


def assert_same_arguments(current: Table, received: Table, queue: str) -> None:
    """Raise RabbitMQ's 406 unless ``received`` agrees with the ``current`` arguments."""
    for name in compared_arguments(queue_type(current)):
        default = QueueType.CLASSIC.value if name == QUEUE_TYPE else None
        assert_equivalent(current, received, name, queue, default)
