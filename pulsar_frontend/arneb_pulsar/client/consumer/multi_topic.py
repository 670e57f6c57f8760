"""A consumer of several topics, made of one consumer for each.

The rule: topics with messages take turns, and each keeps its own order; an acknowledgement goes to
the topic of its message.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, TypeVar

import anyio

from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.consumer.consuming import Consuming, SeekTo
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import ClientClosed, ConfigurationError, PulsarError
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.producer.building import InTransaction
from arneb_pulsar.client.statistics import ConsumerStatistics, together
from arneb_pulsar.client.tasks.waiting import Bell
from arneb_pulsar.names import TopicName

T = TypeVar("T")

Make = Callable[[TopicName], Awaitable[Consumer[T]]]
"""Makes the consumer of a topic, or of a partition."""


class MultiTopicConsumer(Consuming[T]):
    """Consumes several topics, or the partitions of one. Made by ``Client.subscribe``."""

    quiet_ends: ClassVar[tuple[type[PulsarError], ...]] = (ClientClosed,)
    """Errors that end a topic's consumer without the application being told."""

    def __init__(self, context: ClientContext, subscription: str, make: "Make[T]") -> None:
        super().__init__()
        self._context = context
        self._subscription = subscription
        self._make = make
        self._consumers: dict[str, Consumer[T]] = {}
        self._ready: deque[Consumer[T]] = deque()
        self._listed: set[str] = set()
        """The topics of the consumers in ``_ready``."""
        self._arrived = Bell()
        self._failure: PulsarError | None = None
        self._paused = False
        self._scope = anyio.CancelScope()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._subscription!r} of {len(self._consumers)} topics>"

    @property
    def topics(self) -> Mapping[str, Consumer[T]]:
        """The consumers of the topics, by their complete names."""
        return self._consumers

    @property
    def subscription(self) -> str:
        """The subscription's name."""
        return self._subscription

    @property
    def is_connected(self) -> bool:
        """Whether all its consumers are attached to their brokers."""
        return all(each.is_connected for each in self._consumers.values())

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._failure is not None

    def _has_ended(self) -> bool:
        return self._failure is not None

    @property
    def waiting(self) -> int:
        """See :class:`Receiving`."""
        return sum(each.waiting for each in self._consumers.values())

    @property
    def capacity(self) -> int:
        """See :class:`Receiving`."""
        return max([each.capacity for each in self._consumers.values()], default=1)

    # Topics

    async def add(self, topic: TopicName) -> None:
        """Consume one more topic. Raises :class:`PulsarError`."""
        name = str(topic)
        if name in self._consumers or self._has_ended():
            return
        consumer = await self._make(topic)
        if self._has_ended():
            await consumer.close()
            return
        self._consumers[name] = consumer
        if self._paused:
            consumer.pause()
        consumer.on_arrival = lambda: self._note(consumer)
        self._note(consumer)

    async def add_partitions(self, topic: TopicName, partitions: int) -> None:
        """Consume all partitions of a topic, or the topic itself if it has none."""
        for each in [topic.part(index) for index in range(partitions)] or [topic]:
            await self.add(each)

    async def remove(self, topic: str) -> None:
        """Stop consuming a topic."""
        consumer = self._consumers.pop(topic, None)
        if consumer is not None:
            await consumer.close()

    def _note(self, consumer: Consumer[T]) -> None:
        """Note that ``consumer`` may have messages."""
        if consumer.topic not in self._listed:
            self._listed.add(consumer.topic)
            self._ready.append(consumer)
        self._arrived.ring()

    # Receiving

    def receive_nowait(self) -> Message[T] | None:
        """See :class:`Receiving`. Raises the error that ended a topic's consumer, once; the other
        topics continue."""
        if self._failure is not None:
            raise self._failure
        ready = self._ready
        while ready:
            consumer = ready[0]
            try:
                message = consumer.receive_nowait()
            except PulsarError as error:
                ready.popleft()
                self._listed.discard(consumer.topic)
                if self._consumers.get(consumer.topic) is not consumer:
                    continue  # it was removed
                del self._consumers[consumer.topic]
                if isinstance(error, self.quiet_ends):
                    continue
                raise
            if message is not None:
                ready.rotate(-1)
                return message
            ready.popleft()
            self._listed.discard(consumer.topic)
        return None

    async def wait(self) -> None:
        """See :class:`Receiving`."""
        if self._failure is not None:
            raise self._failure
        for each in self._consumers.values():
            each.note_waiting()
        await self._arrived.wait()

    def pause(self) -> None:
        """See :meth:`Consumer.pause`."""
        self._paused = True
        for each in self._consumers.values():
            each.pause()

    def resume(self) -> None:
        """See :meth:`Consumer.resume`."""
        self._paused = False
        for each in self._consumers.values():
            each.resume()

    # Acknowledging

    def acknowledge(self, which: "Message[T] | MessageId") -> None:
        """See :meth:`Consumer.acknowledge`."""
        self._of(which).acknowledge(which)

    def acknowledge_cumulative(self, which: "Message[T] | MessageId") -> None:
        """Within the message's topic; see :meth:`Consumer.acknowledge_cumulative`."""
        self._of(which).acknowledge_cumulative(which)

    async def acknowledge_stored(
        self, which: "Message[T] | MessageId", *, cumulative: bool = False
    ) -> None:
        """See :meth:`Consumer.acknowledge_stored`."""
        await self._of(which).acknowledge_stored(which, cumulative=cumulative)

    async def acknowledge_in(
        self,
        transaction: InTransaction,
        which: "Message[T] | MessageId",
        *,
        cumulative: bool = False,
    ) -> None:
        """See :meth:`Consumer.acknowledge_in`."""
        await self._of(which).acknowledge_in(transaction, which, cumulative=cumulative)

    def negative_acknowledge(self, which: "Message[T] | MessageId") -> None:
        """See :meth:`Consumer.negative_acknowledge`."""
        self._of(which).negative_acknowledge(which)

    def redeliver_unacknowledged(self) -> None:
        """Have all unacknowledged messages of all topics redelivered."""
        for each in self._consumers.values():
            each.redeliver_unacknowledged()

    async def reconsume_later(
        self, message: Message[T], delay_s: float, properties: dict[str, str] | None = None
    ) -> None:
        """See :meth:`Consumer.reconsume_later`."""
        await self._of(message).reconsume_later(message, delay_s, properties)

    # The subscription

    async def seek(self, where: SeekTo) -> None:
        """Seek in all topics, or only in the topic of a message id that names one. A function gives
        the place for each topic. See :meth:`Consumer.seek`."""
        if isinstance(where, MessageId) and where.topic:
            await self._of(where).seek(where)
            return
        await self._each(lambda each: each.seek(where))

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Remove the subscription from all topics, and close."""
        self._scope.cancel()
        await self._each(lambda each: each.unsubscribe(force=force))
        self._end(ClientClosed(f"the consumer {self._subscription!r} was unsubscribed"))

    async def last_message_ids(self) -> dict[str, MessageId]:
        """Return the last message id of each topic; see :meth:`Consumer.last_message_id`."""
        found: dict[str, MessageId] = {}

        async def ask(each: Consumer[T]) -> None:
            found[each.topic] = await each.last_message_id()

        await self._each(ask)
        return found

    async def has_message_available(self) -> bool:
        """Return whether any topic has a message; see :meth:`Consumer.has_message_available`."""
        for each in tuple(self._consumers.values()):
            if await each.has_message_available():
                return True
        return False

    async def close(self) -> None:
        """See :meth:`Consumer.close`."""
        self._scope.cancel()
        try:
            await self._each(lambda each: each.close())
        finally:
            self._end(ClientClosed(f"the consumer {self._subscription!r} was closed"))

    def statistics(self) -> ConsumerStatistics:
        """Return the counts of all topics together."""
        return together(
            ConsumerStatistics, [each.statistics() for each in self._consumers.values()]
        )

    async def watch(self, poll_s: float, look: Callable[[], Awaitable[None]]) -> None:
        """Call ``look`` every ``poll_s`` until the consumer is closed."""
        with self._scope:
            while True:
                await anyio.sleep(poll_s)
                try:
                    await look()
                except PulsarError:
                    continue  # tried again at the next poll

    async def _each(self, do: "Callable[[Consumer[T]], Awaitable[Any]]") -> None:
        """Call ``do`` for all consumers concurrently. Raises the first of their errors."""
        errors: list[PulsarError] = []

        async def guarded(consumer: Consumer[T]) -> None:
            try:
                await do(consumer)
            except PulsarError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            for each in tuple(self._consumers.values()):
                tasks.start_soon(guarded, each)
        if errors:
            raise errors[0]

    def _end(self, error: PulsarError) -> None:
        if self._failure is None:
            self._failure = error
        self._arrived.ring()

    def _of(self, which: "Message[T] | MessageId") -> Consumer[T]:
        """Return the consumer of the message's topic. Raises :class:`ConfigurationError` if there
        is none."""
        if self._failure is not None:
            raise self._failure
        found = self._consumers.get(which.topic)
        if found is None:
            raise ConfigurationError(
                f"expected a message of one of {len(self._consumers)} topics, got one of "
                f"{which.topic or 'none: an id without its topic'}"
            )
        return found
