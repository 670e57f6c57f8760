"""A consumer of a channel: the client's request and its state.

The rule: it decides whether deliveries are sent, kept until the client has been answered, or
dropped; sending is done by :mod:`arneb_amqp.session.consume.deliverer`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from arneb_amqp.session.consume.stream_reader import StreamReader
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.traffic import QueueTraffic
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.deliver import DeliverEncoder
from arneb_core.api.subscriptions.deliveries import Deliveries


class ConsumerState(Enum):
    """The state of a consumer."""

    ATTACHING = "attaching"
    """``basic.consume`` is not answered yet; deliveries wait."""
    ACTIVE = "active"
    LEAVING = "leaving"
    """``basic.cancel`` is not answered yet; what is on its way is still sent."""
    CANCELLED = "cancelled"
    """It gets no more deliveries; those it has got can still be answered."""


@dataclass(slots=True, eq=False)
class ChannelConsumer:
    """A consumer of a channel."""

    id: ConsumerId
    """The id of its first attachment."""
    channel: ChannelId
    tag: str
    queue: str
    no_ack: bool
    encoder: DeliverEncoder
    send: "Callable[[ChannelConsumer, ConsumerId, Deliveries], None]"
    """Sends a run that one of its attachments received."""
    state: ConsumerState
    early: list[tuple[ConsumerId, Deliveries]]
    """Deliveries that came before the answer to ``basic.consume``."""
    traffic: QueueTraffic
    """The counters of its deliveries; its queue's once it is attached."""
    stream: StreamReader | None = None
    """Set if its queue is a stream."""

    def __repr__(self) -> str:
        return f"<ChannelConsumer {self.tag!r} of {self.queue!r}, {self.state.value}>"

    def deliver(self, owner: ConsumerId, run: Deliveries) -> None:
        """Send the run to the client. ``owner`` is the attachment that received it."""
        if self.state is ConsumerState.ACTIVE or self.state is ConsumerState.LEAVING:
            self.send(self, owner, run)
        elif self.state is ConsumerState.ATTACHING:
            self.early.append((owner, run))
