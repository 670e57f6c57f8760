"""Contexts: what a session is told about its broker, and what a channel sees of its connection.

The rule: protocols and values only, so that nothing here knows who fulfils them; and the exception
by which a channel says that the turn is over.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.router import Router
from arneb_amqp.routing.routes import Routes
from arneb_amqp.routing.search import Search
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.discarded import Discarded
from arneb_amqp.session.effect_queue import EffectQueue, Publishing
from arneb_amqp.session.effects import Request
from arneb_amqp.session.output import Output
from arneb_amqp.session.rights import Rights
from arneb_amqp.session.transaction import TransactionBytes
from arneb_amqp.traffic import QueueTraffic
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.items import Item
from arneb_core.api.deliveries import Deliveries


class VhostContext(Protocol):
    """A vhost, as far as a session needs it."""

    @property
    def router(self) -> Router:
        """Its exchanges."""
        ...

    def has_queue(self, name: str) -> bool:
        """A queue of that name was declared."""
        ...

    @property
    def routes(self) -> Routes:
        """The routes that all its connections share."""
        ...

    def foreign_topic(self, queue: str) -> bool:
        """There is a topic of that queue's name, though nobody may have declared the queue."""
        ...

    def queue_traffic(self, queue: str) -> QueueTraffic:
        """Where what is delivered from that queue is counted."""
        ...

    def passes_refused_on(self, queues: Sequence[str]) -> bool:
        """What one of ``queues`` refuses is a dead letter, and goes elsewhere."""
        ...

    @property
    def is_traced(self) -> bool:
        """Somebody wants to see what is published here, whether anybody takes it or not."""
        ...

    def ack_timeout_s(self, queue: str) -> float | None:
        """How long deliveries of ``queue`` may wait for their answers, if it says so itself; 0 =
        for ever."""
        ...


@dataclass(frozen=True, slots=True)
class Entered:
    """The client is let into a vhost."""

    vhost: VhostContext
    rights: Rights


class ChannelCounts(Protocol):
    """The open channels of all connections, as one of them counts its own."""

    def opening(self, user: str, id_: ChannelId) -> None:
        """One more is about to be opened for that user. Raises 530 if there may be no more."""
        ...

    def ended(self, user: str, ids: Collection[ChannelId]) -> None:
        """These are not open any more."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """The broker, as far as a session needs it."""

    config: AmqpConfig
    new_name: Callable[[], str]
    channels: ChannelCounts
    mechanisms: tuple[str, ...]
    """How a client may log in over this connection."""


class RegisteredConsumer(Protocol):
    """A consumer of some channel, as its connection knows it."""

    @property
    def id(self) -> ConsumerId:
        """The id of its first attachment."""
        ...

    @property
    def channel(self) -> ChannelId:
        """The channel that it belongs to."""
        ...

    def deliver(self, owner: ConsumerId, run: Deliveries) -> None:
        """Send the run to the client. ``owner`` is the attachment that got it."""
        ...


class ChannelContext(Protocol):
    """A connection as its channels use it."""

    effects: EffectQueue
    output: Output
    discarded: Discarded
    transaction_bytes: TransactionBytes
    """Of all channels together."""
    now_ms: int
    """The wall clock at the event that is being handled."""
    work_left: int
    """How much may be done before others have their turn, in microseconds, about."""
    frame_bytes_max: int
    rights: Rights
    cancel_notify: bool
    """The client understands ``basic.cancel`` from the broker."""

    @property
    def consumers_max(self) -> int:
        """Of one channel; negative = no limit."""
        ...

    def check_ack_timeouts_within(self, timeout_s: float) -> None:
        """Deliveries may be unanswered no longer than this; check them as often as that takes."""
        ...

    def ask(self, request: Request, then: Callable[[object], None]) -> None:
        """Order a request and stop handling input; ``then`` takes the answer. A refusal closes
        what the current method belongs to."""
        ...

    def confirming(self, publisher: Publishing) -> None:
        """``publisher`` has confirms to send."""
        ...

    def next_consumer(self) -> ConsumerId:
        """A consumer id that was never used."""
        ...

    def register(self, consumer: RegisteredConsumer) -> None:
        """Send this consumer's deliveries to it."""
        ...

    def forget(self, consumer: ConsumerId) -> None:
        """Send no more deliveries to it."""
        ...

    def new_name(self) -> str:
        """The random part of a name that the server gives."""
        ...

    def failed(self, channel: ChannelId, error: AmqpError) -> None:
        """Close what an error that came late belongs to."""
        ...


class Pause(Exception):
    """The turn is over before an item is handled to its end. ``search``: what must be found first.

    Whoever raises has done nothing for ``rest`` yet; it is handled again, as if it had come just
    then. Without ``rest`` that is the whole item.
    """

    def __init__(self, rest: Item | None = None, search: Search | None = None) -> None:
        super().__init__()
        self.rest = rest
        self.search = search
