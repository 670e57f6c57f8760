"""A consumer of a channel: what the client asked for, and where it stands.

The rule: it tells whether deliveries are sent, kept until the client has been answered, or
dropped; sending is for :mod:`arneb_amqp.session.consume.deliverer`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from arneb_amqp.session.consume.stream_reader import StreamReader
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.traffic import QueueTraffic
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.deliver import DeliverEncoder
from arneb_core.api.deliveries import Deliveries


class ConsumerState(Enum):
    """Where a consumer stands."""

    ATTACHING = "attaching"
    """``basic.consume`` is not answered yet; deliveries wait."""
    ACTIVE = "active"
    CANCELLED = "cancelled"
    """It gets nothing more; what it has got can still be answered."""


@dataclass(slots=True, eq=False)
class ChannelConsumer:
    """A consumer of a channel."""

    id: ConsumerId
    """That of its first attachment."""
    channel: ChannelId
    tag: str
    queue: str
    no_ack: bool
    encoder: DeliverEncoder
    send: "Callable[[ChannelConsumer, ConsumerId, Deliveries], None]"
    """Sends a run that an attachment got."""
    state: ConsumerState
    early: list[tuple[ConsumerId, Deliveries]]
    """Came before the answer to ``basic.consume``."""
    traffic: QueueTraffic
    """Where its deliveries are counted; its queue's from when it is attached."""
    stream: StreamReader | None = None
    """Its queue is a stream."""

    def __repr__(self) -> str:
        return f"<ChannelConsumer {self.tag!r} of {self.queue!r}, {self.state.value}>"

    def deliver(self, owner: ConsumerId, run: Deliveries) -> None:
        """Send the run to the client. ``owner`` is the attachment that got it."""
        if self.state is ConsumerState.ACTIVE:
            self.send(self, owner, run)
        elif self.state is ConsumerState.ATTACHING:
            self.early.append((owner, run))
