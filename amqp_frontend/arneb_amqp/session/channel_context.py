"""What a channel sees of its connection."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.routes import Routes
from arneb_amqp.session.consume.unacked import ConsumerId
from arneb_amqp.session.effect_queue import Agenda, Collecting
from arneb_amqp.session.effects import Request
from arneb_amqp.session.output import Outbox
from arneb_amqp.session.transaction import TransactionBytes
from arneb_amqp.wire.constants import ChannelId

if TYPE_CHECKING:
    from arneb_amqp.session.consume.deliverer import ChannelConsumer


class Host(Protocol):
    """A connection as its channels use it."""

    agenda: Agenda
    outbox: Outbox
    transaction_bytes: TransactionBytes
    """Of all channels together."""
    now_ms: int
    """The wall clock at the event that is being handled."""
    work_left: int
    """How much may be done before others have their turn, in microseconds, about."""
    frame_bytes_max: int
    user: str
    cancel_notify: bool
    """The client understands ``basic.cancel`` from the broker."""

    @property
    def routes(self) -> Routes:
        """The routes of the vhost."""
        ...

    def foreign_topic(self, queue: str) -> bool:
        """Somebody else made a topic where that queue would be."""
        ...

    def refuses(self, queues: Sequence[str]) -> bool:
        """One of ``queues`` may refuse a publish."""
        ...

    def answer_timeout_s(self, queue: str) -> float | None:
        """How long deliveries of ``queue`` may wait for their answers, if it says so itself; 0 =
        for ever."""
        ...

    def look_within(self, timeout_s: float) -> None:
        """Deliveries may be unanswered no longer than this; look at them as often as that takes."""
        ...

    def ask(self, request: Request, then: Callable[[object], None]) -> None:
        """Order a request and stop handling input; ``then`` takes the answer. A refusal closes
        what the current method belongs to."""
        ...

    def confirming(self, publisher: Collecting) -> None:
        """``publisher`` has confirms to send."""
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

    def failed(self, channel: ChannelId, error: AmqpError) -> None:
        """Close what an error that came late belongs to."""
        ...
