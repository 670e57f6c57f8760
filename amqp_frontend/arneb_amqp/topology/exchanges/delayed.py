"""Delays: what the delayed message exchanges of one vhost keep, and its way when the time comes.

The rule: each such exchange has a topic of its own, which no queue and no Pulsar client sees, with
one subscription that hands out what is due. A message is routed then, by the bindings of then, and
one commit takes it out of that topic and puts it into the queues that get it; so it is never lost
and never there twice. What no queue gets is gone, as in RabbitMQ.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.checks import carbon_copies, check_expiration, is_plain_when_due
from arneb_amqp.routing.consistent_hash import seen_by_exchanges
from arneb_amqp.routing.delayed import DELAYED_MESSAGE
from arneb_amqp.routing.exchange import Exchange
from arneb_amqp.routing.router import Router, RouteResult
from arneb_amqp.topology.forwarding import Head, head_of
from arneb_amqp.topology.names import decode, encode, namespace_of
from arneb_amqp.topology.overflow import Gate
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.route import split_route
from arneb_core.api.callbacks import call
from arneb_core.api.consumers import Consumer, ConsumerSpec
from arneb_core.api.core import Core, Unit
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import (
    HEADER_BYTES,
    HINT,
    HINT_OFFSET,
    MESSAGES_OFFSET,
    PRIORITY_OFFSET,
)
from arneb_core.api.errors import CommitFailed, CoreError, TopicNotFound
from arneb_core.api.settings import TopicSettings
from arneb_core.api.subscriptions import InitialPosition
from arneb_core.api.topics import Topic
from arneb_core.api.windows import Window

LOGGER: Final = logging.getLogger(__name__)

SCHEME: Final = "amqp-delayed://"
"""Not Pulsar's, so that no client comes upon these topics."""

SUBSCRIPTION: Final = "routing"

UNDER_WAY_MAX: Final = 1_024
"""Messages that are due and on their way to their queues at the same time: a few commits' worth."""


WAYS_MAX: Final = 1_024
"""Remembered; properties may differ from message to message."""

WAY_TARGETS_MAX: Final = 100_000
"""Queues in all of them, after which they are forgotten too."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where messages of one kind go, and as what."""

    head: Head
    properties: bytes | None
    """Instead of their own, which are fit to be seen if this is None."""
    expiration_ms: int | None
    queues: tuple[str, ...]
    topics: tuple[Topic, ...]
    refusing: tuple[Queue, ...]
    """Those of the queues that take it only if they have room; not among the topics."""


_Kind = tuple[bytes, bytes, bytes]
"""Priority and flags, route, and what the properties have to do with it; mostly nothing."""


class Keeper:
    """What one exchange keeps (it is the sink of the consumer on the exchange's topic)."""

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
        self._ways: dict[_Kind, Way] = {}
        self._targets = 0
        self._generation = router.generation

    def __repr__(self) -> str:
        return f"<Keeper of {self.exchange!r}, {len(self._unrouted)} runs to try again>"

    def begin(self) -> None:
        """From now on what is due is routed."""
        if self._consumer is None:
            spec = ConsumerSpec("delays", unlimited=True, by_time=True, windows=(self._window,))
            self._consumer = self.topic.subscriptions[SUBSCRIPTION].attach(spec, self)

    # What the core calls (arneb_core.api.consumers.Sink)

    def deliver(self, run: Deliveries) -> None:
        """These are due."""
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
        gate = Gate()
        now_ms = self._now_ms()
        expiring: set[str] = set()
        for entry in run.entries:
            start = HEADER_BYTES + HINT.unpack_from(entry, HINT_OFFSET)[0]
            way = self._way(entry, start)
            expires_ms = 0
            if way.expiration_ms is not None:
                expires_ms = now_ms + way.expiration_ms
                expiring.update(way.queues)
            if way.topics or way.refusing:
                body = entry[start:]
                if way.properties is not None:
                    body = with_properties(body, way.properties)
                message = way.head(now_ms, 0, expires_ms) + body
                for topic in way.topics:
                    gate.put(topic, message)
                for queue in way.refusing:
                    gate.offer(queue, message)
        self._queues.expect_expiry(expiring)
        appends = list(gate.close().items())

        def done(error: CommitFailed | None) -> None:
            gate.over()
            if error is not None and self._consumer is consumer:
                LOGGER.warning(
                    "cannot route delayed messages of exchange %r, will retry: %s",
                    self.exchange,
                    error,
                )
                self._unrouted.append(run)

        unit = Unit(appends, [(consumer, run.positions)], passes_over_gone=True)
        if self._core.commit(unit, done):
            gate.over()

    def _way(self, entry: bytes, start: int) -> Way:
        """The way of an entry whose content begins at ``start``."""
        if (
            self._generation != self._router.generation
            or len(self._ways) >= WAYS_MAX
            or self._targets >= WAY_TARGETS_MAX
        ):
            self._generation = self._router.generation
            self._ways.clear()
            self._targets = 0
        word, route = entry[PRIORITY_OFFSET:MESSAGES_OFFSET], entry[HEADER_BYTES:start]
        properties = properties_of(entry, start)
        is_plain = is_plain_when_due(properties)
        way = self._ways.get((word, route, b"")) if is_plain else None
        if way is None:
            way = self._ways.get((word, route, properties))
        return self._find(word, route, properties, is_plain=is_plain) if way is None else way

    def _find(self, word: bytes, route: bytes, raw: bytes, *, is_plain: bool) -> Way:
        """Work a way out, and remember it."""
        properties = decode_properties(raw)
        copies, kept = carbon_copies(properties)
        result = RouteResult(())
        with suppress(AmqpError):  # the exchange has just been deleted
            _, routing_key = split_route(route)
            headers = seen_by_exchanges(properties)
            result = self._router.route(self.exchange, routing_key, headers, copies)
        refuses = self._queues.refusing
        others = (name for name in result.queues if name not in refuses)
        way = Way(
            head_of(route, int.from_bytes(word, "big")),
            None if kept is properties else encode_properties(kept),
            check_expiration(properties.expiration),
            result.queues,
            tuple(each for each in map(self._queues.topic, others) if each is not None),
            tuple(refuses[name] for name in result.queues if name in refuses),
        )
        alone = is_plain and not result.depends_on_more
        self._ways[word, route, b"" if alone else raw] = way
        self._targets += len(way.queues)
        return way


