"""What the core offers its frontends, and nothing else.

The rule: no store type, no transaction handle and no in-process short cut crosses this
interface, so that a second implementation of it over a remote cluster is possible.
Everything here belongs to the event loop: call it from the trio thread only. Plain
``def`` never blocks and never yields; ``async def`` may.

A frontend does four things with it: commits units (:meth:`Core.commit`), attaches
consumers with permits (:meth:`Subscription.attach`), acknowledges, and redelivers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from arneb_core.api.admin import InspectedSubscription, InspectedTopic
from arneb_core.api.consumers import Consumer as Consumer
from arneb_core.api.consumers import ConsumerSpec as ConsumerSpec
from arneb_core.api.consumers import Sink as Sink
from arneb_core.api.deliveries import Deliveries as Deliveries
from arneb_core.api.errors import CommitFailed
from arneb_core.api.key_sharing import KeySharing as KeySharing
from arneb_core.api.key_sharing import KeySharingMode as KeySharingMode
from arneb_core.api.limits import DeadLetters as DeadLetters
from arneb_core.api.limits import Departure as Departure
from arneb_core.api.limits import Limits as Limits
from arneb_core.api.position import LedgerId, Position
from arneb_core.api.settings import EXCLUSIVE as EXCLUSIVE
from arneb_core.api.settings import TopicSettings as TopicSettings
from arneb_core.api.statistics import SubscriptionStatistics as SubscriptionStatistics
from arneb_core.api.statistics import TopicStatistics as TopicStatistics
from arneb_core.api.subscription_types import SubscriptionType as SubscriptionType
from arneb_core.api.windows import Window as Window


class InitialPosition(Enum):
    """Where a new subscription starts."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Subscription(InspectedSubscription, Protocol):
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

    def limit(self, limits: Limits, heir: DeadLetters | None) -> None:
        """From now on ``limits`` hold, and what departs goes to ``heir``, or away without one. Not
        kept: whoever wants it says so again after a start."""
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


@dataclass(slots=True)
class Unit:
    """Changes that become durable together or not at all.

    Filled by a frontend and handed to :meth:`Core.commit`; not to be touched afterwards.
    """

    appends: list[tuple[Topic, list[bytes]]] = field(default_factory=list)
    """Runs of entries by topic; a topic may occur more than once and keeps that order. Topics
    that are not durable get theirs when the rest of the unit is on disk; what is appended to
    them behind it waits with it."""
    acks: list[tuple[Consumer, Sequence[Position]]] = field(default_factory=list)
    """Taken out of the subscription with the commit; back in flight should it fail. Those on a
    topic that is not durable are taken out when it has succeeded."""
    metadata: list[tuple[str, bytes | None]] = field(default_factory=list)
    """Frontend metadata by key (``"amqp/exchange/%2F/orders"``); None removes it."""
    parts: list[tuple[Consumer, Mapping[Position, int]]] = field(default_factory=list)
    """As :attr:`acks`, for single messages of divided batches: of those that the consumer has in
    flight, the ones in the mask."""
    passes_over_gone: bool = False
    """What is appended to a topic whose owner deletes it meanwhile goes with it, which is a
    success, as AMQP wants it. Otherwise the unit fails with :class:`TopicFenced`."""
    has_batches: bool = True
    """Some entry may hold more than one message, or none; else nobody has to look."""


Done = Callable[[CommitFailed | None], None]
"""Called once in the event loop, in the order of the commits, never before the call that it
was given to returns. None = durable; else nothing of the unit is, nor will be. It must not
raise; what it raises all the same is logged and changes nothing."""

Appended = Callable[[CommitFailed | None, Position], None]
"""As :data:`Done`, with the position of the run's first entry; a run is contiguous inside a
ledger, so entry *i* stands at ``first + i``."""

ACK_DURABLE_WITHIN_MS = 100


TopicWatcher = Callable[[str, bool], None]
"""Called with a topic's name, and whether it came or went; it must not block or raise."""

