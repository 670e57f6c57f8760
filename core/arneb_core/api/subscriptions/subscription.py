"""A subscription as a frontend sees it: its cursor, its consumers, its limits.

The rule: a plain ``def`` never blocks and never yields; ``async def`` may.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.admin import InspectedSubscription
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec, Sink
from arneb_core.api.subscriptions.limits import DeadLetters, Limits
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics


class InitialPosition(Enum):
    """Where a new subscription starts."""

    EARLIEST = "earliest"
    LATEST = "latest"


class WithholdingSubscription(Protocol):
    """What transactions ask of a subscription."""

    @property
    def id(self) -> int | None:
        """Distinguishes it from every other subscription that its topic ever had, also after a
        restart; None for those that are not durable."""
        ...

    def withhold(
        self,
        positions: Sequence[Position],
        parts: Mapping[Position, tuple[int, int]],
        *,
        again: bool = False,
    ) -> Consumer:
        """Withhold entries from all consumers, whoever had them, until a unit has the returned
        consumer acknowledge them or they are given back; of the batches in ``parts`` only the
        messages of a mask, given with their total number. This is only in memory: after a restart
        the caller repeats it with ``again``, and what was acknowledged meanwhile is skipped.

        Raises :class:`SubscriptionFenced`, and without ``again`` :class:`AlreadyAcknowledged`;
        nothing has changed then. A seek lets go of everything withheld.
        """
        ...

    def withheld_of(self, position: Position) -> int:
        """Return the mask of withheld messages of the entry at ``position``; -1: all of it."""
        ...

    def give_back(self, positions: Sequence[Position], masks: Mapping[Position, int]) -> None:
        """Deliver withheld entries again, in their places, with redelivery counts raised; of the
        batches in ``masks`` these messages, together with those that consumers hold. What is not
        withheld is skipped."""
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
        logs without batches; with batches, entries of a partly acknowledged ledger count with that
        ledger's average."""
        ...

    @property
    def permanent(self) -> bool:
        """Whether it stays when its last consumer leaves."""
        ...

    @property
    def ready_bytes(self) -> int:
        """Bytes of the entries with :attr:`ready_messages`: estimated by averages if others among
        them are acknowledged or in flight; exact, in sizes of :attr:`.Limits.size_of`, if that is
        given."""
        ...

    @property
    def room(self) -> int:
        """How many messages its consumers would take now."""
        ...

    @property
    def mark_delete(self) -> Position: ...

    def limit(self, limits: Limits, target: DeadLetters | None) -> None:
        """Apply ``limits`` from now on. What departs goes to ``target``, or is dropped without one.
        This is not stored: repeat it after a start."""
        ...

    def prioritise(self, highest: int) -> None:
        """Deliver higher priorities first, up to ``highest``, from now on; log order counts within
        one. Deliveries begin once all ready entries were looked through. This is not stored."""
        ...

    async def purge(self) -> int:
        """Acknowledge every ready message, durably; those in flight stay. Return how many messages
        that were. Raises :class:`CommitFailed`; they are gone all the same, and the next commit
        records it on disk."""
        ...

    async def seek(self, position: Position, mask: int | None = None) -> None:
        """Make ``position`` the next entry to deliver; ``mask``: its messages still unacknowledged.

        Fences the subscription, detaches all consumers (``closed_by_core("seek")``), forgets
        acknowledgements and replays from there; durable when it returns. A position outside the log
        is moved to its nearest end. Acknowledgements by consumers attached before no longer count.
        Raises :class:`SubscriptionFenced` on a concurrent seek, and :class:`StoreFailed` when the
        entry of ``mask`` cannot be read; then nothing has changed.
        """
        ...

    async def seek_time(self, publish_time_ms: int) -> None:
        """Seek to the first entry published at or after that time, or to the end. Raises as
        :meth:`seek` does, and :class:`StoreFailed` when the log cannot be read."""
        ...

    def statistics(self) -> SubscriptionStatistics: ...