class Delays:
    """The keepers of one vhost, by exchange."""

    def __init__(
        self,
        vhost: str,
        core: Core,
        router: Router,
        queues: Queues,
        now_ms: Callable[[], int],
    ) -> None:
        self.vhost = vhost
        self._core = core
        self._router = router
        self._queues = queues
        self._now_ms = now_ms
        self._keepers: dict[str, Keeper] = {}

    def __repr__(self) -> str:
        return f"<Delays of {self.vhost}, {len(self._keepers)} exchanges>"

    @property
    def keepers(self) -> Mapping[str, Keeper]:
        """By the names of the exchanges."""
        return self._keepers

    def topic(self, exchange: str) -> Topic | None:
        """Where messages that ``exchange`` keeps are appended; None when it went meanwhile."""
        keeper = self._keepers.get(exchange)
        if keeper is None:
            return None
        self._core.expect_delays(keeper.topic)
        return keeper.topic

    async def make(self, exchange: Exchange, unit: Unit | None = None) -> Keeper | None:
        """Make what ``exchange`` needs to keep messages, together with ``unit``; None if it keeps
        none, and then nothing was committed."""
        if exchange.type != DELAYED_MESSAGE:
            return None
        name = self._topic_name(exchange.name)
        if exchange.name in self._keepers:
            # Of one that was deleted while the store took nothing. Nothing of that is to come.
            with suppress(TopicNotFound):
                await self._core.delete_topic(name, as_owner=True)
            del self._keepers[exchange.name]
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
        made = Keeper(exchange.name, topic, self._core, self._router, self._queues, self._now_ms)
        self._keepers[exchange.name] = made
        return made

    async def begin(self) -> None:
        """All that was declared before is here: what is due may go. What an exchange kept that did
        not outlive the broker is gone."""
        for name in list(self._core.topics):
            exchange = self._exchange_of(name)
            if exchange is not None and exchange not in self._keepers:
                await self._core.delete_topic(name, as_owner=True)
        for keeper in self._keepers.values():
            keeper.begin()

    async def look_over(self) -> bool:
        """Forget what exchanges kept that are gone, and try again what could not be committed.
        False when something of it must be tried again: then what was kept is still here."""
        all_done = True
        for name, keeper in list(self._keepers.items()):
            if name in self._router.exchanges:
                try:
                    keeper.retry()
                except CoreError as error:
                    LOGGER.warning(
                        "cannot route delayed messages of exchange %r, will retry: %s", name, error
                    )
                    all_done = False
                continue
            try:
                await self._core.delete_topic(keeper.topic.name, as_owner=True)
            except TopicNotFound:
                LOGGER.warning("the topic of delayed exchange %r was already deleted", name)
            except CoreError as error:
                LOGGER.warning(
                    "cannot delete the topic of delayed exchange %r, will retry: %s", name, error
                )
                all_done = False
                continue
            del self._keepers[name]
        return all_done

    def _topic_name(self, exchange: str) -> str:
        return f"{SCHEME}{namespace_of(self.vhost)}/{encode(exchange)}"

    def _exchange_of(self, topic: str) -> str | None:
        prefix = f"{SCHEME}{namespace_of(self.vhost)}/"
        return decode(topic[len(prefix) :]) if topic.startswith(prefix) else None
