"""The client: makes producers, consumers and objects based on them, and closes them all.

The rule: invalid arguments are refused before any request to a broker.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, overload

import anyio

from arneb_pulsar.client.assembly import ConsumerParts, ProducerParts, make_consumer, make_producer
from arneb_pulsar.client.attachment import patiently
from arneb_pulsar.client.codec.compression import Compression
from arneb_pulsar.client.codec.encryption import KeyReader
from arneb_pulsar.client.codec.schemas.schema import BytesSchema, Schema
from arneb_pulsar.client.connection.dialling import ServiceUrl
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.consumer.dead_letters import named_letters
from arneb_pulsar.client.consumer.multi_topic import MultiTopicConsumer
from arneb_pulsar.client.consumer.options import ConsumerOptions, InitialPosition, SubscriptionType
from arneb_pulsar.client.consumer.pattern import PatternConsumer, split_pattern
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import (
    ClientClosed,
    ConfigurationError,
    InvalidTopic,
)
from arneb_pulsar.client.ids import EARLIEST, LATEST, MessageId
from arneb_pulsar.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from arneb_pulsar.client.producer.building import Builder
from arneb_pulsar.client.producer.options import ProducerOptions
from arneb_pulsar.client.producer.partitioned import PartitionedProducer
from arneb_pulsar.client.producer.producer import Producer
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.reader import SUBSCRIPTION_PREFIX, Reader
from arneb_pulsar.client.table_view import TableView
from arneb_pulsar.client.tasks.closing import Closing
from arneb_pulsar.client.tasks.statistics_log import Measured
from arneb_pulsar.client.trackers.routing import RoundRobin, Router
from arneb_pulsar.client.transactions import TIMEOUT_S as TRANSACTION_TIMEOUT_S
from arneb_pulsar.client.transactions import Coordinators, Transaction, begin
from arneb_pulsar.names import InvalidTopicName, TopicName, parse_topic

T = TypeVar("T")

POLL_S: Final = 60.0
"""Seconds between checks for new partitions of a topic, as in the official clients."""

ANY_TOPIC: Final = parse_topic("persistent://public/default/ping")
"""A topic to look up when an HTTP service must name one of its brokers; it is not created."""

MADE_MIN: Final = 64
"""The least number of producers and consumers at which closed ones are forgotten."""

BYTES: Final = BytesSchema()


@dataclass(frozen=True, slots=True)
class Pong:
    """A broker's answer to a ping: its address, its version, and the round trip in seconds."""

    broker: str
    version: str
    seconds: float


M = TypeVar("M", bound=Closing)


