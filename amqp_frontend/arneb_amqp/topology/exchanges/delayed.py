"""Delayed message exchanges: stores the delayed messages of one vhost and routes them when due.

The rule: each exchange has a topic of its own, which no queue and no Pulsar client sees, with one
subscription that delivers what is due. A message is routed when due, by the bindings of that
moment, and one commit takes it out of the topic and puts it into its queues; so it is never lost
and never duplicated. A message that no queue takes is dropped, as in RabbitMQ.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.checks import carbon_copies, check_expiration, is_plain_when_due
from arneb_amqp.routing.consistent_hash import seen_by_exchanges
from arneb_amqp.routing.delayed import DELAYED_MESSAGE
from arneb_amqp.routing.exchange import Exchange
from arneb_amqp.routing.router import Router, RouteResult
from arneb_amqp.topology.exchanges.due_form import DueForm, form_of
from arneb_amqp.topology.forwarding import (
    Forwarding,
    Head,
    MessageKind,
    forward,
    head_of,
    word_and_route_of,
)
from arneb_amqp.topology.names import decode, encode
from arneb_amqp.topology.overflow import Admission, Overflow
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.route import split_route
from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import CommitFailed, CoreError, TopicNotFound
from arneb_core.api.process.callbacks import call
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic

logger = logging.getLogger(__name__)

SCHEME: Final = "amqp-delayed://"
"""Not Pulsar's, so that no client finds these topics."""

SUBSCRIPTION: Final = "routing"

UNDER_WAY_MAX: Final = 4_096
"""Due messages on their way to their queues at the same time: a commit's worth,"""

UNDER_WAY_BYTES_MAX: Final = 4 * 1024 * 1024
"""and about this many bytes, judging by the most recent ones."""

KINDS_MAX: Final = 1_024
"""Kinds of messages whose route is remembered; properties may differ from message to message."""

TARGETS_MAX: Final = 100_000
"""Queues in all remembered routes, at which they are forgotten, too."""


class DueRoute:
    """Where due messages of one kind go, and how they are changed.

    Invariant: ``_forwarding`` is the result of :meth:`at` for ``_at_ms``.
    """

    __slots__ = (
        "_at_ms",
        "_expiration_ms",
        "_forwarding",
        "_head",
        "_properties",
        "_refusing",
        "_topics",
        "queues",
    )

    def __init__(
        self,
        head: Head,
        properties: bytes | None,
        expiration_ms: int | None,
        queues: tuple[str, ...],
        topics: tuple[Topic, ...],
        refusing: tuple[Overflow, ...],
    ) -> None:
        self._head = head
        self._properties = properties
        self._expiration_ms = expiration_ms
        self.queues = queues
        self._topics = topics
        self._refusing = refusing
        self._at_ms = -1
        self._forwarding: Forwarding | None = None

    def __repr__(self) -> str:
        return f"<DueRoute to {len(self.queues)} queues>"

    @property
    def expires(self) -> bool:
        """Whether the messages expire."""
        return self._expiration_ms is not None

    def at(self, now_ms: int) -> Forwarding | None:
        """Return the forwarding of messages at ``now_ms``; None = to nowhere."""
        if now_ms != self._at_ms:
            self._at_ms = now_ms
            expires_ms = 0 if self._expiration_ms is None else now_ms + self._expiration_ms
            self._forwarding = None
            if self._topics or self._refusing:
                head = self._head(now_ms, 0, expires_ms)
                self._forwarding = Forwarding(head, self._properties, self._topics, self._refusing)
        return self._forwarding


