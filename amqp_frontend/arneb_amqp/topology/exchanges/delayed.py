"""Delayed message exchanges: what those of one vhost keep, and where it goes when it is due.

The rule: each of them has a topic of its own, which no queue and no Pulsar client sees, with
one subscription that hands out what is due. A message is routed then, by the bindings of then, and
one commit takes it out of that topic and puts it into the queues that get it; so it is never lost
and never there twice. What no queue gets is gone, as in RabbitMQ.
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
from arneb_core.api.callbacks import call
from arneb_core.api.consumers import Consumer, ConsumerSpec
from arneb_core.api.core import Core, Unit
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import CommitFailed, CoreError, TopicNotFound
from arneb_core.api.settings import TopicSettings
from arneb_core.api.subscriptions import InitialPosition
from arneb_core.api.topics import Topic
from arneb_core.api.windows import Window

LOGGER: Final = logging.getLogger(__name__)

SCHEME: Final = "amqp-delayed://"
"""Not Pulsar's, so that no client comes upon these topics."""

SUBSCRIPTION: Final = "routing"

UNDER_WAY_MAX: Final = 4_096
"""Messages that are due and on their way to their queues at the same time: a commit's worth,"""

UNDER_WAY_BYTES_MAX: Final = 4 * 1024 * 1024
"""and about so many bytes, by those that came due last."""

KINDS_MAX: Final = 1_024
"""Kinds of messages of which the route is remembered; properties may differ from message to
message."""

TARGETS_MAX: Final = 100_000
"""Queues in all those routes, after which they are forgotten too."""


class DueRoute:
    """Where due messages of one kind go, and as what.

    Invariant: ``_forwarding`` is what :meth:`at` said for ``_at_ms``.
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
        """The messages expire."""
        return self._expiration_ms is not None

    def at(self, now_ms: int) -> Forwarding | None:
        """For messages that are forwarded now; None = to nowhere."""
        if now_ms != self._at_ms:
            self._at_ms = now_ms
            expires_ms = 0 if self._expiration_ms is None else now_ms + self._expiration_ms
            self._forwarding = None
            if self._topics or self._refusing:
                head = self._head(now_ms, 0, expires_ms)
                self._forwarding = Forwarding(head, self._properties, self._topics, self._refusing)
        return self._forwarding


class DelayedExchange:
    """What one exchange delays (it is the sink of the consumer on the exchange's topic)."""

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
        """Of kinds whose properties have nothing to do with it, without those."""
        self._targets = 0
        self._generation = router.generation

    def __repr__(self) -> str:
        return f"<DelayedExchange of {self.exchange!r}, {len(self._unrouted)} runs to try again>"

    def begin(self) -> None:
        """From now on what is due is routed."""
        if self._consumer is None:
            spec = ConsumerSpec("delays", unlimited=True, by_time=True, windows=(self._window,))
            self._consumer = self.topic.subscriptions[SUBSCRIPTION].attach(spec, self)

    # What the core calls (arneb_core.api.consumers.Sink)

    def deliver(self, run: Deliveries) -> None:
        """These are due."""
        mean_bytes = sum(map(len, run.entries)) // max(1, len(run.entries))
        self._window.limit = min(UNDER_WAY_MAX, max(1, UNDER_WAY_BYTES_MAX // max(1, mean_bytes)))
        self._route(run)

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        """The exchange was deleted, the broker stops, or something failed here. All that was due
        and is not routed is the core's again, and comes again if there is a consumer again."""
        self._consumer = None
        self._unrouted.clear()

    def retry(self) -> None:
        """Be there again if something has failed, and try again what could not be committed."""
        if self._consumer is None:
            LOGGER.warning("delayed exchange %r continues after an error", self.exchange)
            self.begin()
        unrouted, self._unrouted = self._unrouted, []
        for run in unrouted:
            if not call(self._route, run):
                self._leave()
                return

    def _leave(self) -> None:
        """A defect of ours: all that is not routed is the core's again, and comes again."""
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
                LOGGER.warning(
                    "cannot route delayed messages of exchange %r, will retry: %s",
                    self.exchange,
                    error,
                )
                self._unrouted.append(run)

        # What is forwarded is one message an entry, as what a channel publishes.
        unit = Unit(appends, [(consumer, run.positions)], passes_over_gone=True, has_batches=False)
        if self._core.commit(unit, done):
            admission.over()

    def _form_of(self, entry: bytes, now_ms: int) -> DueForm | None:
        """The form of ``entry``, if it has one and goes where the route alone says."""
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
        """Work a route out, and remember it."""
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
        """Every one of them by its name."""
        return self._exchanges

    def topic(self, exchange: str) -> Topic | None:
        """Where messages that ``exchange`` keeps are appended; None when it went meanwhile."""
        delayed = self._exchanges.get(exchange)
        if delayed is None:
            return None
        self._core.expect_delays(delayed.topic)
        return delayed.topic

    async def make(self, exchange: Exchange, unit: Unit | None = None) -> DelayedExchange | None:
        """Make what ``exchange`` needs to keep messages, together with ``unit``; None if it keeps
        none, and then nothing was committed."""
        if exchange.type != DELAYED_MESSAGE:
            return None
        name = self._topic_name(exchange.name)
        if exchange.name in self._exchanges:
            # Of one that was deleted while the store took nothing. Nothing of that is to come.
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
        """All that was declared before is here: what is due may go. What an exchange kept that did
        not outlive the broker is gone."""
        for name in list(self._core.topics):
            exchange = self._exchange_of(name)
            if exchange is not None and exchange not in self._exchanges:
                await self._core.delete_topic(name, as_owner=True)
        for delayed in self._exchanges.values():
            delayed.begin()

    async def maintain(self) -> bool:
        """Forget what exchanges kept that are gone, and try again what could not be committed.
        False when something of it must be tried again: then what was kept is still here."""
        all_done = True
        for name, delayed in list(self._exchanges.items()):
            if name in self._router.exchanges:
                try:
                    delayed.retry()
                except CoreError as error:
                    LOGGER.warning(
                        "cannot route delayed messages of exchange %r, will retry: %s", name, error
                    )
                    all_done = False
                continue
            try:
                await self._core.delete_topic(delayed.topic.name, as_owner=True)
            except TopicNotFound:
                LOGGER.warning("the topic of delayed exchange %r was already deleted", name)
            except CoreError as error:
                LOGGER.warning(
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
