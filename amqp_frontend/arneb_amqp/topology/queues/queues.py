"""Queues of one vhost: a queue is a topic with one Shared subscription.

The rule: changes of the set of queues require the topology's lock; everything else only reads. A
queue whose topic a Pulsar client made is noticed when a client names it; a queue whose topic is
deleted elsewhere goes in the same commit (:meth:`Queues.going_with`).
"""

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from arneb_amqp.errors import not_found, precondition_failed, queue_in_words
from arneb_amqp.routing.removals import queue_removal
from arneb_amqp.routing.reply_to import is_reply_queue
from arneb_amqp.routing.router import Router
from arneb_amqp.topology.arguments import inequivalent
from arneb_amqp.topology.broker_events import SILENT, BrokerEvents
from arneb_amqp.topology.dead_letters import Destinations
from arneb_amqp.topology.names import SUBSCRIPTION, queue_of, topic_of
from arneb_amqp.topology.overflow import Overflow
from arneb_amqp.topology.policies.policies import NO_POLICY, Applied, Policies
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.declaration import ConnectionId, Declaration
from arneb_amqp.topology.queues.effective import effective_options
from arneb_amqp.topology.queues.enforcing import Enforcing, keep
from arneb_amqp.topology.queues.options import (
    OF_ONE_CONNECTION,
    QUEUE_TYPE,
    QueueOptions,
    queue_type,
)
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.queues.time_to_live import as_held, as_stored
from arneb_amqp.topology.records import QueueRecord
from arneb_amqp.topology.removal import removal
from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic

logger = logging.getLogger(__name__)

LOST_MAX: Final = 10_000
"""Names of queues deleted through another frontend, needed while a publish may wait behind another
request of its connection: a commit or a few."""


