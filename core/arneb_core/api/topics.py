"""A topic as a frontend sees it: what its log holds, and its subscriptions.

The rule: a plain ``def`` never blocks and never yields; ``async def`` may.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from arneb_core.api.admin import InspectedTopic
from arneb_core.api.consumers import Consumer
from arneb_core.api.position import LedgerId, Position
from arneb_core.api.statistics import TopicStatistics
from arneb_core.api.subscriptions import InitialPosition, Subscription


class Topic(InspectedTopic, Protocol):
    """One log and its subscriptions."""

    @property
    def id(self) -> int:
        """Tells the topic from every other durable one, also from one of the same name that was
        deleted before."""
        ...

    @property
    def name(self) -> str: ...

    @property
    def appended_messages_total(self) -> int:
        """Messages that came into it since the broker started."""
        ...

    @property
    def durable(self) -> bool:
        """It outlives the process."""
        ...

    @property
    def fenced(self) -> bool:
        """It is being deleted, or has gone: nothing and nobody comes to it any more."""
        ...

    @property
    def has_incoming(self) -> bool:
        """Something was appended that waits for its commit. Not for hot paths."""
        ...

    @property
    def subscriptions(self) -> Mapping[str, Subscription]: ...

    def expect_groups(self) -> None:
        """Say this before appending the first grouped entry (:attr:`.EntryFlag.GROUPED`) of this
        process; saying it again costs nothing. Other topics are spared the look for them."""
        ...

    @property
    def last(self) -> Position | None:
        """The last committed entry, None when the log has none."""
        ...

    @property
    def next_append(self) -> Position:
        """Where the next entry will stand at the earliest; every entry that ever was is below."""
        ...

    @property
    def first(self) -> Position | None:
        """The first entry that the log still has."""
        ...

    @property
    def messages(self) -> int:
        """How many messages the log has."""
        ...

    @property
    def stored_bytes(self) -> int:
        """How many bytes its entries are."""
        ...

    def first_offset(self, ledger: LedgerId) -> int | None:
        """The offset of that ledger's first message. Offsets count a topic's messages from 0,
        without gaps and for ever; a ledger that is not there (any more) has None."""
        ...

    async def offset_of(self, place: Position) -> int:
        """The offset of the first message of the entry at ``place``, or of the next that comes.
        Raises :class:`StoreFailed`."""
        ...

    async def find_offset(self, offset: int) -> Position | None:
        """The entry that has the message of that offset, or the first one that the log still has
        if that is later; None when the message has not come yet. Raises :class:`StoreFailed`."""
        ...

    async def first_published(self, publish_time_ms: int) -> Position | None:
        """The first entry published at or after that time; None when there is none. Raises
        :class:`StoreFailed`."""
        ...

    async def last_entry(self) -> tuple[Position, bytes] | None:
        """The last committed entry with its bytes; None also when it is not kept any more (of a
        topic that is not durable). Raises :class:`StoreFailed`."""
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
        """The subscription of that name, made durably if it is not there.

        ``start`` (readers) is the first entry to deliver, inclusive, and wins over
        ``initial``. A non-durable subscription leaves no trace and goes with its last consumer,
        or after a minute without one. Raises :class:`TopicFenced`, :class:`CommitFailed`, and
        :class:`NotAllowed` when the one of that name is durable and this is not to be, or the
        other way round.
        """
        ...

    async def unsubscribe(
        self, name: str, *, force: bool = False, leaving: Sequence[Consumer] = ()
    ) -> None:
        """Remove a subscription durably. Raises :class:`SubscriptionNotFound`, and
        :class:`SubscriptionBusy` if it has consumers beside those ``leaving`` and not ``force``."""
        ...

    def statistics(self) -> TopicStatistics: ...
