"""The core as a frontend sees it: topics by name, and units that are committed as one.

The rule: no store type and no transaction handle appears in this interface. Everything belongs to
the event loop: call it from the trio thread only. Plain ``def`` never blocks and never yields;
``async def`` may.

A frontend does four things with it: commits units (:meth:`Core.commit`), attaches consumers with
permits (:meth:`.Subscription.attach`), acknowledges, and releases entries for redelivery.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from arneb_core.api.entries.position import Position
from arneb_core.api.nodes.lease import Lease
from arneb_core.api.process.callbacks import Appended, Done
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic


@dataclass(frozen=True, slots=True)
class CountedRun:
    """Entries for one topic, already counted, so that a unit of a million entries costs the event
    loop a few milliseconds. At most what a ledger should hold, some ten thousand."""

    topic: Topic
    entries: list[bytes]
    messages: int
    bytes: int
    """Of all entries together."""
    first: Position | None = None
    """Set by the core: where the run is written already; see :meth:`Core.written_ahead`."""


@dataclass(slots=True)
class Unit:
    """Changes that become durable together or not at all.

    Filled by a frontend and handed to :meth:`Core.commit`; not to be changed afterwards.
    """

    appends: list[tuple[Topic, list[bytes]]] = field(default_factory=list)
    """Runs of entries by topic; a topic may occur more than once, and its runs keep that order.
    Topics that are not durable get theirs when the rest of the unit is on disk; later appends to
    them wait behind."""
    acks: list[tuple[Consumer, Sequence[Position]]] = field(default_factory=list)
    """Acknowledged with the commit; back in flight if it fails. On a topic that is not durable they
    are acknowledged once it has succeeded."""
    metadata: list[tuple[str, bytes | None]] = field(default_factory=list)
    """Frontend metadata by key (``"amqp/exchange/%2F/orders"``); None removes the key."""
    parts: list[tuple[Consumer, Mapping[Position, int]]] = field(default_factory=list)
    """As :attr:`acks`, for single messages of divided batches: those in the mask that are in flight
    at the consumer."""
    passes_over_gone: bool = False
    """An append to a topic that its owner deletes meanwhile goes with the topic and succeeds, as in
    AMQP. Otherwise the unit fails with :class:`TopicFenced`."""
    has_batches: bool = True
    """Some entry may hold more than one message, or none; otherwise the headers are not read."""
    runs: list[CountedRun] = field(default_factory=list)
    """As :attr:`appends`, and after them, in that order; for durable topics only. Publish times
    should not precede those already in the topics, or each entry has to be recreated."""


TopicWatcher = Callable[[str, bool], None]
"""Called with a topic's name, and whether it came or went; it must not block or raise."""

Companion = Callable[[str, Unit], AbstractAsyncContextManager[None]]
"""Entered with the name of a topic about to be deleted and the unit that deletes it. It adds to the
unit what goes with the topic, and undoes its changes in memory if the block raises."""


