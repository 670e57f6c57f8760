"""What administrators may look at and move of a subscription, beyond what clients do.

The rule: nothing here is on the path of a message. The protocol is a part of
:class:`arneb_core.api.subscriptions.subscription.Subscription`;
:mod:`arneb_core.engine.subscriptions.admin` implements it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.key_sharing import KeyShare
from arneb_core.api.subscriptions.limits import Departure, Fate


class InspectedSubscription(Protocol):
    """A subscription's cursor, seen and moved from outside."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The subscription's properties."""
        ...

    async def describe(self, properties: Mapping[str, str]) -> None:
        """Replace the properties, durably if the subscription is durable. Raises
        :class:`CommitFailed` and :class:`SubscriptionFenced`."""
        ...

    @property
    def active_name(self) -> str | None:
        """The name of the active consumer of a failover or exclusive subscription."""
        ...

    @property
    def lengths(self) -> tuple[int, int]:
        """How many messages are ready, and how many are at consumers: both at one instant, and
        cheap when there are none."""
        ...

    @property
    def delivered_messages_total(self) -> int:
        """Messages given to consumers since the broker started."""
        ...

    @property
    def departed(self) -> Mapping[tuple[Departure, Fate], int]:
        """Messages that left without an acknowledgement since the broker started, by reason and by
        what became of them."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the entries after the mark-delete position, including acknowledged ones; the
        first ledger counts by its average entry. It is what the subscription keeps in the log."""
        ...

    @property
    def replaying_entries(self) -> int:
        """Entries that were delivered or looked at before and wait to be delivered: released, or
        held up by their keys."""
        ...

    @property
    def acknowledged_runs(self) -> int:
        """How many contiguous runs of entries are acknowledged beyond mark-delete."""
        ...

    @property
    def acknowledged_runs_bytes(self) -> int:
        """About how many bytes these runs take on disk."""
        ...

    def first_acknowledged_runs(self, limit: int) -> Sequence[tuple[Position, Position]]:
        """Return the first and last entries of the first ``limit`` of these runs."""
        ...

    def key_shares(self) -> Mapping[Consumer, KeyShare]:
        """Return each consumer's share of the keys of a Key_Shared subscription; else nothing."""
        ...

    @property
    def read_position(self) -> Position:
        """The position after everything delivered to consumers or looked at for them."""
        ...

    def limit_unacked(self, of_each: int, of_all: int) -> None:
        """Set the limits of unacknowledged messages, which are above 0, of each consumer and of all
        together, for those that attached with such limits. Later ones bring their own."""
        ...

    def unacknowledged(self, limit: int, after: Position | None = None) -> Sequence[Position]:
        """Return the first ``limit`` entries (beyond ``after``) that are not acknowledged, in
        flight or not."""
        ...

    def acknowledged_between(self, low: Position, high: Position) -> int:
        """Return how many entries in (low, high] are acknowledged and still in the log."""
        ...

    @property
    def last_unacknowledged(self) -> Position | None:
        """The last entry that is not acknowledged."""
        ...

    @property
    def masks(self) -> Mapping[Position, int]:
        """The partly acknowledged batches, each with the mask of its unacknowledged messages."""
        ...

    def forget_counts(self) -> None:
        """Count redeliveries from zero; entries delivered before are still marked as
        redelivered."""
        ...

    async def overlook(self, other: "InspectedSubscription") -> None:
        """Acknowledge here what ``other``, of the same topic, has acknowledged. Only while there
        are no consumers. Raises :class:`StoreFailed`."""
        ...

    async def skip_through(self, position: Position, reason: Departure | None = None) -> None:
        """Acknowledge everything up to ``position``, in flight or not; durable when this returns.
        With a ``reason`` the messages count among :attr:`departed`. Raises
        :class:`SubscriptionFenced` and :class:`CommitFailed`."""
        ...
