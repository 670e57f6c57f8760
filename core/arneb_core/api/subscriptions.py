"""A subscription as a frontend sees it: where its cursor stands, who reads by it, what it may hold.

The rule: a plain ``def`` never blocks and never yields; ``async def`` may.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from arneb_core.api.admin import InspectedSubscription
from arneb_core.api.consumers import Consumer, ConsumerSpec, Sink
from arneb_core.api.limits import DeadLetters, Limits
from arneb_core.api.position import Position
from arneb_core.api.statistics import SubscriptionStatistics


class InitialPosition(Enum):
    """Where a new subscription starts."""

    EARLIEST = "earliest"
    LATEST = "latest"


class WithholdingSubscription(Protocol):
    """What transactions ask of a subscription."""

    @property
    def id(self) -> int | None:
        """Tells it from every other one of its topic that ever was, also after a start; None for
        those that are not durable."""
        ...

    def withhold(
        self,
        positions: Sequence[Position],
        parts: Mapping[Position, tuple[int, int]],
        *,
        anew: bool = False,
    ) -> Consumer:
        """Keep entries from everybody, whoever had them, until a unit has the consumer returned
        acknowledge them or they are given back; of batches in ``parts`` the messages of a mask,
        with the number of all. It is memory only: after a start whoever wants it says so ``anew``,
        and what was acknowledged meanwhile is passed over.

        Raises :class:`SubscriptionFenced`, and :class:`AlreadyAcknowledged` unless ``anew``: then
        nothing has changed. A seek lets go of all that is withheld.
        """
        ...

    def withheld_of(self, place: Position) -> int:
        """What of the entry at ``place`` is withheld: the mask of messages, or -1: all of it."""
        ...

    def give_back(self, positions: Sequence[Position], masks: Mapping[Position, int]) -> None:
        """Have what was withheld delivered again, in its places, with redelivery counts raised;
        of the batches in ``masks`` these messages, and what consumers have of them with it. What
        is not withheld is passed over."""
        ...


class Subscription(InspectedSubscription, WithholdingSubscription, Protocol):
    """A cursor, its consumers and a dispatcher."""

    @property
    def name(self) -> str: ...

    def attach(self, spec: ConsumerSpec, sink: Sink) -> Consumer:
        """Add a consumer.

        Raises :class:`ConsumerBusy`, :class:`SubscriptionTypeMismatch`,
        :class:`KeyRangesRefused`, :class:`SubscriptionFenced`, and :class:`NotAllowed` for
        Key_Shared where priorities count. The first consumer sets the type; it is free again when
        the last one leaves.
        """
        ...

    @property
    def consumers(self) -> Sequence[Consumer]: ...

    @property
    def ready_messages(self) -> int:
        """Messages neither acknowledged nor in flight (RabbitMQ's ``message_count``). Exact for
        logs without batches; with batches, entries of a ledger that is acknowledged in part
        count with that ledger's average."""
        ...

    @property
    def permanent(self) -> bool:
        """It stays when its last consumer leaves."""
        ...

    @property
    def ready_bytes(self) -> int:
        """Bytes of the entries that :attr:`ready_messages` are in, by average where what is
        acknowledged or in flight lies among them; exactly, as :attr:`.Limits.size_of` counts, if
        that is given."""
        ...

    @property
    def room(self) -> int:
        """How many messages its consumers would take now."""
        ...

    @property
    def mark_delete(self) -> Position: ...

    def limit(self, limits: Limits, target: DeadLetters | None) -> None:
        """From now on ``limits`` hold, and what departs goes to ``target``, or away without one.
        Not kept: whoever wants it says so again after a start."""
        ...

    def prioritise(self, highest: int) -> None:
        """From now on a higher priority, up to ``highest``, goes first; inside one, log order
        counts. Deliveries begin when all that is ready was looked through. Not kept either."""
        ...

    async def purge(self) -> int:
        """Acknowledge every message that is ready, durably; those in flight stay. Returns how
        many messages that were. Raises :class:`CommitFailed`; they are gone all the same, and
        the next commit says so on disk."""
        ...

    async def seek(self, place: Position, mask: int | None = None) -> None:
        """Make ``place`` the next entry to deliver; ``mask`` = its messages still unacked.

        Fences the subscription, detaches all consumers (``closed_by_core("seek")``), forgets
        acks and replays from there, and is durable when it returns. Positions outside the log
        are moved to its nearest end. Acks of consumers that were attached before count no more.
        Raises :class:`SubscriptionFenced` on a concurrent seek, and :class:`StoreFailed` when
        the entry of ``mask`` cannot be read; then nothing has changed.
        """
        ...

    async def seek_time(self, publish_time_ms: int) -> None:
        """Seek to the first entry published at or after that time, or to the end. Raises as
        :meth:`seek` does, and :class:`StoreFailed` when the log cannot be read."""
        ...

    def statistics(self) -> SubscriptionStatistics: ...
