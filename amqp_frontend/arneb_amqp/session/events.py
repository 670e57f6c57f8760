"""Events: answers to a session's effects, and what else happens to it, as data."""

from dataclasses import dataclass

from arneb_amqp.errors import AmqpError
from arneb_amqp.session.compressed_runs import Messages
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Refused, Token
from arneb_core.api.process.resource_alarms import Short
from arneb_core.api.subscriptions.deliveries import Deliveries


@dataclass(frozen=True, slots=True)
class Committed:
    """An append is on disk, or ``error`` says why it never will be."""

    token: Token
    error: AmqpError | None = None
    refused: Refused = False


@dataclass(frozen=True, slots=True)
class RequestDone:
    """The request is done; its effect's docstring says what ``value`` is."""

    value: object = None


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The request failed and changed nothing."""

    error: AmqpError


@dataclass(frozen=True, slots=True)
class ConsumerClosed:
    """A consumer's queue is gone, and with it everything in flight there."""

    consumer: ConsumerId


@dataclass(frozen=True, slots=True)
class AlarmsChanged:
    """The broker is short of exactly these resources."""

    short: Short


@dataclass(frozen=True, slots=True)
class AccessChanged:
    """Permissions have changed."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The connection must end: the broker stops, or an operator asked for it."""

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


# The values of RequestDone.


@dataclass(frozen=True, slots=True)
class QueueDeclared:
    """The fields of ``queue.declare-ok``."""

    name: str
    message_count: int
    consumer_count: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """A message pulled by ``basic.get``, and how many are left."""

    run: Deliveries
    message_count: int
    owner: ConsumerId
    """The attachment that has the message in flight."""
    messages: Messages | None = None
    """The run opened, if that took long."""
