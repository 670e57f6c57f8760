"""The topology: every vhost, and the locks under which anything in them changes.

The rule: readers need no lock, because every change is complete between two awaits as far as they
can tell. Whoever changes something, or may adopt a queue, does so inside :meth:`Topology.changing`,
never cancelled half-way. Changes happen one at a time, except those that touch different things,
which share commits.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from secrets import token_urlsafe
from typing import Final, NoReturn, Self

import trio

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import AmqpError, precondition_failed
from arneb_amqp.routing.exchange import RESERVED_PREFIX, DestinationKind
from arneb_amqp.routing.router import Router
from arneb_amqp.routing.routes import Routes
from arneb_amqp.topology.broker_events import EVENT_EXCHANGE, BrokerEvents
from arneb_amqp.topology.catalogue_events import events_of
from arneb_amqp.topology.exchanges.delayed import DelayedExchanges
from arneb_amqp.topology.exchanges.exchanges import Exchanges
from arneb_amqp.topology.footprint import Footprint, of_removal
from arneb_amqp.topology.message_observers import MessageObserver, Several
from arneb_amqp.topology.names import queue_of
from arneb_amqp.topology.notices import Notices
from arneb_amqp.topology.policies.policies import Policies
from arneb_amqp.topology.policy_updates import PolicyUpdates
from arneb_amqp.topology.queues.attachments import Attachments
from arneb_amqp.topology.queues.maintenance import delete_expired, retry_dead_letters
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.topology.records import (
    BINDINGS,
    EXCHANGES,
    PREFIX,
    QUEUES,
    decode_binding,
    decode_exchange,
    decode_queue,
    keys_of,
)
from arneb_amqp.topology.tracing import Tracing
from arneb_amqp.traffic import QueueTraffic, VhostTraffic
from arneb_core.access.acting import acting_user
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import Policy
from arneb_core.access.records import Vhost as VhostRecord
from arneb_core.access.tables import Changed
from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import TopicNotFound
from arneb_core.api.process.clock import monotonic_ms, wall_clock_ms
from arneb_core.api.process.name_locks import NameLocks
from arneb_core.api.process.supervision import BackOff
from arneb_core.api.process.waiting import together
from arneb_core.api.topics.topic import Topic

logger = logging.getLogger(__name__)

MAINTENANCE_S: Final = 0.25
"""The most by which a queue outlives its expiry."""
MAINTENANCE_S_MIN: Final = 0.01

MAINTENANCE_FAILED_S_MAX: Final = 5.0
"""The longest wait between attempts while the store refuses writes."""

NAME_BYTES: Final = 16
"""Random octets in a server-generated name; RabbitMQ's have as many."""


EVERYTHING: Final = "everything"
"""Shared by limited changes, and held alone by unlimited ones."""

Touched = Callable[[], Footprint | None]
"""Returns what a change touches now; None = anything."""


def everything() -> None:
    """Return None: anything may be changed."""


def new_name() -> str:
    """Return the random part of a server-generated name."""
    return token_urlsafe(NAME_BYTES)


