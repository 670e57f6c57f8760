"""Contexts: the broker as a session sees it, and a connection as its channels see it.

The rule: protocols and values only, so nothing here knows the implementations; and the exception by
which a channel ends its turn.
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
from arneb_core.api.subscriptions.deliveries import Deliveries


class VhostContext(Protocol):
    """A vhost, as much of it as a session needs."""

    @property
    def router(self) -> Router:
        """Its exchanges."""
        ...

    def has_queue(self, name: str) -> bool:
        """Whether a queue of that name is declared."""
        ...

    @property
    def routes(self) -> Routes:
        """The cached routes, shared by all connections of the vhost."""
        ...

    def foreign_topic(self, queue: str) -> bool:
        """Whether a topic of that queue's name exists, even if nobody declared the queue."""
        ...

    def queue_traffic(self, queue: str) -> QueueTraffic:
        """The counters of deliveries from that queue."""
        ...

    def passes_refused_on(self, queues: Sequence[str]) -> bool:
        """Whether a message that one of ``queues`` refuses becomes a dead letter."""
        ...

    @property
    def is_traced(self) -> bool:
        """Whether publishes are traced, including those that no queue takes."""
        ...

    def ack_timeout_s(self, queue: str) -> float | None:
        """The acknowledgement timeout of ``queue``; 0 = never, None = the queue sets none."""
        ...


@dataclass(frozen=True, slots=True)
class Entered:
    """The client is let into a vhost."""

    vhost: VhostContext
    rights: Rights


class ChannelCounts(Protocol):
    """Counts the open channels of all connections."""

    def opening(self, user: str, id_: ChannelId) -> None:
        """Count a channel that is about to be opened for ``user``. Raises 530 at the limit."""
        ...

    def ended(self, user: str, ids: Collection[ChannelId]) -> None:
        """Uncount channels that were closed."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """The broker, as much of it as a session needs."""

    config: AmqpConfig
    new_name: Callable[[], str]
    channels: ChannelCounts
    mechanisms: tuple[str, ...]
    """The login mechanisms offered on this connection."""


class RegisteredConsumer(Protocol):
    """A consumer of a channel, as its connection sees it."""

    @property
    def id(self) -> ConsumerId:
        """The id of its first attachment."""
        ...

    @property
    def channel(self) -> ChannelId:
        """The channel it belongs to."""
        ...

    def deliver(self, owner: ConsumerId, run: Deliveries) -> None:
        """Send the run to the client. ``owner`` is the attachment that received it."""
        ...


class ChannelContext(Protocol):
    """A connection, as its channels see it."""

    effects: EffectQueue
    output: Output
    discarded: Discarded
    transaction_bytes: TransactionBytes
    """Shared by all channels."""
    now_ms: int
    """The wall clock at the event being handled."""
    work_left: int
    """The work left in this turn, in microseconds, roughly."""
    frame_bytes_max: int
    rights: Rights
    cancel_notify: bool
    """Whether the client understands ``basic.cancel`` from the broker."""

    @property
    def consumers_max(self) -> int:
        """The most consumers a channel may have; negative = no limit."""
        ...

    def check_ack_timeouts_within(self, timeout_s: float) -> None:
        """Check acknowledgement timeouts often enough for ``timeout_s``."""
        ...

    def ask(self, request: Request, then: Callable[[object], None]) -> None:
        """Order a request and stop handling input; ``then`` takes the answer. A refusal closes the
        channel or connection of the current method."""
        ...

    def confirming(self, publisher: Publishing) -> None:
        """Note that ``publisher`` has confirms to send."""
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
        """The random part of a server-generated name."""
        ...

    def failed(self, channel: ChannelId, error: AmqpError) -> None:
        """Close the channel or connection to which a late error belongs."""
        ...


class Pause(Exception):
    """The turn ends before an item is fully handled. ``search`` must finish before it is resumed.

    Nothing has been done for ``rest``; it is handled again as if it had just arrived. Without
    ``rest`` that is the whole item.
    """

    def __init__(self, rest: Item | None = None, search: Search | None = None) -> None:
        super().__init__()
        self.rest = rest
        self.search = search
