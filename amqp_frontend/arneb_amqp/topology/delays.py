"""Delays: what the delayed message exchanges of one vhost keep, and its way when the time comes.

The rule: each such exchange has a topic of its own, which no queue and no Pulsar client sees, with
one subscription that hands out what is due. A message is routed then, by the bindings of then, and
one commit takes it out of that topic and puts it into the queues that get it; so it is never lost
and never there twice. What no queue gets is gone, as in RabbitMQ.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.consistent_hash import seen_by_exchanges
from arneb_amqp.routing.delayed import DELAYED_MESSAGE
from arneb_amqp.routing.exchange import Exchange
from arneb_amqp.routing.router import Router
from arneb_amqp.session.checks import carbon_copies, check_expiration
from arneb_amqp.topology.gate import Gate
from arneb_amqp.topology.names import decode, encode, namespace_of
from arneb_amqp.topology.queue import Queue
from arneb_amqp.topology.queues import Queues
from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.route import routing_key_of, split_route
from arneb_core.entry import ENTRY_FORMAT, HEADER, HEADER_BYTES, PRIORITY_SHIFT, read_header
from arneb_core.errors import CommitFailed, TopicNotFound
from arneb_core.hashing import key_hash
from arneb_core.interface import (
    Consumer,
    ConsumerSpec,
    Core,
    Deliveries,
    InitialPosition,
    Topic,
    TopicSettings,
    Unit,
    Window,
)

LOGGER: Final = logging.getLogger(__name__)

SCHEME: Final = "amqp-delayed://"
"""Not Pulsar's, so that no client comes upon these topics."""

SUBSCRIPTION: Final = "routing"

UNDER_WAY_MAX: Final = 1_024
"""Messages that are due and on their way to their queues at the same time: a few commits' worth."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where messages of one kind go, and as what."""

    head: Callable[[int, int], bytes]
    """Header and route, given the time and the expiry."""
    properties: bytes
    expiration_ms: int | None
    queues: tuple[str, ...]
    topics: tuple[Topic, ...]
    refusing: tuple[Queue, ...]
    """Those of the queues that take it only if they have room; not among the topics."""


_Kind = tuple[int, int, bytes, bytes]
"""Flags, priority, route and properties: what came due together is often of one kind."""


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

    def __repr__(self) -> str:
        return f"<Keeper of {self.exchange!r}, {len(self._unrouted)} runs to try again>"

    def begin(self) -> None:
        """From now on what is due is routed."""
        if self._consumer is None:
            spec = ConsumerSpec("delays", unlimited=True, by_time=True, windows=(self._window,))
            self._consumer = self.topic.subscriptions[SUBSCRIPTION].attach(spec, self)

    # What the core calls (arneb_core.interface.Sink)

    def deliver(self, run: Deliveries) -> None:
        """These are due."""
        self._route(run, again=False)

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        """The exchange was deleted, or the broker stops."""
        self._consumer = None

    def retry(self) -> None:
        """Try again what could not be committed."""
        unrouted, self._unrouted = self._unrouted, []
        for run in unrouted:
            self._route(run, again=True)

    def _route(self, run: Deliveries, *, again: bool) -> None:
        consumer = self._consumer
        if consumer is None:
            return  # everything in flight is the core's again
        gate = Gate()
        ways: dict[_Kind, Way] = {}
        now_ms = self._now_ms()
        expiring: set[str] = set()
        for entry in run.entries:
            header = read_header(entry)
            start = HEADER_BYTES + header.hint
            properties = properties_of(entry, start)
            kind = header.flags, header.priority, entry[HEADER_BYTES:start], properties
            way = ways.get(kind)
            if way is None:
                way = ways[kind] = self._way(kind)
            expires_ms = 0
            if way.expiration_ms is not None:
                expires_ms = now_ms + way.expiration_ms
                expiring.update(way.queues)
            if way.topics or way.refusing:
                body = with_properties(entry[start:], way.properties)
                message = way.head(now_ms, expires_ms) + body
                for topic in way.topics:
                    gate.put(topic, message)
                for queue in way.refusing:
                    gate.offer(queue, message)
        self._queues.expect_expiry(expiring)
        appends = gate.appends
        if again:
            # Transient queues kept theirs though the commit failed.
            appends = {topic: entries for topic, entries in appends.items() if topic.durable}

        def done(error: CommitFailed | None) -> None:
            gate.over()
            if error is not None:
                LOGGER.warning("what exchange %r kept waits: %s", self.exchange, error)
                self._unrouted.append(run)

        self._core.commit(Unit(list(appends.items()), [(consumer, run.positions)]), done)
        gate.handed_over()

    def _way(self, kind: _Kind) -> Way:
        flags, priority, route, raw = kind
        properties = decode_properties(raw)
        copies, kept = carbon_copies(properties)
        key = key_hash(routing_key_of(route))
        word = flags | priority << PRIORITY_SHIFT

        def head(now_ms: int, expires_ms: int) -> bytes:
            header = HEADER.pack(
                ENTRY_FORMAT, 1, word, 1, now_ms, 0, expires_ms, key, len(route), 0
            )
            return header + route

        queues: tuple[str, ...] = ()
        try:
            _, routing_key = split_route(route)
            headers = seen_by_exchanges(properties)
            queues = self._router.route(self.exchange, routing_key, headers, copies).queues
        except AmqpError:
            pass  # the exchange has just been deleted
        refusing = [each for each in map(self._queues.refusing.get, queues) if each is not None]
        others = (name for name in queues if name not in self._queues.refusing)
        topics = [each for each in map(self._queues.topic, others) if each is not None]
        expiration_ms = check_expiration(properties.expiration)
        body = raw if kept is properties else encode_properties(kept)
        return Way(head, body, expiration_ms, queues, tuple(topics), tuple(refusing))


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
        topic = self._core.topics.get(name)
        if topic is None:
            topic = await self._core.create_topic(
                name, TopicSettings(durable=exchange.durable), unit=unit
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
                await self._core.delete_topic(name)
        for keeper in self._keepers.values():
            keeper.begin()

    async def look_over(self) -> None:
        """Forget what exchanges kept that are gone, and try again what could not be committed."""
        for name, keeper in list(self._keepers.items()):
            if name in self._router.exchanges:
                keeper.retry()
                continue
            del self._keepers[name]
            try:
                await self._core.delete_topic(keeper.topic.name)
            except TopicNotFound:
                LOGGER.warning("the topic of exchange %r was gone already", name)

    def _topic_name(self, exchange: str) -> str:
        return f"{SCHEME}{namespace_of(self.vhost)}/{encode(exchange)}"

    def _exchange_of(self, topic: str) -> str | None:
        prefix = f"{SCHEME}{namespace_of(self.vhost)}/"
        return decode(topic[len(prefix) :]) if topic.startswith(prefix) else None