class Vhost:
    """One vhost: its router, queues, exchanges and consumers."""

    def __init__(
        self,
        name: str,
        namespace: str,
        core: Core,
        name_maker: Callable[[], str],
        check_count: Callable[[str, str], None],
        events: BrokerEvents,
    ) -> None:
        self.name = name
        self.router = Router(name)
        self.queues = Queues(
            name, namespace, core, self.router, name_maker, self._delayed_topic,
            partial(check_count, name), events,
        )  # fmt: skip
        self.delayed_exchanges = DelayedExchanges(
            name, core, self.router, self.queues, wall_clock_ms
        )
        self.exchanges = Exchanges(
            name, core, self.router, self.queues, self.delayed_exchanges, events
        )
        self.policy_updates = PolicyUpdates(self.router, self.queues, self.exchanges)
        self.attachments = Attachments(self.queues)
        self.routes = Routes(self.router)
        self.tracing: MessageObserver | None = None
        """Sees everything published and delivered here, if set."""
        self.firehose: Tracing | None = None
        """Copies it, while tracing is on."""
        self._observer: MessageObserver | None = None
        self.notices = Notices(core, self.router, self.queues)

    def __repr__(self) -> str:
        return f"<Vhost {self.name}, {self.queues!r}>"

    def trace(self, node: str | None) -> None:
        """Trace from now on, as the node of that name; None: stop."""
        self.firehose = None if node is None else Tracing(self.name, self.notices, node)
        self._look()

    def observe(self, observer: MessageObserver) -> None:
        """Let ``observer`` see everything published and delivered here from now on."""
        self._observer = observer
        self._look()

    def _look(self) -> None:
        wanted = [each for each in (self.firehose, self._observer) if each is not None]
        self.tracing = Several(wanted) if len(wanted) > 1 else next(iter(wanted), None)

    @property
    def is_traced(self) -> bool:
        """Whether publishes are traced, including those that no queue takes."""
        return self.tracing is not None

    def _delayed_topic(self, exchange: str) -> Topic | None:
        return self.delayed_exchanges.topic(exchange)

    def foreign_topic(self, queue: str) -> bool:
        """Whether a topic of that queue's name exists, even if nobody declared the queue."""
        return self.queues.foreign_topic(queue) is not None

    def has_queue(self, name: str) -> bool:
        """Whether a queue of that name is declared; another frontend's topic is not a queue yet."""
        queue = self.queues.get(name)
        return queue is not None and not queue.adopted

    def queue_traffic(self, queue: str) -> QueueTraffic:
        """Return the counters of deliveries from that queue."""
        found = self.queues.get(queue)
        return QueueTraffic() if found is None else found.traffic

    def refuses(self, queues: Sequence[str]) -> bool:
        """Whether one of ``queues`` may refuse a publish and so must be asked for each message."""
        refusing = self.queues.refusing
        return bool(refusing) and not refusing.keys().isdisjoint(queues)

    def passes_refused_on(self, queues: Sequence[str]) -> bool:
        """Whether a message that one of ``queues`` refuses becomes a dead letter."""
        if not (refusing := self.queues.refusing):
            return False
        found = map(refusing.get, queues)
        return any(each is not None and each.refused is not None for each in found)

    def ack_timeout_s(self, queue: str) -> float | None:
        """Return the acknowledgement timeout of ``queue``; None if it sets none."""
        options = self.queues.options(queue)
        if options is None or options.consumer_timeout_ms is None:
            return None
        return options.consumer_timeout_ms / 1000