class Client:
    """Makes producers, consumers and the rest. Made by :func:`connect`."""

    def __init__(self, context: ClientContext, service: ServiceUrl) -> None:
        self._context = context
        self._service = service
        self._made: set[Closing] = set()
        self._made_max = MADE_MIN
        self._coordinators: Coordinators | None = None
        self._closed = False

    @property
    def context(self) -> ClientContext:
        """What all its producers and consumers share, for programs with state machines of their
        own."""
        return self._context

    def __repr__(self) -> str:
        return f"<Client of {self._service}, {len(self._made)} made, {self._context.pool!r}>"

    @overload
    async def create_producer(
        self, topic: str, options: ProducerOptions | None = None, *,
        compression: Compression = Compression.NONE, router: Router | None = None,
        encryption_keys: Sequence[str] = (), key_reader: KeyReader | None = None,
        interceptors: Sequence[ProducerInterceptor] = (), partition_poll_s: float = POLL_S,
    ) -> Producing[bytes]: ...  # fmt: skip
    @overload
    async def create_producer(
        self, topic: str, options: ProducerOptions | None = None, *, schema: Schema[T],
        compression: Compression = Compression.NONE, router: Router | None = None,
        encryption_keys: Sequence[str] = (), key_reader: KeyReader | None = None,
        interceptors: Sequence[ProducerInterceptor] = (), partition_poll_s: float = POLL_S,
    ) -> Producing[T]: ...  # fmt: skip
    async def create_producer(
        self,
        topic: str,
        options: ProducerOptions | None = None,
        *,
        schema: Schema[Any] = BYTES,
        compression: Compression = Compression.NONE,
        router: Router | None = None,
        encryption_keys: Sequence[str] = (),
        key_reader: KeyReader | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        partition_poll_s: float = POLL_S,
    ) -> Producing[Any]:
        """Create a producer for a topic, or for all its partitions, among which ``router`` chooses.

        Raises :class:`PulsarError`: the broker's error at once if another attempt would not help,
        and otherwise after the operation timeout. If cancelled, no producer stays behind."""
        name = self._name(topic)
        options = options or ProducerOptions()
        builder = Builder(schema, interceptors)
        parts = ProducerParts(options, builder, compression, encryption_keys, key_reader)

        async def make(one: TopicName) -> Producer[Any]:
            producer = make_producer(self._context, one, parts)
            await producer.start()
            return producer

        partitions = await self._partitions(name)
        if not partitions:
            return self._keep(await make(name))
        delay_s = options.batching.delay_s if options.batching else 0.0
        chosen = router or RoundRobin(self._context.random.randrange(partitions), delay_s)
        found = PartitionedProducer(self._context, name, chosen, make)
        async with self._closed_unless_made(found):
            await found.grow(partitions)
        self._context.tasks.start_soon(found.watch, partition_poll_s)
        return self._keep(found)

    @overload
    async def subscribe(
        self, topics: str | Sequence[str], subscription: str,
        options: ConsumerOptions | None = None, *, key_reader: KeyReader | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> Consuming[bytes]: ...  # fmt: skip
    @overload
    async def subscribe(
        self, topics: str | Sequence[str], subscription: str,
        options: ConsumerOptions | None = None, *, schema: Schema[T],
        key_reader: KeyReader | None = None, interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> Consuming[T]: ...  # fmt: skip
    async def subscribe(
        self,
        topics: str | Sequence[str],
        subscription: str,
        options: ConsumerOptions | None = None,
        *,
        schema: Schema[Any] = BYTES,
        key_reader: KeyReader | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> Consuming[Any]:
        """Subscribe to a topic with all its partitions, or to several topics. Raises, and can be
        cancelled, as :meth:`create_producer`."""
        names = [self._name(each) for each in ([topics] if isinstance(topics, str) else topics)]
        if not names:
            raise ConfigurationError("expected a topic to subscribe to, got none")
        options = options or ConsumerOptions()
        if options.durable and options.start_rollback_s:
            raise ConfigurationError("expected a reader to begin some time ago, got a subscription")
        wanted = named_letters(names[0], subscription, options)
        if wanted.retry and wanted.dead_letters is not None:
            names.append(self._name(wanted.dead_letters.retry_topic))
        make = self._consumers(subscription, wanted, schema, key_reader, interceptors)
        create = wanted.create_topic
        counts = {each: await self._partitions(each, create=create) for each in names}
        if len(names) == 1 and not counts[names[0]]:
            return self._keep(await make(names[0]))
        if wanted.queue_size == 0:
            raise ConfigurationError("expected one topic without partitions for an empty queue")
        found: MultiTopicConsumer[Any] = MultiTopicConsumer(self._context, subscription, make)

        async def look() -> None:
            for each in names:
                await found.add_partitions(each, await self._partitions(each))

        async with self._closed_unless_made(found):
            for each, partitions in counts.items():
                await found.add_partitions(each, partitions)
        self._context.tasks.start_soon(found.watch, wanted.partition_poll_s, look)
        return self._keep(found)

    @overload
    async def subscribe_pattern(
        self, pattern: str, subscription: str, options: ConsumerOptions | None = None, *,
        domain: str = "persistent", key_reader: KeyReader | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> Consuming[bytes]: ...  # fmt: skip
    @overload
    async def subscribe_pattern(
        self, pattern: str, subscription: str, options: ConsumerOptions | None = None, *,
        schema: Schema[T], domain: str = "persistent", key_reader: KeyReader | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> Consuming[T]: ...  # fmt: skip
    async def subscribe_pattern(
        self,
        pattern: str,
        subscription: str,
        options: ConsumerOptions | None = None,
        *,
        schema: Schema[Any] = BYTES,
        domain: str = "persistent",
        key_reader: KeyReader | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> Consuming[Any]:
        """Subscribe to all topics of a namespace, later ones included, whose names match
        ``tenant/namespace/<regular expression>`` (RE2). An empty ``domain`` means persistent and
        non-persistent topics. Raises as :meth:`create_producer`."""
        self._check_open()
        # Reattaching must not recreate a deleted topic.
        wanted = replace(options or ConsumerOptions(), create_topic=False)
        namespace, text = split_pattern(pattern)
        make = self._consumers(subscription, wanted, schema, key_reader, interceptors)
        found: PatternConsumer[Any] = PatternConsumer(
            self._context, subscription, make, namespace, domain, text
        )
        async with self._closed_unless_made(found):
            await patiently(self._context, found.refresh)
        self._context.tasks.start_soon(found.follow, wanted.partition_poll_s)
        return self._keep(found)

    @overload
    async def create_reader(
        self, topic: str, start: MessageId, options: ConsumerOptions | None = None, *,
        key_reader: KeyReader | None = None,
    ) -> Reader[bytes]: ...  # fmt: skip
    @overload
    async def create_reader(
        self, topic: str, start: MessageId, options: ConsumerOptions | None = None, *,
        schema: Schema[T], key_reader: KeyReader | None = None,
    ) -> Reader[T]: ...  # fmt: skip
    async def create_reader(
        self,
        topic: str,
        start: MessageId,
        options: ConsumerOptions | None = None,
        *,
        schema: Schema[Any] = BYTES,
        key_reader: KeyReader | None = None,
    ) -> Reader[Any]:
        """Create a reader that begins after ``start``, or at it with ``start_inclusive``;
        ``EARLIEST`` and ``LATEST`` are the ends. Raises as :meth:`create_producer`."""
        options = options or ConsumerOptions()
        if options.start_rollback_s and start not in (EARLIEST, LATEST):
            raise ConfigurationError(f"expected one place to begin at, got {start} and a time")
        wanted = replace(
            options,
            type=SubscriptionType.EXCLUSIVE,
            durable=False,
            start=start,
            # Apache Pulsar reads from the other end otherwise, whatever ``start`` says.
            initial_position=InitialPosition.LATEST,
        )
        number = self._context.random.getrandbits(40)
        subscription = f"{SUBSCRIPTION_PREFIX}{number:010x}"
        consumer = await self.subscribe(
            topic, subscription, wanted, schema=schema, key_reader=key_reader
        )
        return Reader(str(self._name(topic)), consumer)

    async def create_table_view(
        self, topic: str, *, schema: Schema[Any] = BYTES, key_reader: KeyReader | None = None
    ) -> TableView[Any]:
        """Create a view of the last value of each key of a topic, and wait until it is complete.
        Raises as :meth:`create_producer`."""
        options = ConsumerOptions(read_compacted=self._name(topic).is_persistent)
        reader = await self.create_reader(
            topic, EARLIEST, options, schema=schema, key_reader=key_reader
        )
        view: TableView[Any] = TableView(reader)
        self._context.tasks.start_soon(view.follow)
        async with self._closed_unless_made(view):
            await view.refresh()
        return view

    async def begin_transaction(self, timeout_s: float = TRANSACTION_TIMEOUT_S) -> Transaction:
        """Begin a transaction, which its coordinator aborts after ``timeout_s``. Raises
        :class:`TransactionCoordinatorNotFound` if the service has none."""
        self._check_open()
        if self._coordinators is None:
            self._coordinators = Coordinators(self._context)
        return await begin(self._coordinators, timeout_s)

    async def partitions_of(self, topic: str) -> Sequence[str]:
        """Return the names of a topic's partitions, or its own if it has none. Raises
        :class:`PulsarError`."""
        name = self._name(topic)
        count = await self._partitions(name)
        return [str(name.part(index)) for index in range(count)] or [str(name)]

    async def ping(self) -> Pong:
        """Ping a broker of the service. Raises :class:`ConnectError`, :class:`TimedOut`."""
        if self._service.by_http:
            broker = await self._context.lookup.broker_of(ANY_TOPIC)
            connection = await self._context.pool.to(broker.address, broker.through)
        else:
            connection = await self._context.pool.any()
        began = self._context.clock.now()
        await connection.ping(self._context.operation_timeout_s)
        seconds = self._context.clock.now() - began
        connected = connection.machine.connected
        version = connected.server_version if connected is not None else ""
        return Pong(connection.machine.where, version, seconds)

    async def close(self) -> None:
        """Close everything that the client made, as does leaving its ``async with``."""
        self._closed = True
        async with anyio.create_task_group() as tasks:
            for each in self._made:
                tasks.start_soon(each.close)

    def measured(self) -> list[Measured]:
        """Return the open producers, consumers and readers."""
        kinds = (Producing, Consuming, Reader)
        return [each for each in self._made if isinstance(each, kinds) and not each.is_closed]

    # Helpers

    def _consumers(
        self,
        subscription: str,
        options: ConsumerOptions,
        schema: Schema[Any],
        key_reader: KeyReader | None,
        interceptors: Sequence[ConsumerInterceptor],
    ) -> Callable[[TopicName], Awaitable[Consumer[Any]]]:
        """Return the function that makes the consumer of each topic of one subscription."""
        if not subscription:
            raise ConfigurationError("expected the name of a subscription, got none")
        parts = ConsumerParts(
            subscription, options, schema, interceptors, key_reader, self._letter_producer
        )

        async def make(topic: TopicName) -> Consumer[Any]:
            consumer = make_consumer(self._context, topic, parts)
            await consumer.start()
            return consumer

        return make

    async def _letter_producer(self, topic: str, subscription: str) -> Producing[bytes]:
        # As in the official clients: dead letters are not batched, and may be large.
        options = ProducerOptions(batching=None, chunking=True, initial_subscription=subscription)
        return await self.create_producer(topic, options)

    async def _partitions(self, topic: TopicName, *, create: bool = True) -> int:
        if topic.partition >= 0:
            return 0
        ask = partial(self._context.lookup.partitions, topic, create=create)
        return await patiently(self._context, ask)

    def _keep(self, made: M) -> M:
        if len(self._made) >= self._made_max:
            self._made = {each for each in self._made if not each.is_closed}
            self._made_max = max(MADE_MIN, 2 * len(self._made))
        self._made.add(made)
        return made

    @asynccontextmanager
    async def _closed_unless_made(self, part: Closing) -> AsyncIterator[None]:
        """Close ``part`` if the block fails; if the block is cancelled, in a task, so that nobody
        waits."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            self._context.tasks.start_soon(part.close)
            raise
        except BaseException:
            await part.close()
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed(f"the client of {self._service} was closed")

    def _name(self, topic: str) -> TopicName:
        self._check_open()
        if not isinstance(topic, str):
            raise InvalidTopic(f"expected the name of a topic, got {type(topic).__name__}")
        try:
            return parse_topic(topic)
        except InvalidTopicName as error:
            raise InvalidTopic(str(error)) from error
