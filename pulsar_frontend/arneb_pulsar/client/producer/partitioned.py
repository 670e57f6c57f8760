"""A producer for a partitioned topic: one producer for each partition, and a router to choose.

The rule: messages with the same key go to the same partition while the number of partitions stays;
added partitions get messages once they are known.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, Unpack

import anyio

from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import ClientClosed, PulsarError
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.building import Keywords
from arneb_pulsar.client.producer.producer import Producer
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.statistics import ProducerStatistics, together
from arneb_pulsar.client.trackers.routing import Router
from arneb_pulsar.names import TopicName

T = TypeVar("T")

Make = Callable[[TopicName], Awaitable[Producer[T]]]
"""Makes the producer of a partition."""


class PartitionedProducer(Producing[T]):
    """Produces to all partitions of one topic. Made by ``Client.create_producer``."""

    def __init__(
        self, context: ClientContext, topic: TopicName, router: Router, make: "Make[T]"
    ) -> None:
        self._context = context
        self._topic = topic
        self._router = router
        self._make = make
        self._producers: list[Producer[T]] = []
        self._failure: PulsarError | None = None
        self._scope = anyio.CancelScope()

    def __repr__(self) -> str:
        return f"<PartitionedProducer of {self._topic}, {len(self._producers)} partitions>"

    @property
    def topic(self) -> str:
        """The topic's complete name, without a partition."""
        return str(self._topic)

    @property
    def name(self) -> str:
        """The name of the first partition's producer."""
        return self._producers[0].name

    @property
    def partitions(self) -> Sequence[Producer[T]]:
        """The producers of the partitions."""
        return self._producers

    @property
    def is_connected(self) -> bool:
        """Whether all partitions' producers are attached to their brokers."""
        return all(each.is_connected for each in self._producers)

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._failure is not None

    async def send(self, value: T | None, **keywords: Unpack[Keywords]) -> MessageId:
        """See :meth:`Producer.send`."""
        return await self.chosen(keywords).send(value, **keywords)

    def send_nowait(self, value: T | None, **keywords: Unpack[Keywords]) -> OutgoingMessage:
        """See :meth:`Producer.send_nowait`."""
        return self.chosen(keywords).send_nowait(value, **keywords)

    async def wait_for_room(self) -> None:
        """Wait until each partition has had room."""
        for each in self._producers:
            await each.wait_for_room()

    async def send_batch(self, values: "Sequence[T | OutgoingMessage]") -> list[MessageId]:
        """Send all messages to the partition of the first; see :meth:`Producer.send_batch`."""
        keywords: Keywords = {}
        if values and isinstance(values[0], OutgoingMessage):
            keywords["key"] = values[0].key
        return await self.chosen(keywords).send_batch(values)

    async def flush(self) -> None:
        """See :meth:`Producer.flush`."""
        for each in self._producers:
            each.close_batches()
        for each in self._producers:
            await each.flush()

    async def close(self) -> None:
        """See :meth:`Producer.close`."""
        if self._failure is None:
            self._failure = ClientClosed(f"the producer of {self._topic} was closed")
        self._scope.cancel()
        async with anyio.create_task_group() as tasks:
            for each in self._producers:
                tasks.start_soon(each.close)

    def statistics(self) -> ProducerStatistics:
        """Return the counts of all partitions together; latencies are the slowest partition's."""
        return together(ProducerStatistics, [each.statistics() for each in self._producers])

    async def grow(self, partitions: int) -> None:
        """Produce to ``partitions`` partitions. Raises :class:`PulsarError`; producers made before
        the error stay."""
        for index in range(len(self._producers), partitions):
            self._producers.append(await self._make(self._topic.part(index)))

    async def watch(self, poll_s: float) -> None:
        """Look for more partitions every ``poll_s`` until the producer is closed."""
        with self._scope:
            while True:
                await anyio.sleep(poll_s)
                try:
                    partitions = await self._context.lookup.partitions(self._topic)
                    await self.grow(partitions)
                except PulsarError:
                    continue  # tried again at the next poll

    def chosen(self, keywords: Keywords) -> Producer[T]:
        """Return the producer of the partition that the router chooses; a round-robin router counts
        each call as a message."""
        if self._failure is not None:
            raise self._failure
        key = keywords.get("key")
        text = b64encode(key).decode() if isinstance(key, bytes) else key
        now = self._context.clock.now()
        return self._producers[self._router.choose(text, len(self._producers), now)]