class Topology:
    """The vhosts by name: those of the access catalogue."""

    def __init__(
        self,
        core: Core,
        catalogue: Catalogue,
        config: AmqpConfig,
        name_maker: Callable[[], str] = new_name,
    ) -> None:
        self._core = core
        self.catalogue = catalogue
        self.broker_events: Final = BrokerEvents()
        """Publishes events of all vhosts."""
        self._observer_of: Callable[[Vhost], MessageObserver] | None = None
        self._event_vhost = config.event_exchange_vhost
        self._queues_max = config.queues_max
        self._queue_type = config.default_queue_type
        self._name_maker = name_maker
        self._locks = NameLocks()
        self._vhosts: dict[str, Vhost] = {}
        self._gone = VhostTraffic()  # of deleted vhosts
        for record in catalogue.tables.rows(VhostRecord):
            self._add(record)
        core.accompany_deletions(self._going_with)

    def __repr__(self) -> str:
        return f"<Topology of {len(self._vhosts)} vhosts>"

    def default_queue_type(self, vhost: str) -> str:
        """Return the queue type there for declarations without one; empty: no default is set."""
        record = self.catalogue.vhost(vhost)
        return (record.default_queue_type if record is not None else "") or self._queue_type

    @classmethod
    async def open(cls, core: Core, catalogue: Catalogue, config: AmqpConfig) -> Self:
        """Open the topology with everything that was declared durably before."""
        topology = cls(core, catalogue, config)
        await topology._load()
        catalogue.watch(topology._changed)
        catalogue.follow(topology._followed)
        await catalogue.accompany_removals(topology._empty)
        return topology

    @property
    def vhosts(self) -> Collection[Vhost]:
        """All vhosts, as a live view."""
        return self._vhosts.values()

    def traffic(self) -> VhostTraffic:
        """Return the traffic of all present and past vhosts together."""
        total = VhostTraffic()
        for each in (self._gone, *(vhost.router.traffic for vhost in self._vhosts.values())):
            total.add(each)
        return total

    def vhost(self, name: str) -> Vhost | None:
        """Return the vhost of that name, unless it is being removed."""
        return None if self.catalogue.vhost(name) is None else self._vhosts.get(name)

    def observe(self, observer_of: Callable[[Vhost], MessageObserver]) -> None:
        """Let each vhost, present and future, be seen by an observer made for it."""
        self._observer_of = observer_of
        for vhost in self._vhosts.values():
            vhost.observe(observer_of(vhost))

    def _add(self, record: VhostRecord) -> None:
        vhost = Vhost(
            record.name, record.namespace, self._core, self._name_maker, self._check_queue_count,
            self.broker_events,
        )  # fmt: skip
        vhost.policy_updates.replace(Policies.of(self.catalogue.tables, record.name))
        self._vhosts[record.name] = vhost
        if self._observer_of is not None:
            vhost.observe(self._observer_of(vhost))
        if record.name == self._event_vhost:
            vhost.router.declare(EVENT_EXCHANGE)
            self.broker_events.go_by(vhost.notices)

    def _check_queue_count(self, vhost: str, queue: str) -> None:
        """Raises 406 at the queue limit."""
        if self._queues_max >= 0:
            there = sum(len(each.queues) for each in self._vhosts.values())
            if there >= self._queues_max:
                raise precondition_failed(
                    f"cannot declare queue '{queue}': queue limit in cluster "
                    f"({self._queues_max}) is reached"
                )
        record = self.catalogue.vhost(vhost)
        most = -1 if record is None else record.limits.get("max-queues", -1)
        if 0 <= most <= len(self._vhosts[vhost].queues):
            raise precondition_failed(
                f"cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({most}) "
                "is reached"
            )

    def _changed(self, changed: Sequence[Changed]) -> None:
        for before, after in changed:
            if before is None and isinstance(after, VhostRecord):
                self._add(after)
                exchanges = self._vhosts[after.name].router.exchanges.values()
                self.broker_events.predeclared(after.name, exchanges)
            elif after is None and isinstance(before, VhostRecord):
                gone = self._vhosts.pop(before.name, None)
                self._gone.add(VhostTraffic() if gone is None else gone.router.traffic)
        if self.broker_events.wanted:
            self.broker_events.emit_all(events_of(changed, acting_user(), self.broker_events.node))
        for vhost in self._affected_by(changed):
            vhost.policy_updates.replace(Policies.of(self.catalogue.tables, vhost.name))

    async def _followed(self, changed: Sequence[Changed]) -> None:
        for vhost in self._affected_by(changed):
            await vhost.policy_updates.carry_out(self.changing)

    def _affected_by(self, changed: Sequence[Changed]) -> list[Vhost]:
        """Return the vhosts whose policies have changed."""
        policies = [each for pair in changed for each in pair if isinstance(each, Policy)]
        vhosts = map(self.vhost, dict.fromkeys(each.vhost for each in policies))
        return [each for each in vhosts if each is not None]

    async def _empty(self, name: str) -> None:
        """Delete everything declared in a vhost; what only the other frontend knows in its
        namespace stays."""
        vhost = self._vhosts[name]
        await together([partial(self._delete_queue, vhost, queue) for queue in vhost.queues])
        async with self.changing():
            for exchange in list(vhost.router.exchanges.values()):
                if exchange.name and not exchange.name.startswith(RESERVED_PREFIX):
                    await vhost.exchanges.delete(exchange.name, if_unused=False)
            left = keys_of(name, self._core.metadata(PREFIX))
            await self._core.committed(Unit(metadata=[(key, None) for key in left]))

    async def _delete_queue(self, vhost: Vhost, queue: Queue) -> None:
        async with self.changing(partial(of_removal, vhost.name, vhost.router, queue.name)):
            with suppress(TopicNotFound):
                await vhost.queues.delete(queue)

    @asynccontextmanager
    async def changing(self, touched: Touched = everything) -> AsyncIterator[None]:
        """Hold the locks of what is ``touched``, which is evaluated again once they are held. A
        commit that has begun cannot be undone, so the body is shielded from cancellation; it waits
        only for the store."""
        wanted = touched()
        if wanted is not None:
            shared = EVERYTHING, *wanted.shared
            async with self._locks.holding(*wanted.alone, shared=shared):
                if touched() == wanted:
                    with trio.CancelScope(shield=True):
                        yield
                    return
        async with self._locks.holding(EVERYTHING):
            with trio.CancelScope(shield=True):
                yield

    @asynccontextmanager
    async def _going_with(self, topic: str, unit: Unit) -> AsyncIterator[None]:
        """Remove the queue of a topic that is deleted elsewhere. The lock is held in any case,
        because the queue may just be coming into being."""
        async with AsyncExitStack() as stack:
            for vhost in list(self._vhosts.values()):
                queue = queue_of(vhost.queues.namespace, topic)
                if queue is not None:  # of one vhost at most
                    touched = partial(of_removal, vhost.name, vhost.router, queue)
                    await stack.enter_async_context(self.changing(touched))
                    await stack.enter_async_context(vhost.queues.going_with(topic, unit))
            yield

    async def maintain(self) -> NoReturn:
        """Remove expired queues and retry dead letters, forever."""
        back_off = BackOff(MAINTENANCE_S, MAINTENANCE_FAILED_S_MAX)
        while True:
            soonest_ms, all_done = float("inf"), True
            for vhost in list(self._vhosts.values()):
                await retry_dead_letters(vhost.queues)
            async with self.changing():
                for vhost in list(self._vhosts.values()):
                    left_ms, done = await delete_expired(vhost.queues, monotonic_ms())
                    soonest_ms, all_done = min(soonest_ms, left_ms), all_done and done
                    all_done = await vhost.delayed_exchanges.maintain() and all_done
            if all_done:
                back_off.succeeded()
                wait_s = min(MAINTENANCE_S, max(soonest_ms / 1000, MAINTENANCE_S_MIN))
            else:
                wait_s = back_off.failed()
            await trio.sleep(wait_s)

    async def _load(self) -> None:
        for value in self._core.metadata(EXCHANGES).values():
            vhost_name, exchange = decode_exchange(value)
            if vhost_name in self._vhosts:
                self._vhosts[vhost_name].router.declare(exchange)
                await self._vhosts[vhost_name].delayed_exchanges.make(exchange)
        for value in self._core.metadata(QUEUES).values():
            record = decode_queue(value)
            if record.vhost in self._vhosts:
                await self._vhosts[record.vhost].queues.restore(record)
        for value in self._core.metadata(BINDINGS).values():
            vhost_name, binding = decode_binding(value)
            if vhost_name not in self._vhosts:
                continue
            vhost = self._vhosts[vhost_name]
            try:
                if binding.kind is DestinationKind.QUEUE:
                    await vhost.queues.restore_destination(binding.destination)
                vhost.router.bind(binding)
            except AmqpError as error:
                logger.warning("ignoring stored %s: %s", binding, error)
        for vhost in self._vhosts.values():
            vhost.policy_updates.begin()
            await vhost.queues.begin()
            await vhost.delayed_exchanges.begin()
