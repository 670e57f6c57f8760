"""What a channel sees of its connection."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from pamqp.base import Frame as Command

from arneb_amqp.errors import AmqpError
from arneb_amqp.session.effects import Append, Effect, Request, Token
from arneb_amqp.session.routes import Routes
from arneb_amqp.session.unacked import ConsumerId, Settled
from arneb_amqp.wire.constants import ChannelId

if TYPE_CHECKING:
    from arneb_amqp.session.delivering import ChannelConsumer
    from arneb_amqp.session.publishing import Publisher


class Host(Protocol):
    """A connection as its channels use it."""

    now_ms: int
    """The wall clock at the event that is being handled."""
    frame_bytes_max: int
    user: str
    cancel_notify: bool
    """The client understands ``basic.cancel`` from the broker."""

    @property
    def routes(self) -> Routes:
        """The routes of the vhost."""
        ...

    def send(self, channel: ChannelId, command: Command) -> None:
        """Queue a method without content."""
        ...

    def send_chunks(self, chunks: Iterable[bytes]) -> None:
        """Queue encoded frames."""
        ...

    def append(self, effect: Append) -> None:
        """Order an append, in front of the acknowledgements that are being collected."""
        ...

    def emit(self, effect: Effect) -> None:
        """Order an effect, after everything ordered so far."""
        ...

    def acknowledge(self, settled: Settled) -> None:
        """Order an :class:`~arneb_amqp.session.effects.Acknowledge`; those of a wake-up are
        merged and go after the wake-up's appends, so that a message which was passed on is
        never acknowledged before it is kept."""
        ...

    def ask(self, request: Request, then: Callable[[object], None]) -> None:
        """Order a request and stop reading; ``then`` takes the answer. A refusal closes what
        the current method belongs to."""
        ...

    def next_token(self, publisher: "Publisher", last_tag: int) -> Token:
        """A token for an append; its outcome goes to ``publisher``."""
        ...

    def collecting(self, publisher: "Publisher") -> None:
        """``publisher`` has begun to collect a run; it will be told to end it."""
        ...

    def confirming(self, publisher: "Publisher") -> None:
        """``publisher`` has confirms to send."""
        ...

    def foreign_topic(self, queue: str) -> bool:
        """Somebody else made a topic where that queue would be."""
        ...

    def next_consumer(self) -> ConsumerId:
        """A consumer id that was never used."""
        ...

    def register(self, consumer: "ChannelConsumer") -> None:
        """Send this consumer's deliveries to it."""
        ...

    def forget(self, consumer: ConsumerId) -> None:
        """Send no more deliveries to it."""
        ...

    def new_name(self) -> str:
        """The random part of a name that the server gives."""
        ...

    def channel_failed(self, channel: ChannelId, error: AmqpError) -> None:
        """Close the channel with an error that came late."""
        ...
