"""Events: how the world answers a session's effects, as data."""

from dataclasses import dataclass

from arneb_amqp.errors import AmqpError
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Refused, Token
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.resource_alarms import Short


@dataclass(frozen=True, slots=True)
class Committed:
    """An append is on disk, or ``error`` says why it never will be."""

    token: Token
    error: AmqpError | None = None
    refused: Refused = False


@dataclass(frozen=True, slots=True)
class RequestDone:
    """The request is done; ``value`` is what its effect's docstring says."""

    value: object = None


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The request failed and changed nothing."""

    error: AmqpError


@dataclass(frozen=True, slots=True)
class ConsumerClosed:
    """The queue of a consumer is gone, and with it everything in flight there."""

    consumer: ConsumerId


@dataclass(frozen=True, slots=True)
class AlarmsChanged:
    """The broker runs short of these, and of nothing else."""

    short: Short


@dataclass(frozen=True, slots=True)
class AccessChanged:
    """What somebody may do is not what it was."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The connection is to end: the broker stops, or somebody wants it."""

    reason: str = "broker forced connection closure with reason 'shutdown'"


Event = (
    Committed
    | RequestDone
    | RequestFailed
    | ConsumerClosed
    | AlarmsChanged
    | AccessChanged
    | Shutdown
)


# What requests are answered with.


@dataclass(frozen=True, slots=True)
class QueueDeclared:
    """What ``queue.declare-ok`` says."""

    name: str
    message_count: int
    consumer_count: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """A message that ``basic.get`` got, and how many are left."""

    run: Deliveries
    message_count: int
    owner: ConsumerId
    """The attachment that has it in flight."""