class DelayedExchange:
    """The delayed messages of one exchange (the sink of the consumer on its topic)."""

    def __init__(
        self,
        exchange: str,
        topic: Topic,
        core: Core,
        router: Router,
        queues: Queues,
        now_ms: Callable[[], int],
    ) -> None:
        self.exchange = exchange
        self.topic = topic
        self._core = core
        self._router = router
        self._queues = queues
        self._now_ms = now_ms
        self._window = Window(UNDER_WAY_MAX)
        self._consumer: Consumer | None = None
        self._unrouted: list[Deliveries] = []
        self._routes: dict[MessageKind, DueRoute] = {}
        """By kind; without the properties where they do not matter."""
        self._targets = 0
        self._generation = router.generation

    def __repr__(self) -> str:
        return f"<DelayedExchange of {self.exchange!r}, {len(self._unrouted)} runs to try again>"

    def begin(self) -> None:
        """Start routing due messages."""
        if self._consumer is None:
            spec = ConsumerSpec("delays", unlimited=True, by_time=True, windows=(self._window,))
            self._consumer = self.topic.subscriptions[SUBSCRIPTION].attach(spec, self)

    # The core's calls (arneb_core.api.subscriptions.consumer.Sink)

    def deliver(self, run: Deliveries) -> None:
        """Route due messages."""
        mean_bytes = sum(map(len, run.entries)) // max(1, len(run.entries))
        self._window.limit = min(UNDER_WAY_MAX, max(1, UNDER_WAY_BYTES_MAX // max(1, mean_bytes)))
        self._route(run)

    def active_changed(self, active: bool) -> None:
        """Do nothing: nobody waits for it."""

    def closed_by_core(self, reason: str) -> None:
        """Forget what is not routed: the exchange was deleted, the broker stops, or something
        failed here. The core has it again and delivers it to the next consumer."""
        self._consumer = None
        self._unrouted.clear()

    def retry(self) -> None:
        """Attach again after a failure, and retry what could not be committed."""
        if self._consumer is None:
            logger.warning("delayed exchange %r continues after an error", self.exchange)
            self.begin()
        unrouted, self._unrouted = self._unrouted, []
        for run in unrouted:
            if not call(self._route, run):
                self._leave()
                return

    def _leave(self) -> None:
        """Detach after a defect of ours: the core has everything unrouted again, and redelivers
        it."""
        if self._consumer is not None:
            self._consumer.detach()
        self.closed_by_core("failed")

    def _route(self, run: Deliveries) -> None:
        consumer = self._consumer
        if consumer is None:
            return  # everything in flight is the core's again
        admission = Admission()
        now_ms = self._now_ms()
        expiring: set[str] = set()

        def resolve(kind: MessageKind) -> Forwarding | None:
            route = self._due_route(kind)
            if route.expires:
                expiring.update(route.queues)
            return route.at(now_ms)

        known: dict[MessageKind, Forwarding | None] = {}
        form: DueForm | None = None
        at, entries = 0, run.entries
        while at < len(entries):
            if form is not None and (messages := form.messages(entries, at)):
                for topic in form.topics:
                    admission.put_all(topic, messages)
                at += len(messages)
                continue
            forward(entries[at], known, resolve, admission)
            form = self._form_of(entries[at], now_ms)
            at += 1
        self._queues.expect_expiry(expiring)
        appends = list(admission.close().items())

        def done(error: CommitFailed | None) -> None:
            admission.over()
            if error is not None and self._consumer is consumer:
                logger.warning(
                    "cannot route delayed messages of exchange %r, will retry: %s",
                    self.exchange,
                    error,
                )
                self._unrouted.append(run)

        # A forwarded entry is one message, as in a channel's publish.
        unit = Unit(appends, [(consumer, run.positions)], passes_over_gone=True, has_batches=False)
        if self._core.commit(unit, done):
            admission.over()

    def _form_of(self, entry: bytes, now_ms: int) -> DueForm | None:
        """Return the form of ``entry``, if it has one and the route alone decides where it goes."""
        word, raw, _ = word_and_route_of(entry)
        known = self._routes.get((word, raw, b""))
        return None if known is None else form_of(entry, known.at(now_ms))

    def _due_route(self, kind: MessageKind) -> DueRoute:
        if (
            self._generation != self._router.generation
            or len(self._routes) >= KINDS_MAX
            or self._targets >= TARGETS_MAX
        ):
            self._generation = self._router.generation
            self._routes.clear()
            self._targets = 0
        word, raw, properties = kind
        is_plain = is_plain_when_due(properties)
        route = self._routes.get((word, raw, b"")) if is_plain else None
        if route is None:
            route = self._routes.get(kind)
        return self._find(kind, is_plain=is_plain) if route is None else route

    def _find(self, kind: MessageKind, *, is_plain: bool) -> DueRoute:
        """Find a route and remember it."""
        word, raw, raw_properties = kind
        properties = decode_properties(raw_properties)
        copies, kept = carbon_copies(properties)
        result = RouteResult(())
        with suppress(AmqpError):  # the exchange has just been deleted
            _, routing_key = split_route(raw)
            headers = seen_by_exchanges(properties)
            result = self._router.route(self.exchange, routing_key, headers, copies)
        refusing = self._queues.refusing
        others = (name for name in result.queues if name not in refusing)
        route = DueRoute(
            head_of(raw, int.from_bytes(word, "big")),
            None if kept is properties else encode_properties(kept),
            check_expiration(properties.expiration),
            result.queues,
            tuple(each for each in map(self._queues.topic, others) if each is not None),
            tuple(refusing[name] for name in result.queues if name in refusing),
        )
        alone = is_plain and not result.depends_on_more
        self._routes[word, raw, b"" if alone else raw_properties] = route
        self._targets += len(route.queues)
        return route


@dataclass(slots=True, eq=False)
class DelayedExchanges:
    """The delayed exchanges of one vhost, by name."""

    vhost: str
    _core: Core
    _router: Router
    _queues: Queues
    _now_ms: Callable[[], int]
    _exchanges: dict[str, DelayedExchange] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"<DelayedExchanges of {self.vhost}, {len(self._exchanges)} exchanges>"

    @property
    def by_name(self) -> Mapping[str, DelayedExchange]:
        """The delayed exchanges by name."""
        return self._exchanges

    def topic(self, exchange: str) -> Topic | None:
        """Return the topic for messages that ``exchange`` delays; None when it was deleted
        meanwhile."""
        delayed = self._exchanges.get(exchange)
        if delayed is None:
            return None
        self._core.expect_delays(delayed.topic)
        return delayed.topic

    async def make(self, exchange: Exchange, unit: Unit | None = None) -> DelayedExchange | None:
        """Make the topic of a delayed exchange, together with ``unit``; None if ``exchange`` is of
        another type, and then nothing was committed."""
        if exchange.type != DELAYED_MESSAGE:
            return None
        name = self._topic_name(exchange.name)
        if exchange.name in self._exchanges:
            # Left by one deleted while the store refused writes; its messages are dropped.
            with suppress(TopicNotFound):
                await self._core.delete_topic(name, as_owner=True)
            del self._exchanges[exchange.name]
        topic = self._core.topics.get(name)
        if topic is None:
            topic = await self._core.create_topic(
                name,
                TopicSettings(durable=exchange.durable),
                unit=unit,
                subscriptions=(SUBSCRIPTION,),
            )
        elif unit is not None:
            await self._core.committed(unit)
        await topic.subscribe(SUBSCRIPTION, initial=InitialPosition.EARLIEST)
        made = DelayedExchange(
            exchange.name, topic, self._core, self._router, self._queues, self._now_ms
        )
        self._exchanges[exchange.name] = made
        return made

    async def begin(self) -> None:
        """Start all exchanges once everything declared is loaded. Messages of exchanges that did
        not survive the restart are deleted."""
        for name in list(self._core.topics):
            exchange = self._exchange_of(name)
            if exchange is not None and exchange not in self._exchanges:
                await self._core.delete_topic(name, as_owner=True)
        for delayed in self._exchanges.values():
            delayed.begin()

    async def maintain(self) -> bool:
        """Delete the messages of deleted exchanges, and retry what could not be committed. False
        when something must be retried: then the messages are still here."""
        all_done = True
        for name, delayed in list(self._exchanges.items()):
            if name in self._router.exchanges:
                try:
                    delayed.retry()
                except CoreError as error:
                    logger.warning(
                        "cannot route delayed messages of exchange %r, will retry: %s", name, error
                    )
                    all_done = False
                continue
            try:
                await self._core.delete_topic(delayed.topic.name, as_owner=True)
            except TopicNotFound:
                logger.warning("the topic of delayed exchange %r was already deleted", name)
            except CoreError as error:
                logger.warning(
                    "cannot delete the topic of delayed exchange %r, will retry: %s", name, error
                )
                all_done = False
                continue
            del self._exchanges[name]
        return all_done

    def _topic_name(self, exchange: str) -> str:
        return f"{SCHEME}{self._queues.namespace}/{encode(exchange)}"

    def _exchange_of(self, topic: str) -> str | None:
        prefix = f"{SCHEME}{self._queues.namespace}/"
        return decode(topic[len(prefix) :]) if topic.startswith(prefix) else None
