"""Effects: what a session asks of the world, as data.

Most effects are orders that need no answer, or whose answer comes some time later
(:class:`Append`). A request (:class:`Awaited`) is answered by exactly one event, and until it is,
the session handles no further input of its connection: what a client sends after a
``queue.declare`` must find the queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NewType

from pamqp.base import Frame as Command

from arneb_amqp.consumption import Consumption
from arneb_amqp.routing.search import Search
from arneb_amqp.session.deliveries import ConsumerId, Settled
from arneb_core.access.principals import Principal, Question

Token = NewType("Token", int)
"""Names an append until it is committed; never used twice on a connection."""

Refused = bool | tuple[bool, ...]
"""Whether a full queue did not take the messages of an append, as was asked for: all of them, or
each by itself, in their order, where it took some."""


@dataclass(slots=True)
class Append:
    """Put ``entries`` into each of ``queues``, all or nothing but for what a full queue refuses;
    then :class:`Committed`.

    Not to be changed. It is not frozen because one is made for every run of publishes, and to
    make a frozen one costs four times as much; so it is with what is made for every commit.
    """

    queues: tuple[str, ...]
    entries: list[bytes]
    token: Token
    expiring: bool = False
    """Some of the entries have an expiry."""
    delayed_by: tuple[str, ...] = ()
    """Exchanges that keep the messages."""
    delayed: list[bytes] = field(default_factory=list)
    """What they keep: the same messages, with their times."""


@dataclass(slots=True)
class DeliveryAnswer:
    """What the client says to deliveries of one consumer. Not to be changed, as an
    :class:`Append`."""

    settled: Settled


@dataclass(slots=True)
class Acknowledge(DeliveryAnswer):
    """The client is done with these messages."""


@dataclass(slots=True)
class Reject(DeliveryAnswer):
    """The client does not want these messages, and nobody else is to have them either."""


@dataclass(slots=True)
class Release(DeliveryAnswer):
    """The client gives these messages back."""


@dataclass(frozen=True, slots=True)
class Wake:
    """A prefetch limit of these consumers was changed."""

    consumers: tuple[ConsumerId, ...]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """End the connection; what is to be sent goes out first. ``peer_first``: the client is given
    a moment to close the socket itself. ``is_late``: it is given up, silent for too long."""

    reason: str = ""
    peer_first: bool = False
    is_late: bool = False
    reset: bool = False
    """What is to be sent does not go out, and the client gets no farewell."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """An effect that the session waits for."""


@dataclass(frozen=True, slots=True)
class LogIn(Awaited):
    """Find out who the client is. RequestDone by a
    :class:`~arneb_core.access.principals.Principal`; when it fails nothing is to be told but that
    it did."""

    mechanism: str
    name: str
    password: str | None = field(repr=False)
    """None: the certificate says who it is, and ``name`` says nothing."""


@dataclass(frozen=True, slots=True)
class Vouch(Awaited):
    """Let in a client that was let in elsewhere under this name. RequestDone by a
    :class:`~arneb_core.access.principals.Principal`."""

    mechanism: str
    name: str
    secret: str | None = field(repr=False)
    """What it has shown there, if it must be shown again."""


@dataclass(frozen=True, slots=True)
class Renew(Awaited):
    """Take another secret of a client that has logged in. RequestDone by None."""

    principal: Principal
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Enter(Awaited):
    """Let the client into a vhost. RequestDone by
    :class:`~arneb_amqp.session.context.Entered`."""

    vhost: str
    principal: Principal


@dataclass(frozen=True, slots=True)
class Authorize(Awaited):
    """Find out what the user may do. RequestDone by None: it is known then."""

    question: Question


@dataclass(frozen=True, slots=True)
class Find(Awaited):
    """Take the steps of a search until it is over, and let others have their turn between them.
    RequestDone by None."""

    search: Search


@dataclass(frozen=True, slots=True)
class Perform(Awaited):
    """A method of the exchange or queue class, names expanded. RequestDone by what its ok says:
    :class:`~arneb_amqp.session.events.QueueDeclared`, a message count, or None."""

    command: Command


@dataclass(frozen=True, slots=True)
class Consume(Awaited):
    """Attach a consumer. Deliveries for it may arrive before the answer does, which is a
    :class:`~arneb_amqp.routing.stream_filter.StreamFilter` if the queue is a stream, or else
    None."""

    consumer: ConsumerId
    wanted: Consumption


@dataclass(frozen=True, slots=True)
class Cancel(Awaited):
    """Deliver nothing more to this consumer; its deliveries stay unanswered."""

    consumer: ConsumerId


@dataclass(frozen=True, slots=True)
class Get(Awaited):
    """Pull one message. ``consumer`` names who is to hold it; the same for all of a queue.
    RequestDone by :class:`~arneb_amqp.session.events.Pulled` or None."""

    consumer: ConsumerId
    queue: str
    no_ack: bool


@dataclass(frozen=True, slots=True)
class Commit(Awaited):
    """A transaction: all of it becomes durable or nothing does."""

    appends: Sequence[tuple[tuple[str, ...], list[bytes]]] = ()
    delayed: Sequence[tuple[tuple[str, ...], list[bytes]]] = ()
    """Messages that exchanges keep."""
    acknowledged: Sequence[Settled] = ()
    published_ms: int = 0
    """The messages come into their queues now, and so their times begin now."""


@dataclass(frozen=True, slots=True)
class Leave(Awaited):
    """Detach these consumers; what they hold goes back. Auto-delete queues may go."""

    consumers: tuple[ConsumerId, ...]


@dataclass(frozen=True, slots=True)
class EndConnection(Awaited):
    """Detach everything and delete the connection's exclusive queues."""


Request = (
    LogIn
    | Vouch
    | Renew
    | Enter
    | Authorize
    | Find
    | Perform
    | Consume
    | Cancel
    | Get
    | Commit
    | Leave
    | EndConnection
)
"""Everything that is answered by one event; :class:`Awaited` is what they have in common."""

Effect = Append | Acknowledge | Reject | Release | Wake | Disconnect | Request
"""Everything that :meth:`ConnectionSession.take_effects` may hold."""
