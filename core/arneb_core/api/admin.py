"""Inspection: what an administrator may look at and move besides what clients do.

The rule: nothing here is on the way of a message. The protocols are parts of
:class:`arneb_core.api.topics.Topic` and ``Subscription``;
:mod:`arneb_core.engine.admin` fills them.
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
    """One ledger at one instant; ``closed_ms`` 0 = entries may still come."""

    id: LedgerId
    entries: int
    messages: int
    bytes: int
    created_ms: int
    closed_ms: int


class InspectedTopic(Protocol):
    """A topic's log, looked at from outside."""

    @property
    def properties(self) -> Mapping[str, str]:
        """What the topic was made with."""
        ...

    @property
    def retention(self) -> Retention:
        """How long it keeps acknowledged entries: its own, or else the broker's."""
        ...

    async def retain(self, ms: int, size: int, ledger_bytes_max: int | None = None) -> None:
        """Keep acknowledged entries so long, and so many bytes of them, from now on and after a
        restart, and if that is given, have ledgers of that size; see
        :class:`arneb_core.api.settings.TopicSettings`. Raises :class:`CommitFailed`."""
        ...

    def ledgers(self) -> Sequence[LedgerStatistics]:
        """The ledgers that the log has, in order."""
        ...

    async def read(
        self, place: Position, bytes_max: int
    ) -> Sequence[tuple[Position, Sequence[bytes]]]:
        """Runs of entries from ``place`` on, each with the position of its first. Raises
        :class:`StoreFailed`."""
        ...

    async def entry_at(self, place: Position) -> bytes | None:
        """The entry at ``place``, None if there is none. Raises :class:`StoreFailed`."""
        ...

    @property
    def has_delays(self) -> bool:
        """Delayed entries have come, or may at any moment."""
        ...

    async def soonest(self, limit: int, after_ms: int) -> Sequence[tuple[int, Position]]:
        """When the next ``limit`` entries after ``after_ms`` come due, in ms, and where they stand,
        the first first; empty where nothing is delayed. Raises :class:`StoreFailed`."""
        ...

    @property
    def floor(self) -> Position:
        """Nothing below it exists any more."""
        ...

    async def roll(self) -> Position:
        """End the ledger that grows, if it holds anything: everything below the position returned
        is in ledgers that are closed, durably. Raises :class:`CommitFailed`, and
        :class:`NotAllowed` of a topic that is kept in memory."""
        ...

    async def trim(self, place: Position) -> None:
        """Remove the closed ledgers wholly below ``place`` that every durable subscription has
        passed, of which there must be one, though retention would keep them. Raises as
        :meth:`roll`."""
        ...


class InspectedSubscription(Protocol):
    """A subscription's cursor, looked at and moved from outside."""

    @property
    def properties(self) -> Mapping[str, str]:
        """What the subscription was made with."""
        ...

    async def describe(self, properties: Mapping[str, str]) -> None:
        """Have other properties, durably if it is durable. Raises :class:`CommitFailed` and
        :class:`SubscriptionFenced`."""
        ...

    @property
    def active_name(self) -> str | None:
        """Of failover and exclusive consumers, the name of the one that gets everything."""
        ...

    @property
    def lengths(self) -> tuple[int, int]:
        """How many messages are ready, and how many are at consumers: both at once, and cheap
        where there is none."""
        ...

    @property
    def delivered_messages_total(self) -> int:
        """Messages given to consumers since the broker started."""
        ...

    @property
    def departed(self) -> Mapping[tuple[Departure, bool], int]:
        """How many messages left without an acknowledgement since the broker started, by the
        reason and by whether somebody took the dead letters."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the entries behind the mark-delete position, acknowledged ones among them
        and of the first ledger by its average: what the subscription keeps in the log."""
        ...

    @property
    def replaying_entries(self) -> int:
        """Entries that were given out or looked at before and wait for their turn: given back, or
        held up by their keys."""
        ...

    @property
    def acknowledged_runs(self) -> int:
        """How many unbroken runs of entries are acknowledged beyond mark-delete."""
        ...

    @property
    def acknowledged_runs_bytes(self) -> int:
        """About how many bytes these take on disk."""
        ...

    def first_acknowledged_runs(self, limit: int) -> Sequence[tuple[Position, Position]]:
        """The first and last entries of the first ``limit`` of these."""
        ...

    def key_shares(self) -> Mapping[Consumer, KeyShare]:
        """What each consumer of a Key_Shared subscription has of the keys; none otherwise."""
        ...

    @property
    def read_position(self) -> Position:
        """Behind everything that consumers were given, or that was looked at for them."""
        ...

    def limit_unacked(self, of_each: int, of_all: int) -> None:
        """Have consumers that came with limits of unacknowledged messages keep to these, more than
        0, from now on: each, and all together. Whoever comes later says its own."""
        ...

    def unacknowledged(self, limit: int, after: Position | None = None) -> Sequence[Position]:
        """The first ``limit`` entries (behind ``after``) that are not acknowledged, in flight or
        not."""
        ...

    def acknowledged_between(self, low: Position, high: Position) -> int:
        """How many entries in (low, high] are acknowledged and still in the log."""
        ...

    @property
    def last_unacknowledged(self) -> Position | None:
        """The last entry that is not acknowledged."""
        ...

    @property
    def masks(self) -> Mapping[Position, int]:
        """The half-acknowledged batches, each with its messages that are left."""
        ...

    def forget_counts(self) -> None:
        """Count redeliveries anew; what was delivered before still says so."""
        ...

    async def overlook(self, other: "InspectedSubscription") -> None:
        """Take what ``other``, of the same topic, has acknowledged as acknowledged here too. Only
        while there are no consumers. Raises :class:`StoreFailed`."""
        ...

    async def skip_through(self, place: Position, reason: Departure | None = None) -> None:
        """Acknowledge everything up to ``place``, in flight or not; durable when it returns. With
        a ``reason`` it counts among :attr:`departed`. Raises :class:`SubscriptionFenced` and
        :class:`CommitFailed`."""
        ...
