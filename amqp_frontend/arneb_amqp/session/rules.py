"""Rules: the rights that each AMQP method needs, in one table.

The rule: a method without a row is not handled, and a row without needs says why it has none. Needs
are checked in the order of the row, which is RabbitMQ's, so the error is the same; a need that does
not apply names nothing. Whoever changes what a method does changes its row.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Confirm, Connection, Exchange, Queue, Tx
from pamqp.commands import Channel as Channels

from arneb_amqp.routing.checks import refuse_default, refuse_system
from arneb_amqp.routing.death import DEAD_LETTER_EXCHANGE
from arneb_amqp.routing.exchange import ALTERNATE_EXCHANGE, RESERVED_PREFIX
from arneb_amqp.routing.reply_to import REPLY_TO, is_reply_queue
from arneb_amqp.routing.router import Router
from arneb_amqp.wire.access import Access
from arneb_amqp.wire.tables import Table, lookup_text
from arneb_core.access.principals import Kind, Question
from arneb_core.access.rights import Right

TOPIC: Final = "topic"
"""The type of exchanges whose routing keys may be limited."""


class RuledVhost(Protocol):
    """A vhost, as much of it as rules need."""

    @property
    def router(self) -> Router:
        """Its exchanges."""
        ...

    def has_queue(self, name: str) -> bool:
        """Whether a queue of that name is declared."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A method with its names expanded, or an object with the same names; and its context."""

    method: Any
    vhost: RuledVhost
    queue: str = ""
    """The queue being declared: the name given, or the one the broker generates."""
    limits_keys: Callable[[str], bool] = lambda _: True
    """See :meth:`.Rights.limits_keys`."""


Named = Callable[[Asked], str | None]
"""Returns the name a right is needed on; None = not needed."""