class Core(Protocol):
    """The shared log: every topic of one data directory."""

    @property
    def lease(self) -> Lease:
        """While it holds, clients may be told how things stand."""
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
        """Append one run to one topic: the hot path of :meth:`commit`.

        ``messages`` is the number of messages in the run if the caller knows it (AMQP:
        ``len(entries)``); None lets the core read it out of every header. ``metadata``, as in
        :class:`Unit`, becomes durable with the run, if the topic is durable. ``passes_over_gone``:
        as :attr:`.Unit.passes_over_gone`; if it applies, the position means nothing. ``size``: the
        bytes of ``entries`` if the caller knows them.
        """
        ...

    def expect_expiry(self, topic: Topic) -> None:
        """Announce entries with an expiry of their own, before the first is appended to ``topic``;
        repeating it costs nothing. The core looks for expiries only in announced topics."""
        ...

    def expect_delays(self, topic: Topic) -> None:
        """Announce entries with a deliver-at time, before the first is appended to ``topic``;
        repeating it costs nothing. Shared and Key_Shared subscriptions then hold such entries back
        until they are due; unannounced, they are delivered at once."""
        ...

    def commit(self, unit: Unit, done: Done) -> bool:
        """Commit a unit atomically, across topics. The order of calls is the order in the log. True
        if it is complete already, because it waits for nothing that is durable."""
        ...

    async def committed(self, unit: Unit) -> None:
        """Commit a unit and wait for it. Raises :class:`CommitFailed`. If cancelled while waiting,
        the unit is committed all the same."""
        ...

    def written_ahead(self, unit: Unit) -> AbstractAsyncContextManager[None]:
        """Write the runs of a large unit to disk, in slices between which others are committed, so
        that the commit of ``unit`` inside the block is small. Nobody sees the runs before it; if it
        does not come, or fails, they are removed. A small unit is left as it is. Raises
        :class:`CommitFailed`."""
        ...

    def after_dispatch(self, back: Callable[[], None]) -> bool:
        """Have ``back`` called once, when what is ready now has been handed to its consumers. False
        when nothing is ready: then it is never called. It must not raise."""
        ...

    def turn_begins(self, whose: int) -> None:
        """Begin a turn of the loop in which the connection ``whose`` may append; :meth:`turn_ends`
        ends it, without a checkpoint in between. This is an offer: if no other connection has had a
        turn for a while, or others send much and this one little, its appends need not wait for
        another pass."""
        ...

    def turn_ends(self, *, may_be_called: bool) -> bool:
        """End the turn. If the connection ``may_be_called``, it may now be told of commits and get
        deliveries. True: no other connection has had a turn for a while, all that the turn caused
        is done, and neither that nor anything done since the last turn makes another connection
        write in a turn of its own."""
        ...

    @property
    def waiting_bytes(self) -> int:
        """Bytes of all publishers' entries that wait to be committed or are being committed."""
        ...

    @property
    def crowded(self) -> bool:
        """Whether more waits to be committed than should; publishers must pause."""
        ...

    async def room(self) -> None:
        """Wait until :attr:`crowded` is false. Connections call it before they read on."""
        ...

    def topic(self, name: str) -> Topic:
        """Return the topic of that name. Raises :class:`TopicNotFound`."""
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
        """Create a topic, durably if its settings say so, together with ``unit`` and with
        subscriptions of these names, as durable as the topic. Raises :class:`TopicExists`."""
        ...

    async def delete_topic(
        self,
        name: str,
        *,
        unit: Unit | None = None,
        only_if: Callable[[Topic], bool] | None = None,
        as_owner: bool = False,
    ) -> None:
        """Detach the topic's consumers and remove it with all its entries, together with ``unit``
        and, unless ``as_owner``, with what companions add.

        ``only_if`` is asked at the moment from which nobody can append or attach: unless it agrees,
        :class:`TopicBusy` is raised, or what ``only_if`` raises. Raises :class:`TopicNotFound`."""
        ...

    async def keep_history(self, topic: Topic, subscription: str) -> None:
        """Record what happens to a subscription's entries from now on, in the topic of
        :func:`.history_topic`, which is created if needed. Consumers already attached are not
        recorded. This is not stored: repeat it after a start; repeating it costs nothing. Raises
        :class:`SubscriptionNotFound` and :class:`CommitFailed`."""
        ...

    def accompany_deletions(self, companion: "Companion") -> None:
        """Have ``companion`` take part whenever a topic is deleted by anyone but its owner, so that
        what goes with the topic goes in the same commit."""
        ...

    def watch_topics(self, watcher: "TopicWatcher") -> None:
        """Tell ``watcher`` of every topic that comes or goes from now on."""
        ...

    def metadata(self, prefix: str) -> Mapping[str, bytes]:
        """Return the committed frontend metadata whose keys begin with ``prefix``, in key order."""
        ...