Companion = Callable[[str, Unit], AbstractAsyncContextManager[None]]
"""Entered with the name of a topic that somebody is about to delete, and the unit that does so:
adds what goes with the topic, and takes back in memory what it did if the block raises."""


class Core(Protocol):
    """The shared log: every topic of one data directory."""

    def append(
        self,
        topic: Topic,
        entries: list[bytes],
        done: Appended,
        messages: int | None = None,
        metadata: Sequence[tuple[str, bytes | None]] = (),
        *,
        passes_over_gone: bool = False,
    ) -> None:
        """The hot path of :meth:`commit`: one run into one topic.

        ``messages`` is the number of messages in the run if the caller knows it (AMQP:
        ``len(entries)``); None lets the core read it out of every header. ``metadata``, as of
        :class:`Unit`, becomes durable with the run, if the topic is. ``passes_over_gone``: as
        :attr:`.Unit.passes_over_gone`; the position means nothing then.
        """
        ...

    def expect_expiry(self, topic: Topic) -> None:
        """Say this before appending the first entry with an expiry of its own to ``topic``; saying
        it again costs nothing. Other topics are spared the look at every entry."""
        ...

    def expect_delays(self, topic: Topic) -> None:
        """Say this before appending the first entry with a deliver-at time to ``topic``; saying it
        again costs nothing. Shared and Key_Shared subscriptions then hold such entries back until
        they are due; without it everybody gets them at once."""
        ...

    def commit(self, unit: Unit, done: Done) -> bool:
        """Commit a unit atomically, across topics. Order of calls is order in the log. True when
        it has taken place already, because it waits for nothing that is durable."""
        ...

    async def committed(self, unit: Unit) -> None:
        """:meth:`commit`, waited for. Raises :class:`CommitFailed`. Cancelled while waiting,
        the unit is committed all the same."""
        ...

    def after_dispatch(self, back: Callable[[], None]) -> bool:
        """Have ``back`` called, once, when what is ready now has been handed to its consumers;
        False, and it never is, when nothing is. It must not raise."""
        ...

    @property
    def crowded(self) -> bool:
        """More is waiting to be committed than should be; publishers must pause."""
        ...

    async def room(self) -> None:
        """Wait until :attr:`crowded` is false. Connections call it before they read on."""
        ...

    def topic(self, name: str) -> Topic:
        """Raises :class:`TopicNotFound`."""
        ...

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    async def create_topic(
        self,
        name: str,
        settings: TopicSettings | None = None,
        *,
        unit: Unit | None = None,
        subscriptions: Sequence[str] = (),
    ) -> Topic:
        """Make a topic, durably if its settings say so, together with ``unit`` and with
        subscriptions of these names, which are as durable as it is. Raises :class:`TopicExists`."""
        ...

    async def delete_topic(
        self,
        name: str,
        *,
        unit: Unit | None = None,
        only_if: Callable[[Topic], bool] | None = None,
        as_owner: bool = False,
    ) -> None:
        """Detach its consumers and remove it with all entries, together with ``unit`` and, unless
        it is the owner who deletes it, with what companions have that goes with it.

        With ``only_if`` it is removed only if that says so at the very moment from which on nobody
        can append or attach; else :class:`TopicBusy` is raised, or what ``only_if`` raises.
        Raises :class:`TopicNotFound`."""
        ...

    def accompany_deletions(self, companion: "Companion") -> None:
        """Have ``companion`` take part whenever somebody else deletes a topic from now on, so that
        what goes with it goes in the same commit."""
        ...

    def watch_topics(self, watcher: "TopicWatcher") -> None:
        """Have ``watcher`` told of every topic that comes or goes from now on."""
        ...

    def metadata(self, prefix: str) -> Mapping[str, bytes]:
        """Frontend metadata whose key begins with ``prefix``, in key order, as committed."""
        ...
