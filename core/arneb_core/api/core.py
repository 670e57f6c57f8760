"""The core as a frontend sees it: topics by name, and units that are committed as one.

The rule: no store type and no transaction handle crosses this border. Everything belongs to the
event loop: call it from the trio thread only. Plain ``def`` never blocks and never yields;
``async def`` may.

A frontend does four things with it: commits units (:meth:`Core.commit`), attaches
consumers with permits (:meth:`.Subscription.attach`), acknowledges, and redelivers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from arneb_core.api.callbacks import Appended, Done
from arneb_core.api.consumers import Consumer
from arneb_core.api.lease import Lease
from arneb_core.api.position import Position
from arneb_core.api.settings import TopicSettings
from arneb_core.api.topics import Topic


@dataclass(frozen=True, slots=True)
class CountedRun:
    """Entries for one topic, already counted: so a unit of a million entries costs the event loop a
    few milliseconds. Not more than a ledger should hold, some ten thousand."""

    topic: Topic
    entries: list[bytes]
    messages: int
    bytes: int
    """Of all entries."""
    first: Position | None = None
    """The core's own: where it is written already; see :meth:`Core.written_ahead`."""


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
    runs: list[CountedRun] = field(default_factory=list)
    """As :attr:`appends`, behind those, in that order, and for durable topics only. Their publish
    times should not be below what the topics have: then each entry would be made anew."""


TopicWatcher = Callable[[str, bool], None]
"""Called with a topic's name, and whether it came or went; it must not block or raise."""

Companion = Callable[[str, Unit], AbstractAsyncContextManager[None]]
"""Entered with the name of a topic that somebody is about to delete, and the unit that does so:
adds what goes with the topic, and takes back in memory what it did if the block raises."""


class Core(Protocol):
    """The shared log: every topic of one data directory."""

    @property
    def lease(self) -> Lease:
        """Until when clients may be answered what tells how things are."""
        ...

    def append(
        self,
        topic: Topic,
        entries: list[bytes],
        done: Appended,
        messages: int | None = None,
        metadata: Sequence[tuple[str, bytes | None]] = (),
        *,
        passes_over_gone: bool = False,
        size: int | None = None,
    ) -> None:
        """The hot path of :meth:`commit`: one run into one topic.

        ``messages`` is the number of messages in the run if the caller knows it (AMQP:
        ``len(entries)``); None lets the core read it out of every header. ``metadata``, as of
        :class:`Unit`, becomes durable with the run, if the topic is. ``passes_over_gone``: as
        :attr:`.Unit.passes_over_gone`; the position means nothing then. ``size``: the bytes of
        ``entries`` if the caller knows them.
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

    def written_ahead(self, unit: Unit) -> AbstractAsyncContextManager[None]:
        """Put the runs of a large unit on disk, in slices between which others are committed, so
        that the commit of ``unit`` inside the block is a small one. Nobody sees them before that;
        if it does not come, or fails, they are removed. A small unit is left as it is. Raises
        :class:`CommitFailed`."""
        ...

    def after_dispatch(self, back: Callable[[], None]) -> bool:
        """Have ``back`` called, once, when what is ready now has been handed to its consumers;
        False, and it never is, when nothing is. It must not raise."""
        ...

    def turn_begins(self, whose: int) -> None:
        """A turn of the loop begins in which one connection, of that number, may append, and which
        :meth:`turn_ends` ends, without a checkpoint in between. To say so is an offer: if there has
        been nobody else for a while, or others send much and it little, its appends need not wait
        for another pass."""
        ...

    def turn_ends(self, *, may_be_called: bool) -> bool:
        """The turn is over but for this call, in which the connection may be told of what is
        committed, and have deliveries, if it ``may_be_called``. True: there has been nobody else
        for a while, all that the turn brought about is done, and neither that nor what was done
        since the last turn is anything that another connection may have to write in one of its
        own."""
        ...

    @property
    def waiting_bytes(self) -> int:
        """Bytes of entries that wait to be committed or are being committed, of all publishers."""
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

    async def keep_history(self, topic: Topic, subscription: str) -> None:
        """From now on note what happens to a subscription's entries, in the topic of
        :func:`.history_topic`, which is made if it is not there. Consumers that are attached
        already are not noted. Not kept: whoever wants it says so again after a start; saying it
        again costs nothing. Raises :class:`SubscriptionNotFound` and :class:`CommitFailed`."""
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
