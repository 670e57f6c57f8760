"""A consumer as a frontend sees it: what it asks for, what it is told, what it may do.

The rule: everything here belongs to the event loop. A consumer's deliveries come in the order in
which they were handed out, and none after it was detached.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from arneb_core.api.callbacks import Done
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.key_sharing import IN_ORDER, KeySharing
from arneb_core.api.position import Position
from arneb_core.api.subscription_types import SubscriptionType
from arneb_core.api.windows import Window

ACK_DURABLE_WITHIN_MS: Final = 100
"""An acknowledgement that nobody waits for is on disk after this long."""


class Sink(Protocol):
    """Where a consumer's deliveries go; the frontend implements it."""

    def deliver(self, run: Deliveries) -> None:
        """Take the run. Called in the event loop; must not block, raise or call back into
        the subscription. The run is the sink's to keep, but others may share its lists: they
        are not to be changed. A sink that raises all the same loses its consumer: the error
        is logged and :meth:`closed_by_core` called with ``"failed"``."""
        ...

    def active_changed(self, active: bool) -> None:
        """A failover consumer has become the active one, or is not (any more). Called once for
        each change, and when the consumer comes."""
        ...

    def closed_by_core(self, reason: str) -> None:
        """The core detached the consumer: the topic or subscription went away (``"removed"``),
        a seek asks it to attach again (``"seek"``), the core stops (``"shutdown"``), or
        :meth:`deliver` raised (``"failed"``). Everything in flight is the core's again."""
        ...


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """What a consumer asks for when it attaches.

    ``message_level``: assign single messages of a batch (AMQP: prefetch 1 works inside any
    batch) instead of whole entries (Pulsar).
    ``unlimited``: permits are not counted, only the windows bound it (AMQP); otherwise the
    consumer starts with 0 permits and gets them by :meth:`Consumer.flow`.
    ``priority``: lower goes first, as in Pulsar; the AMQP frontend negates ``x-priority``.
    ``entries_per_turn_max``: entries that one consumer may get before the next one's turn.
    ``first_come``: of failover consumers the first stays active until it leaves (AMQP); else who
    is active follows from names and, when the topic is one, the ``partition`` (Pulsar), and
    what the one before had in flight goes to the next.
    ``pulls``: it is assigned nothing and is never active; it only pulls (AMQP's basic.get).
    ``line``: consumers that name the same one get what is handed out to them in the order of the
    log, not only each in its own (AMQP's channel, on which deliveries are numbered).
    ``by_time``: of entries that came due, the sooner goes first; otherwise those that came due
    together go in log order, which is less work. The first consumer decides.
    ``acks``: False = an entry counts as acknowledged as soon as it is delivered (AMQP no-ack).
    ``unacked_max``: so many messages in flight shut the consumer off until half of them are
    answered; ``subscription_unacked_max``: likewise all consumers of the subscription, as the first
    of them says. 0 = no limit.
    ``sharing``: how a Key_Shared subscription shares its keys out.
    """

    name: str
    type: SubscriptionType = SubscriptionType.SHARED
    message_level: bool = False
    unlimited: bool = False
    priority: int = 0
    entries_per_turn_max: int = 20
    acks: bool = True
    by_time: bool = False
    first_come: bool = False
    pulls: bool = False
    line: Hashable | None = None
    partition: int | None = None
    windows: tuple[Window, ...] = ()
    unacked_max: int = 0
    subscription_unacked_max: int = 0
    sharing: KeySharing = IN_ORDER
    properties: Mapping[str, str] = field(default_factory=dict)


class Consumer(Protocol):
    """One attached consumer."""

    @property
    def name(self) -> str: ...

    @property
    def properties(self) -> Mapping[str, str]:
        """What it says of itself."""
        ...

    @property
    def attached(self) -> bool:
        """It has not left, and was not put out."""
        ...

    @property
    def writable(self) -> bool:
        """The frontend clears it while the peer's socket is full and calls :meth:`wake` when
        it sets it again; a consumer that is not writable is assigned nothing."""
        ...

    @writable.setter
    def writable(self, value: bool) -> None: ...

    def flow(self, permits: int) -> None:
        """Add permits (messages)."""
        ...

    def wake(self) -> None:
        """Something outside the core's sight changed (writable, a window's limit)."""
        ...

    def acknowledge(self, positions: Sequence[Position], done: Done | None = None) -> None:
        """Acknowledge whole entries, in any order, delivered to this consumer or not.

        ``done`` is called once when this is on disk (or could not be put there); without it
        the ack is durable within :data:`ACK_DURABLE_WITHIN_MS`. What is acknowledged
        already is skipped in silence.
        """
        ...

    def acknowledge_messages(self, place: Position, mask: int, done: Done | None = None) -> None:
        """Acknowledge single messages of a batch: bit *i* of ``mask`` = message *i* is done."""
        ...

    def acknowledge_until(
        self, place: Position, mask: int | None = None, done: Done | None = None
    ) -> None:
        """Acknowledge everything up to ``place``; with ``mask`` only those messages of the
        last entry. Raises :class:`NotAllowed` on Shared and Key_Shared."""
        ...

    def release(
        self,
        positions: Sequence[Position],
        *,
        count: bool,
        masks: Mapping[Position, int] | None = None,
    ) -> None:
        """Give entries in flight at this consumer back, to their original places.

        ``count`` raises their redelivery count (Pulsar's negative ack, AMQP's requeue).
        ``masks``: for batches, only those messages. Positions not in flight here are ignored.
        """
        ...

    def reject(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None = None
    ) -> None:
        """Have entries in flight here depart (:attr:`Departure.REJECTED`), of the batches in
        ``masks`` these messages. Without a dead-letter target that is an acknowledgement."""
        ...

    async def give_back(self, *, count: bool) -> None:
        """Give what is in flight back in turns, the first first, if that is very much; nothing new
        comes meanwhile. Whoever leaves calls this before :meth:`detach`."""
        ...

    def release_all(self, *, count: bool) -> None:
        """Give everything in flight back (Pulsar's redeliver without ids, AMQP's recover)."""
        ...

    async def pull(self) -> Deliveries | None:
        """One message outside permits and windows (AMQP's ``basic.get``): a run of length one,
        in flight here until acknowledged unless ``acks`` is off; None when nothing is ready or
        the consumer has left. Cancelled, it has taken nothing. Raises
        :class:`SubscriptionFenced`, and :class:`StoreFailed` when the message cannot be read."""
        ...

    def retire(self) -> None:
        """Get nothing any more, but keep what is in flight, to be answered. Idempotent."""
        ...

    def detach(self) -> None:
        """Leave. What is in flight goes back without raising redelivery counts. Idempotent."""
        ...

    @property
    def in_flight(self) -> int:
        """Messages delivered here and neither acknowledged nor released."""
        ...

    @property
    def delivered_messages_total(self) -> int:
        """Messages that it was given since it came."""
        ...

    @property
    def permits(self) -> int:
        """Messages that it granted and was not given yet; below 0 after a batch that was larger."""
        ...

    @property
    def is_shut_off(self) -> bool:
        """It has as many messages unanswered as ``unacked_max``, or had them and has answered
        less than half since."""
        ...

    @property
    def subscription_is_shut_off(self) -> bool:
        """The same of all consumers of its subscription together."""
        ...
