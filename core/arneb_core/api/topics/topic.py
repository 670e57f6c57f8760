"""A topic as a frontend sees it: what its log holds, and its subscriptions.

The rule: a plain ``def`` never blocks and never yields; ``async def`` may.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from arneb_core.api.entries.position import LedgerId, Position
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.admin import InspectedTopic
from arneb_core.api.topics.statistics import TopicStatistics


class Topic(InspectedTopic, Protocol):
    """One log and its subscriptions."""

    @property
    def id(self) -> int:
        """Distinguishes the topic from every other durable one, also from an earlier one of the
        same name."""
        ...

    @property
    def name(self) -> str: ...

    @property
    def appended_messages_total(self) -> int:
        """Messages appended since the broker started."""
        ...

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""
        ...

    @property
    def fenced(self) -> bool:
        """Whether it is being deleted or is gone: it takes no entries or consumers any more."""
        ...

    @property
    def has_incoming(self) -> bool:
        """Whether an append waits for its commit. Not for hot paths."""
        ...

    @property
    def subscriptions(self) -> Mapping[str, Subscription]: ...

    def expect_groups(self) -> None:
        """Announce grouped entries (:attr:`.EntryFlag.GROUPED`), before this process appends the
        first; repeating it costs nothing. Only announced topics are searched for them."""
        ...

    @property
    def last(self) -> Position | None:
        """The last committed entry; None when the log has none."""
        ...

    @property
    def next_append(self) -> Position:
        """The earliest position the next entry may have; every entry that ever was is below."""
        ...

    @property
    def first(self) -> Position | None:
        """The first entry that the log still has."""
        ...

    @property
    def messages(self) -> int:
        """How many messages the log holds."""
        ...

    @property
    def stored_bytes(self) -> int:
        """How many bytes its entries are."""
        ...

    def first_offset(self, ledger: LedgerId) -> int | None:
        """Return the offset of that ledger's first message. Offsets count a topic's messages from
        0, without gaps and for ever. None for a ledger that does not exist (any more)."""
        ...

    async def offset_of(self, position: Position) -> int:
        """Return the offset of the first message of the entry at ``position``, or of the next
        message to come. Raises :class:`StoreFailed`."""
        ...

    async def find_offset(self, offset: int) -> Position | None:
        """Return the entry with the message of that offset, or the log's first entry if that is
        later; None when the message has not come yet. Raises :class:`StoreFailed`."""
        ...

    async def first_published(self, publish_time_ms: int) -> Position | None:
        """Return the first entry published at or after that time; None when there is none. Raises
        :class:`StoreFailed`."""
        ...

    async def last_entry(self) -> tuple[Position, bytes] | None:
        """Return the last committed entry with its bytes; None also when it is no longer in memory
        (of a topic that is not durable). Raises :class:`StoreFailed`."""
        ...

    async def subscribe(
        self,
        name: str,
        *,
        durable: bool = True,
        initial: InitialPosition = InitialPosition.LATEST,
        start: Position | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Subscription:
        """Return the subscription of that name, creating it durably if needed.

        ``start`` (readers) is the first entry to deliver, inclusive, and wins over ``initial``. A
        non-durable subscription leaves no trace and goes with its last consumer, or after a minute
        without one. Raises :class:`TopicFenced`, :class:`CommitFailed`, and :class:`NotAllowed`
        when the existing one is durable and this is not to be, or the other way round.
        """
        ...

    async def unsubscribe(
        self, name: str, *, force: bool = False, leaving: Sequence[Consumer] = ()
    ) -> None:
        """Remove a subscription durably. Raises :class:`SubscriptionNotFound`, and
        :class:`SubscriptionBusy` if it has other consumers than ``leaving``, unless ``force``."""
        ...

    def statistics(self) -> TopicStatistics: ...
