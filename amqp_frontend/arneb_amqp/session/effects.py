"""Effects: what a session wants done, as data.

Most effects need no answer, or are answered some time later (:class:`Append`). A request
(:class:`Awaited`) is answered by exactly one event, and until then the session handles no further
input of its connection: what a client sends after a ``queue.declare`` must find the queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NewType

from pamqp.base import Frame as Command

from arneb_amqp.consumption import Consumption
from arneb_amqp.routing.search import Search
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_amqp.wire.constants import ChannelId
from arneb_core.access.principals import Principal, Question

Token = NewType("Token", int)
"""Names an append until it is committed; never used twice on a connection."""

Refused = bool | tuple[bool, ...]
"""Whether a full queue refused the messages of an append: all of them, or one flag for each, in
order, where it took some."""


@dataclass(slots=True)
class Append:
    """Put ``entries`` into each of ``queues``, all or nothing except what a full queue refuses;
    then :class:`Committed`.

    Never modified. It is not frozen because one is made for every run of publishes, and making a
    frozen one costs four times as much; so with everything made once a commit.
    """

    queues: tuple[str, ...]
    entries: list[bytes]
    token: Token
    expiring: bool = False
    """Whether any entry has an expiry."""
    delayed_by: tuple[str, ...] = ()
    """Exchanges that delay the messages."""
    delayed: list[bytes] = field(default_factory=list)
    """What they store: the same messages with their delivery times."""


@dataclass(slots=True)
class DeliveryAnswer:
    """The client's answer to deliveries of one consumer. Never modified, like :class:`Append`."""

    answered: AnsweredDeliveries


@dataclass(slots=True)
class Acknowledge(DeliveryAnswer):
    """The client has processed these messages."""


@dataclass(slots=True)
class Reject(DeliveryAnswer):
    """The client does not want these messages, and no other consumer may get them either."""


@dataclass(slots=True)
class Release(DeliveryAnswer):
    """The client gives these messages back."""


@dataclass(frozen=True, slots=True)
class Wake:
    """A prefetch limit of these consumers has changed."""

    consumers: tuple[ConsumerId, ...]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """End the connection once pending output is sent. ``peer_first``: the client gets a moment to
    close the socket itself. ``is_late``: the client is given up as silent for too long."""

    reason: str = ""
    peer_first: bool = False
    is_late: bool = False
    reset: bool = False
    """Drop pending output; the client gets no farewell."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """An effect whose answer the session waits for."""


@dataclass(frozen=True, slots=True)
class LogIn(Awaited):
    """Authenticate the client. RequestDone with a :class:`~arneb_core.access.principals.Principal`;
    a failure tells the client nothing but that the login failed."""

    mechanism: str
    name: str
    password: str | None = field(repr=False)
    """None: the certificate identifies the client, and ``name`` is ignored."""


@dataclass(frozen=True, slots=True)
class Vouch(Awaited):
    """Accept a client that another session authenticated under this name. RequestDone with a
    :class:`~arneb_core.access.principals.Principal`."""

    mechanism: str
    name: str
    secret: str | None = field(repr=False)
    """The secret it presented there, if it must be presented again."""


@dataclass(frozen=True, slots=True)
class Renew(Awaited):
    """Take a new secret from a client that has logged in. RequestDone with None."""

    principal: Principal
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Enter(Awaited):
    """Let the client into a vhost. RequestDone with
    :class:`~arneb_amqp.session.context.Entered`."""

    vhost: str
    principal: Principal


@dataclass(frozen=True, slots=True)
class Authorize(Awaited):
    """Find out whether the user may do this. RequestDone with None: the verdict is known then."""

    question: Question


@dataclass(frozen=True, slots=True)
class Find(Awaited):
    """Run a search to its end, a step a turn. RequestDone with None."""

    search: Search


@dataclass(frozen=True, slots=True)
class Perform(Awaited):
    """Carry out a method of the exchange or queue class, its names expanded. RequestDone with what
    its ok says: :class:`~arneb_amqp.session.events.QueueDeclared`, a message count, or None."""

    command: Command


@dataclass(frozen=True, slots=True)
class Consume(Awaited):
    """Attach a consumer. Its deliveries may arrive before the answer, which is a
    :class:`~arneb_amqp.routing.stream_filter.StreamFilter` if the queue is a stream, else None."""

    consumer: ConsumerId
    wanted: Consumption


@dataclass(frozen=True, slots=True)
class Cancel(Awaited):
    """Deliver nothing more to this consumer; its deliveries stay unanswered."""

    consumer: ConsumerId


@dataclass(frozen=True, slots=True)
class Get(Awaited):
    """Pull one message. ``consumer`` is the holder, the same for all pulls from a queue.
    RequestDone with :class:`~arneb_amqp.session.events.Pulled` or None."""

    consumer: ConsumerId
    queue: str
    no_ack: bool


@dataclass(frozen=True, slots=True)
class Commit(Awaited):
    """Commit a transaction: all of it becomes durable or none of it."""

    appends: Sequence[tuple[tuple[str, ...], list[bytes]]] = ()
    delayed: Sequence[tuple[tuple[str, ...], list[bytes]]] = ()
    """Messages that exchanges delay."""
    acknowledged: Sequence[AnsweredDeliveries] = ()
    published_ms: int = 0
    """When the messages enter their queues, which is when their times to live begin."""


@dataclass(frozen=True, slots=True)
class Leave(Awaited):
    """Detach these consumers of a channel, and those that it has cancelled, and requeue what they
    hold. Auto-delete queues may be deleted."""

    channel: ChannelId
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
"""Every effect that is answered by one event; :class:`Awaited` is what they have in common."""

Effect = Append | Acknowledge | Reject | Release | Wake | Disconnect | Request
"""Every effect that :meth:`ConnectionSession.take_effects` may return."""