@dataclass(frozen=True, slots=True)
class Need:
    """One right that a method needs."""

    right: Right
    kind: Kind
    name: Named
    routing_key: Callable[[Asked], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a method needs, or why it needs nothing."""

    needs: tuple[Need, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        assert bool(self.needs) != bool(self.reason), "expected needs, or a reason for none"


def questions(kind: type[Command], asked: Asked) -> Iterator[Question]:
    """Yield what must be allowed before a method of that kind is carried out. Raises
    :class:`KeyError` for a method without a row, 403 for the default exchange where it may not be
    used and for exchanges that nobody may delete, and 503 for an unknown exchange type: RabbitMQ
    checks these before it checks rights."""
    for need in RULES[kind].needs:
        name = need.name(asked)
        if name is not None:
            yield Question(need.right, need.kind, name, need.routing_key(asked))


# The names on which rights are needed.


def _exchange(asked: Asked) -> str | None:
    name: str = asked.method.exchange
    return name


def _declared_exchange(asked: Asked) -> str | None:
    if not asked.method.passive:
        asked.vhost.router.check_type(asked.method.exchange_type)
    refuse_default(asked.method.exchange)
    return None if asked.method.passive else _exchange(asked)


def _deleted_exchange(asked: Asked) -> str | None:
    refuse_system(asked.method.exchange, asked.vhost.router.vhost)
    return _exchange(asked)


def _new_with_alternate(asked: Asked) -> str | None:
    return asked.method.exchange if _alternate(asked) is not None else None


def _alternate(asked: Asked) -> str | None:
    method = asked.method
    if method.passive or method.exchange in asked.vhost.router.exchanges:
        return None
    if method.exchange.startswith(RESERVED_PREFIX):
        return None  # it is refused anyway
    return _text(method.arguments, ALTERNATE_EXCHANGE)


def _destination_exchange(asked: Asked) -> str | None:
    name: str = asked.method.destination
    return name


def _source_exchange(asked: Asked) -> str | None:
    refuse_default(asked.method.destination)
    refuse_default(asked.method.source)
    name: str = asked.method.source
    return name


def _source_topic(asked: Asked) -> str | None:
    return _if_topic(asked, asked.method.source)


def _open_exchange(asked: Asked) -> str | None:
    refuse_default(asked.method.exchange)
    return _exchange(asked)


def _bound_topic(asked: Asked) -> str | None:
    return _if_topic(asked, asked.method.exchange)


def _if_topic(asked: Asked, name: str) -> str | None:
    exchange = asked.vhost.router.exchanges.get(name)
    if exchange is None or exchange.type != TOPIC or not asked.limits_keys(name):
        return None
    return name


def _routing_key(asked: Asked) -> str:
    key: str = asked.method.routing_key
    return key


def _queue(asked: Asked) -> str | None:
    name: str = asked.method.queue
    return name


def _declared_queue(asked: Asked) -> str | None:
    if asked.method.passive or _is_for_answers(asked.method.queue):
        return None
    return asked.queue


def _new_with_dead_letters(asked: Asked) -> str | None:
    return asked.queue if _dead_letters(asked) is not None else None


def _dead_letters(asked: Asked) -> str | None:
    if _declared_queue(asked) is None or asked.vhost.has_queue(asked.queue):
        return None
    return _text(asked.method.arguments, DEAD_LETTER_EXCHANGE)


def _consumed_queue(asked: Asked) -> str | None:
    return None if asked.method.queue == REPLY_TO else _queue(asked)


def _is_for_answers(queue: str) -> bool:
    return queue == REPLY_TO or is_reply_queue(queue)


def _text(arguments: Any, name: str) -> str | None:
    table: Table = arguments or {}
    return lookup_text(table, name)


# The table.

_C, _W, _R = Right.CONFIGURE, Right.WRITE, Right.READ
_E, _Q, _T = Kind.EXCHANGE, Kind.QUEUE, Kind.TOPIC

_BIND_EXCHANGE: Final = Rule(
    (
        Need(_W, _E, _destination_exchange),
        Need(_R, _E, _source_exchange),
        Need(_R, _T, _source_topic, _routing_key),
    )
)
_BIND_QUEUE: Final = Rule(
    (
        Need(_W, _Q, _queue),
        Need(_R, _E, _open_exchange),
        Need(_R, _T, _bound_topic, _routing_key),
    )
)

_FROM_US: Final = Rule(reason="only the broker sends it; from a client it is a mistake")
_LIFE: Final = Rule(reason="it begins, tunes or ends what the client has for itself")
_ANSWER: Final = Rule(reason="it answers what was delivered by the right to read")
_OWN: Final = Rule(reason="it changes how the channel works and touches nothing of others")

RULES: Final[Mapping[type[Command], Rule]] = {
    Connection.Start: _FROM_US,
    Connection.StartOk: Rule(reason="it is the login itself"),
    Connection.Secure: _FROM_US,
    Connection.SecureOk: Rule(reason="no mechanism asks for a second step, so it is a mistake"),
    Connection.Tune: _FROM_US,
    Connection.TuneOk: _LIFE,
    Connection.Open: Rule(
        reason="it needs access to the vhost, no right on a thing: server/admission/entrance.py"
    ),
    Connection.OpenOk: _FROM_US,
    Connection.Close: _LIFE,
    Connection.CloseOk: _LIFE,
    Connection.Blocked: _FROM_US,
    Connection.Unblocked: _FROM_US,
    Connection.UpdateSecret: Rule(reason="it is a login: the secret is looked at as the first was"),
    Connection.UpdateSecretOk: _FROM_US,
    Channels.Open: Rule(reason="it is bounded by limits, and by no right"),
    Channels.OpenOk: _FROM_US,
    Channels.Flow: _OWN,
    Channels.FlowOk: _OWN,
    Channels.Close: _LIFE,
    Channels.CloseOk: _LIFE,
    Access.Request: Rule(reason="tickets mean nothing since 0-9-1"),
    Access.RequestOk: _FROM_US,
    Exchange.Declare: Rule(
        (
            Need(_C, _E, _declared_exchange),
            Need(_R, _E, _new_with_alternate),
            Need(_W, _E, _alternate),
        )
    ),
    Exchange.DeclareOk: _FROM_US,
    Exchange.Delete: Rule((Need(_C, _E, _deleted_exchange),)),
    Exchange.DeleteOk: _FROM_US,
    Exchange.Bind: _BIND_EXCHANGE,
    Exchange.BindOk: _FROM_US,
    Exchange.Unbind: _BIND_EXCHANGE,
    Exchange.UnbindOk: _FROM_US,
    Queue.Declare: Rule(
        (
            Need(_C, _Q, _declared_queue),
            Need(_R, _Q, _new_with_dead_letters),
            Need(_W, _E, _dead_letters),
        )
    ),
    Queue.DeclareOk: _FROM_US,
    Queue.Bind: _BIND_QUEUE,
    Queue.BindOk: _FROM_US,
    Queue.Unbind: _BIND_QUEUE,
    Queue.UnbindOk: _FROM_US,
    Queue.Purge: Rule((Need(_R, _Q, _queue),)),
    Queue.PurgeOk: _FROM_US,
    Queue.Delete: Rule((Need(_C, _Q, _queue),)),
    Queue.DeleteOk: _FROM_US,
    Basic.Qos: _OWN,
    Basic.QosOk: _FROM_US,
    Basic.Consume: Rule((Need(_R, _Q, _consumed_queue),)),
    Basic.ConsumeOk: _FROM_US,
    Basic.Cancel: Rule(reason="it ends what the channel itself has begun"),
    Basic.CancelOk: Rule(reason="it answers the broker"),
    Basic.Publish: Rule(
        (
            Need(_W, _E, _exchange),
            Need(_W, _T, _bound_topic, _routing_key),
        )
    ),
    Basic.Return: _FROM_US,
    Basic.Deliver: _FROM_US,
    Basic.Get: Rule((Need(_R, _Q, _queue),)),
    Basic.GetOk: _FROM_US,
    Basic.GetEmpty: _FROM_US,
    Basic.Ack: _ANSWER,
    Basic.Nack: _ANSWER,
    Basic.Reject: _ANSWER,
    Basic.Recover: _ANSWER,
    Basic.RecoverAsync: _ANSWER,
    Basic.RecoverOk: _FROM_US,
    Confirm.Select: _OWN,
    Confirm.SelectOk: _FROM_US,
    Tx.Select: _OWN,
    Tx.SelectOk: _FROM_US,
    Tx.Commit: Rule(reason="what it makes durable was allowed when it came"),
    Tx.CommitOk: _FROM_US,
    Tx.Rollback: Rule(reason="it undoes what the channel itself has done"),
    Tx.RollbackOk: _FROM_US,
}
