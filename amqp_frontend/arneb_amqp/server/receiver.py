"""A receiver: who is told of what happens in the core.

The rule: it is told in the event loop, in other tasks' turns, and raises nothing.
"""

from typing import Final, Protocol

from arneb_amqp.errors import AmqpError
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Disconnect, Token
from arneb_core.api.deliveries import Deliveries


class Receiver(Protocol):
    """Who is told of what happens in the core."""

    def committed(self, token: Token, failure: AmqpError | None, *, refused: bool = False) -> None:
        """An append is on disk, or never will be, or a full queue refused it. May be called
        before ``append`` returns."""
        ...

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """A consumer was assigned a run."""
        ...

    async def deliveries_made(self) -> None:
        """Wait for the deliveries that a commit brings about."""
        ...

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """The core has detached a consumer."""
        ...


class Nobody:
    """In the place of a connection that is over, for whoever is still to tell it something: a
    commit that is under way, a consumer of a store that failed."""

    def committed(self, token: Token, failure: AmqpError | None, *, refused: bool = False) -> None:
        """Nobody waits for it."""

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """What is in flight there has gone back."""

    async def deliveries_made(self) -> None:
        """Nobody waits for them."""

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """It has gone before."""

    def disconnect(self, order: Disconnect) -> None:
        """The socket is closed."""

    def flush(self) -> None:
        """The socket is closed."""

    async def room(self) -> None:
        """Nothing is written."""

    def break_down(self, error: Exception) -> None:
        """It is over already."""


NOBODY: Final = Nobody()


class ConsumerSink:
    """One consumer's deliveries on their way to the connection."""

    __slots__ = ("_consumer", "_receiver")

    def __init__(self, receiver: Receiver, consumer: ConsumerId) -> None:
        self._receiver = receiver
        self._consumer = consumer

    def deliver(self, run: Deliveries) -> None:
        self._receiver.delivered(self._consumer, run)

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        self._receiver.consumer_closed(self._consumer, reason)
