"""Inspection: what administrators may look at and move, beyond what clients do.

The rule: nothing here is on the path of a message. The protocols are parts of
:class:`arneb_core.api.topics.Topic` and ``Subscription``; :mod:`arneb_core.engine.topics.admin` and
:mod:`arneb_core.engine.subscriptions.admin` implement them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_core.api.consumers import Consumer
from arneb_core.api.key_sharing import KeyShare
from arneb_core.api.limits import Departure
from arneb_core.api.position import LedgerId, Position
from arneb_core.api.settings import Retention


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """One ledger at one instant; ``closed_ms`` 0: it may still grow."""

    id: LedgerId
    entries: int
    messages: int
    bytes: int
    created_ms: int
    closed_ms: int


class InspectedTopic(Protocol):
    """A topic's log, seen from outside."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that the topic was created with."""
        ...

    @property
    def retention(self) -> Retention:
        """How long it keeps acknowledged entries: its own retention, or else the broker's."""
        ...

    async def retain(self, ms: int, size: int, ledger_bytes_max: int | None = None) -> None:
        """Change how long, and how many bytes of, acknowledged entries are kept, now and across
        restarts, and the size of ledgers if given; see
        :class:`arneb_core.api.settings.TopicSettings`. Raises :class:`CommitFailed`."""
        ...

    def ledgers(self) -> Sequence[LedgerStatistics]:
        """Return the log's ledgers, in order."""
        ...

    async def read(
        self, place: Position, bytes_max: int
    ) -> Sequence[tuple[Position, Sequence[bytes]]]:
        """Return runs of entries from ``place`` on, each with the position of its first. Raises
        :class:`StoreFailed`."""
        ...

    async def entry_at(self, place: Position) -> bytes | None:
        """Return the entry at ``place``, None if there is none. Raises :class:`StoreFailed`."""
        ...

    @property
    def has_delays(self) -> bool:
        """Whether delayed entries have come, or may at any moment."""
        ...

    async def soonest(self, limit: int, after_ms: int) -> Sequence[tuple[int, Position]]:
        """Return the next ``limit`` entries that come due after ``after_ms``, in that order, each
        as due time in ms and position; empty if nothing is delayed. Raises :class:`StoreFailed`."""
        ...

    @property
    def floor(self) -> Position:
        """Nothing below it exists any more."""
        ...

    async def roll(self) -> Position:
        """End the open ledger, if it holds anything. Everything below the returned position is then
        durably in closed ledgers. Raises :class:`CommitFailed`, and :class:`NotAllowed` for a topic
        kept in memory."""
        ...

    async def trim(self, place: Position) -> None:
        """Remove the closed ledgers wholly below ``place`` that every durable subscription has
        passed, even if retention would keep them. There must be a durable subscription. Raises as
        :meth:`roll`."""
        ...


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
    def departed(self) -> Mapping[tuple[Departure, bool], int]:
        """Messages that left without an acknowledgement since the broker started, by reason and by
        whether a dead-letter target took them."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the entries behind the mark-delete position, including acknowledged ones; the
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
        """The position behind everything delivered to consumers or looked at for them."""
        ...

    def limit_unacked(self, of_each: int, of_all: int) -> None:
        """Set the limits of unacknowledged messages, which are above 0, of each consumer and of all
        together, for those that attached with such limits. Later ones bring their own."""
        ...

    def unacknowledged(self, limit: int, after: Position | None = None) -> Sequence[Position]:
        """Return the first ``limit`` entries (behind ``after``) that are not acknowledged, in
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
        """Count redeliveries anew; entries delivered before are still marked as redelivered."""
        ...

    async def overlook(self, other: "InspectedSubscription") -> None:
        """Acknowledge here what ``other``, of the same topic, has acknowledged. Only while there
        are no consumers. Raises :class:`StoreFailed`."""
        ...

    async def skip_through(self, place: Position, reason: Departure | None = None) -> None:
        """Acknowledge everything up to ``place``, in flight or not; durable when this returns. With
        a ``reason`` the messages count among :attr:`departed`. Raises :class:`SubscriptionFenced`
        and :class:`CommitFailed`."""
        ...
