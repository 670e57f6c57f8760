"""A consumer as a frontend sees it: what it asks for, what it is notified of, what it may do.

The rule: everything here belongs to the event loop. Deliveries reach a consumer in the order in
which they were assigned, and none after it was detached.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from arneb_core.api.entries.position import Position
from arneb_core.api.process.callbacks import Done
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.key_sharing import IN_ORDER, KeySharing
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import Window

ACK_DURABLE_WITHIN_MS: Final = 100
"""An acknowledgement that nobody waits for is on disk within this time."""


class Sink(Protocol):
    """Where a consumer's deliveries go; the frontend implements it."""

    def deliver(self, run: Deliveries) -> None:
        """Take the run. Called in the event loop; must not block, raise or call back into the
        subscription. The sink may keep the run, but others may share its lists, so it must not
        change them. A sink that does raise loses its consumer: the error is logged and
        :meth:`closed_by_core` called with ``"failed"``."""
        ...

    def active_changed(self, active: bool) -> None:
        """Note whether a failover consumer is the active one. Called when it attaches and at each
        change."""
        ...

    def closed_by_core(self, reason: str) -> None:
        """Note that the core detached the consumer: the topic or subscription is removed
        (``"removed"``), a seek asks it to attach again (``"seek"``), the core stops
        (``"shutdown"``), or :meth:`deliver` raised (``"failed"``). It has nothing in flight."""
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
    ``first_come``: the first failover consumer stays active until it leaves (AMQP); otherwise names
    and, for partitions of a topic, ``partition`` decide who is active (Pulsar), and entries in
    flight at the previous one go to the next.
    ``pulls``: it is assigned nothing and is never active; it only pulls (AMQP's basic.get).
    ``line``: consumers that name the same line get deliveries in log order across all of them, not
    only each for itself (AMQP's channel, on which deliveries are numbered).
    ``by_time``: of entries that came due, the sooner goes first; otherwise those that came due
    together go in log order, which is less work. The first consumer decides.
    ``acks``: False = an entry counts as acknowledged as soon as it is delivered (AMQP no-ack).
    ``unacked_max``: with this many messages in flight the consumer is shut off until half of them
    are answered; ``subscription_unacked_max``: likewise for all consumers of the subscription, as
    set by the first of them. 0 = no limit.
    ``sharing``: how a Key_Shared subscription shares out its keys.
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
        """The properties it attached with."""
        ...

    @property
    def priority(self) -> int:
        """The priority it attached with; lower goes first."""
        ...

    @property
    def attached(self) -> bool:
        """Whether it has neither left nor been put out."""
        ...

    @property
    def writable(self) -> bool:
        """Whether it may be assigned entries. The frontend clears this while the client's socket is
        full, and calls :meth:`wake` after setting it again."""
        ...

    @writable.setter
    def writable(self, value: bool) -> None: ...

    def flow(self, permits: int) -> None:
        """Add permits, counted in messages."""
        ...

    def wake(self) -> None:
        """Note a change that the core does not see (writable, a window's limit)."""
        ...

    def acknowledge(self, positions: Sequence[Position], done: Done | None = None) -> None:
        """Acknowledge whole entries, in any order, delivered to this consumer or not.

        ``done`` is called once, when this is on disk (or could not be stored); without it, the
        acknowledgement is durable within :data:`ACK_DURABLE_WITHIN_MS`. Entries already
        acknowledged are skipped silently.
        """
        ...

    def acknowledge_messages(self, position: Position, mask: int, done: Done | None = None) -> None:
        """Acknowledge single messages of a batch: bit *i* of ``mask`` stands for message *i*."""
        ...

    def acknowledge_until(
        self, position: Position, mask: int | None = None, done: Done | None = None
    ) -> None:
        """Acknowledge everything up to ``position``; with ``mask``, only those messages of the last
        entry. Raises :class:`NotAllowed` on Shared and Key_Shared."""
        ...

    def release(
        self,
        positions: Sequence[Position],
        *,
        count: bool,
        masks: Mapping[Position, int] | None = None,
    ) -> None:
        """Give entries in flight at this consumer back, to their original places.

        ``count`` raises their redelivery count (Pulsar's negative ack, AMQP's requeue). ``masks``:
        of these batches, only those messages. Positions not in flight here are ignored.
        """
        ...

    def reject(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None = None
    ) -> None:
        """Have entries in flight here depart (:attr:`Departure.REJECTED`); of the batches in
        ``masks``, these messages. Without a dead-letter target this acknowledges them."""
        ...

    async def give_back(self, *, count: bool) -> None:
        """Give a large number of entries in flight back in turns, the first first; nothing new
        comes meanwhile. To be called before :meth:`detach`."""
        ...

    def release_all(self, *, count: bool) -> None:
        """Give everything in flight back (Pulsar's redeliver without ids, AMQP's recover)."""
        ...

    async def pull(self) -> Deliveries | None:
        """Take one message outside permits and windows (AMQP's ``basic.get``): a run of length one,
        in flight here until acknowledged unless ``acks`` is off; None when nothing is ready or the
        consumer has left. If cancelled, it has taken nothing. Raises :class:`SubscriptionFenced`,
        and :class:`StoreFailed` when the message cannot be read."""
        ...

    def retire(self) -> None:
        """Get nothing more, but keep what is in flight, to be answered. Idempotent."""
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
        """Messages delivered to it since it attached."""
        ...

    @property
    def permits(self) -> int:
        """Messages granted and not delivered yet; below 0 after a batch that was larger."""
        ...

    @property
    def is_shut_off(self) -> bool:
        """Whether it has reached ``unacked_max`` unanswered messages and has not answered half of
        them since."""
        ...

    @property
    def subscription_is_shut_off(self) -> bool:
        """The same for all consumers of its subscription together."""
        ...