class Queues:
    """The queues of one vhost by name.

    Invariant: every queue here is known to the router and had a topic and the subscription when it
    was added.
    """

    def __init__(
        self,
        vhost: str,
        namespace: str,
        core: Core,
        router: Router,
        new_name: Callable[[], str],
        delayed_exchange: Callable[[str], Topic | None] = lambda exchange: None,
        check_count: Callable[[str], None] = lambda queue: None,
        events: BrokerEvents = SILENT,
    ) -> None:
        self.vhost = vhost
        self.namespace = namespace
        """The namespace of its queues' topics."""
        self._core = core
        self._router = router
        self._events = events
        self.new_name = new_name
        self._check_count = check_count  # raises 406 at the limit
        self._queues: dict[str, Queue] = {}
        self.changes = 0  # grows with each queue that comes or goes
        self._exclusive: defaultdict[ConnectionId, dict[str, Queue]] = defaultdict(dict)
        """The exclusive queues, by connection."""
        self.policies = Policies(())
        """The vhost's policies."""
        self.refusing: dict[str, Overflow] = {}  # publishes, when full
        self._lost_lately: dict[str, None] = {}
        """Queues, and topics that could have been queues, deleted through another frontend."""
        self._lost: dict[str, None] = {}
        """While the broker starts: queues with records but no topic."""
        self.destinations = Destinations(self.topic, self.refusing.get, delayed_exchange)
        """Resolves the targets of dead letters."""
        self._enforcing = Enforcing(core, router, self.destinations, self.refusing)
        self.attended = self._enforcing.attended

    def __repr__(self) -> str:
        return f"<Queues of {self.vhost}, {len(self._queues)}>"

    def __iter__(self) -> Iterator[Queue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def get(self, name: str) -> Queue | None:
        """Return the queue of that name, if it was ever used as one."""
        return self._queues.get(name)

    def options(self, name: str) -> QueueOptions | None:
        """Return the options of that queue; None when it does not exist."""
        queue = self._queues.get(name)
        return None if queue is None else queue.options

    def lost(self, name: str) -> bool:
        """Whether another frontend deleted its topic: messages on their way are lost, not
        deleted."""
        return name in self._lost_lately and self.topic(name) is None

    def topic(self, name: str) -> Topic | None:
        """Return the topic for the queue's messages; None when it was deleted meanwhile."""
        queue = self._queues.get(name)
        return queue.topic if queue is not None else self.foreign_topic(name)

    def expect_expiry(self, names: Iterable[str]) -> None:
        """Note that expiring messages are about to enter these queues. In a stream nothing
        expires."""
        for name in names:
            queue = self._queues.get(name)
            if queue is not None and queue.type is not QueueType.STREAM:
                self._core.expect_expiry(queue.topic)

    def foreign_topic(self, name: str) -> Topic | None:
        """Return the topic of that queue's name, whoever made it."""
        return self._core.topics.get(topic_of(self.namespace, name))

    def has(self, queue: Queue) -> bool:
        """Whether the queue still exists."""
        return self._queues.get(queue.name) is queue

    async def find(self, name: str) -> Queue:
        """Return the queue of that name. Raises 404 ``no queue 'q' in vhost '/'``."""
        queue = await self._find(name)
        if queue is None:
            raise not_found(f"no {queue_in_words(name, self.vhost)}")
        return queue

    async def access(self, name: str, owner: ConnectionId) -> Queue:
        """As :meth:`find`, for a connection that must be allowed to use it. A reply queue may not
        be used by anyone but its consumer."""
        known = self._queues.get(name)
        if is_reply_queue(name) and (known is None or known.consumer_count):
            raise not_found(f"no {queue_in_words(name, self.vhost)}")
        queue = await self.find(name)
        queue.check_access(owner)
        return queue

    async def declare(self, wanted: Declaration) -> Queue:
        """Return the queue that ``wanted`` describes, made if it does not exist, stored when this
        returns. Raises RabbitMQ's errors for one that differs or is invalid."""
        wanted = wanted.named(self.new_name)
        name = wanted.name
        queue = await self._find(name)
        if queue is None:
            wanted.check(queue_in_words(name, self.vhost))
            self._check_count(wanted.name)
            return await self._make(wanted, name)
        queue.check_equivalent(wanted)
        self._router.traffic.queues_declared += 1
        queue.used()
        if queue.adopted:
            wanted.check(queue_in_words(name, self.vhost))
            if queue_type(wanted.arguments) is QueueType.STREAM:
                # The retention of its log was set by the maker of the topic.
                raise inequivalent(QUEUE_TYPE, str(queue), "'stream'", "none")
            if queue.durable:
                record = QueueRecord(self.vhost, name, wanted.auto_delete, wanted.arguments)
                await self._core.committed(Unit(metadata=[(record.key, record.encode())]))
            queue.redeclare(wanted)
            queue.traffic.whole = self._router.traffic.of_type(queue.type.value)
            await self.apply_policies([queue])
        await self._keep_history(queue)
        return queue

    async def make_reply_queue(self, name: str) -> None:
        """Make the queue for direct replies to one channel; it goes with its consumer."""
        settings = TopicSettings(durable=False, properties=OF_ONE_CONNECTION)
        topic = await self._core.create_topic(topic_of(self.namespace, name), settings)
        await self._enter(Queue(name, self.vhost, topic, auto_delete=True))

    def check_reply_queue(self, name: str) -> None:
        """Raise 404 unless it is the pseudo-queue, or a channel consumes from it."""
        if is_reply_queue(name) and name not in self._queues:
            raise not_found(f"no {queue_in_words(name, self.vhost)}")

    async def delete_by_name(
        self, name: str, owner: ConnectionId, *, if_unused: bool, if_empty: bool
    ) -> int:
        """Carry out ``queue.delete``; return the number of ready messages, 0 without a queue."""
        queue = None if is_reply_queue(name) else await self._find(name)
        if queue is None:
            return 0
        queue.check_access(owner)
        queue.check_conditions(if_unused=if_unused, if_empty=if_empty)
        # RabbitMQ deletes a stream whatever the conditions.
        if_empty = if_empty and queue.type is not QueueType.STREAM

        def may_go(topic: Topic) -> bool:
            if if_empty and (queue.message_count or topic.has_incoming):
                raise precondition_failed(f"{queue} not empty")
            if if_unused and queue.consumer_count:
                raise precondition_failed(f"{queue} in use")
            return True

        may_go(queue.topic)
        return await self.delete(queue, only_if=may_go)

    async def delete(self, queue: Queue, *, only_if: Callable[[Topic], bool] | None = None) -> int:
        """Remove it with its messages and bindings; return how many messages were ready. Raises as
        :meth:`.Core.delete_topic` if ``only_if`` does not hold."""
        count = 0 if queue.type is QueueType.STREAM else queue.message_count
        async with self._leaving(queue) as unit:
            if self.foreign_topic(queue.name) is queue.topic:
                await self._core.delete_topic(
                    queue.topic.name, unit=unit, only_if=only_if, as_owner=True
                )
            else:  # it is gone; a topic of that name is somebody else's
                await self._core.committed(unit)
        return count

    @asynccontextmanager
    async def going_with(self, topic: str, unit: Unit) -> AsyncIterator[None]:
        """Remove the queue of a topic that the block deletes with ``unit``, in the same commit, as
        if it were deleted here."""
        name = queue_of(self.namespace, topic) or ""
        queue = self._queues.get(name)
        if queue is None or queue.topic.name != topic:
            yield
        else:
            async with self._leaving(queue) as with_queue:
                unit.metadata += with_queue.metadata
                yield
            logger.warning("%s is gone: its topic was deleted, and not over AMQP", queue)
        if len(self._lost_lately) >= LOST_MAX:
            del self._lost_lately[next(iter(self._lost_lately))]
        self._lost_lately[name] = None

    def _put_in(self, queue: Queue) -> None:
        self._queues[queue.name] = queue
        self.changes += 1
        queue.traffic.whole = self._router.traffic.of_type(queue.type.value)
        if queue.owner is not None:
            self._exclusive[queue.owner][queue.name] = queue

    def _take_out(self, queue: Queue) -> None:
        self._queues.pop(queue.name, None)
        self.changes += 1
        if queue.owner is not None and queue.owner in self._exclusive:
            own = self._exclusive[queue.owner]
            own.pop(queue.name, None)
            if not own:
                del self._exclusive[queue.owner]

    @asynccontextmanager
    async def _leaving(self, queue: Queue) -> AsyncIterator[Unit]:
        """Remove the queue once the block's commit is durable."""
        async with self._removal(queue.name) as unit:
            unit.metadata.append((queue.record.key, None))
            departed = queue.departed  # its subscription cannot tell afterwards
            yield unit
            self._take_out(queue)
            queue.count_out(self._router.traffic, departed)
            self._enforcing.forget(queue)
        self._events.queue_deleted(self.vhost, queue.name)

    def _removal(self, name: str) -> AbstractAsyncContextManager[Unit]:
        plan, steps = queue_removal(self._router, name), self._router.removing_queue(name)
        return removal(self.vhost, plan, steps, self._events, with_queue=True)

    async def delete_exclusive(self, owner: ConnectionId) -> None:
        """Delete the exclusive queues of a connection that is gone."""
        for queue in list(self._exclusive.get(owner, {}).values()):
            await self.delete(queue)

    async def restore(self, record: QueueRecord) -> None:
        """Restore a queue declared before the broker started. Its options apply from :meth:`begin`
        on, because its dead letters must find every binding."""
        topic = self.foreign_topic(record.name)
        if topic is None:
            self._lost[record.name] = None
            self._router.add_queue(record.name)
            return
        queue = Queue(record.name, self.vhost, topic, record.auto_delete, record.arguments)
        queue.ttl = as_held(record.ttl, queue.options.message_ttl_ms)
        await self._enter(queue, begin=False)

    async def restore_destination(self, name: str) -> None:
        """Restore the queue to which a stored binding leads."""
        if name not in self._lost and await self._find(name) is None:
            self._lost[name] = None
            self._router.add_queue(name)

    async def begin(self) -> None:
        """Start all queues once everything declared is loaded. Queues without a topic are deleted
        with their bindings: versions before this one could leave some."""
        lost, self._lost = self._lost, {}
        for name in lost:
            logger.warning(
                "the topic of queue %r does not exist any more; deleting the queue", name
            )
            async with self._removal(name) as unit:
                unit.metadata.append((QueueRecord(self.vhost, name).key, None))
                await self._core.committed(unit)
        await self.apply_policies(self)
        for queue in self:
            queue.used()
            try:
                await self._keep_history(queue)
            except CommitFailed as error:
                logger.warning("%s continues without recording its history: %s", queue, error)

    async def _find(self, name: str) -> Queue | None:
        queue = self._queues.get(name)
        topic = self.foreign_topic(name)
        if queue is not None and queue.topic is topic:
            if not queue.is_complete:
                await self._enter(queue)
            return queue
        if queue is not None:
            await self.delete(queue)
        if topic is None or not name:
            return None
        applied = self._policy_of(name, QueueType.CLASSIC)
        queue = Queue(name, self.vhost, topic, adopted=True, applied=applied)
        await self._enter(queue)
        return queue

    async def _make(self, wanted: Declaration, name: str) -> Queue:
        durable, policies = wanted.durable, self.policies
        declared = QueueOptions.parse(wanted.arguments)
        applied = self._policy_of(name, declared.type)
        options = effective_options(wanted.arguments, applied.definition)
        ttl = as_stored(options.message_ttl_ms, declared.message_ttl_ms)
        record = QueueRecord(self.vhost, name, wanted.auto_delete, wanted.arguments, ttl)
        unit = Unit(metadata=[(record.key, record.encode())]) if durable else None
        is_stream = options.type is QueueType.STREAM
        settings = options.topic_settings(durable=durable, exclusive=wanted.exclusive)
        topic = await self._core.create_topic(
            topic_of(self.namespace, name),
            settings,
            unit=unit,
            subscriptions=() if is_stream else (SUBSCRIPTION,),
        )
        owner = wanted.owner if wanted.exclusive else None
        queue = Queue(
            name, self.vhost, topic, wanted.auto_delete, wanted.arguments, owner, applied=applied
        )
        await self._enter(queue)
        self._router.traffic.queues_declared += 1
        self._router.traffic.queues_created += 1
        queue.announce(self._events)
        if self.policies is not policies:  # replaced meanwhile
            await self.apply_policies([queue])
        await self._keep_history(queue)
        return queue

    async def _keep_history(self, queue: Queue) -> None:
        if queue.options.has_history:
            await self._core.keep_history(queue.topic, SUBSCRIPTION)

    async def _enter(self, queue: Queue, *, begin: bool = True) -> None:
        if not queue.is_complete:
            await queue.topic.subscribe(SUBSCRIPTION, initial=InitialPosition.EARLIEST)
        self._put_in(queue)
        self._lost_lately.pop(queue.name, None)
        if begin:
            queue.used()
            self._enforcing.enforce(queue, is_new=True)
        self._router.add_queue(queue.name)

    async def apply_policies(self, queues: Iterable[Queue]) -> None:
        """Apply the current policies to these queues."""
        at_ms, unit, streams = wall_clock_ms() + 1, Unit(), []
        for queue in queues:
            if not self.has(queue):
                continue
            before = queue.options
            if queue.hold(self._policy_of(queue.name, queue.type), at_ms):
                record = queue.record
                unit.metadata.append((record.key, record.encode()))
            if queue.type is QueueType.STREAM and queue.options != before:
                streams.append(queue)
            self._enforcing.enforce(queue)
        try:
            for queue in streams:
                await keep(queue)
            if unit.metadata:
                await self._core.committed(unit)
        except CommitFailed as error:
            logger.warning("policies are applied, but not all will outlive a restart: %s", error)

    def _policy_of(self, name: str, kind: QueueType) -> Applied:
        return NO_POLICY if is_reply_queue(name) else self.policies.for_queue(name, kind)
