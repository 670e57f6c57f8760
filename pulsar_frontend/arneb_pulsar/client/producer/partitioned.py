"""A producer of a topic with partitions: one producer for each, and a router between them.

The rule: messages of one key go to one partition for as long as their number stays; partitions that
are added get messages once they are known.
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
        """The complete name of its topic, without a partition."""
        return str(self._topic)

    @property
    def name(self) -> str:
        """That of its first partition's producer."""
        return self._producers[0].name

    @property
    def partitions(self) -> Sequence[Producer[T]]:
        """The producers of the partitions."""
        return self._producers

    @property
    def is_connected(self) -> bool:
        """All of them are attached to a broker now."""
        return all(each.is_connected for each in self._producers)

    @property
    def is_closed(self) -> bool:
        """It can be used no more."""
        return self._failure is not None

    async def send(self, value: T | None, **keywords: Unpack[Keywords]) -> MessageId:
        """See :meth:`Producer.send`."""
        return await self.chosen(keywords).send(value, **keywords)

    def send_nowait(self, value: T | None, **keywords: Unpack[Keywords]) -> OutgoingMessage:
        """See :meth:`Producer.send_nowait`."""
        return self.chosen(keywords).send_nowait(value, **keywords)

    async def wait_for_room(self) -> None:
        """Until all partitions have room."""
        for each in self._producers:
            await each.wait_for_room()

    async def send_batch(self, values: "Sequence[T | OutgoingMessage]") -> list[MessageId]:
        """All to one partition, that of the first; see :meth:`Producer.send_batch`."""
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
        """Of all partitions together; latencies are those of the slowest."""
        return together(ProducerStatistics, [each.statistics() for each in self._producers])

    async def grow(self, partitions: int) -> None:
        """Produce to so many partitions. Raises :class:`PulsarError`; what was made stays."""
        for index in range(len(self._producers), partitions):
            self._producers.append(await self._make(self._topic.part(index)))

    async def watch(self, poll_s: float) -> None:
        """Ask now and then whether there are more partitions, until it is closed."""
        with self._scope:
            while True:
                await anyio.sleep(poll_s)
                try:
                    partitions = await self._context.lookup.partitions(self._topic)
                    await self.grow(partitions)
                except PulsarError:
                    continue  # asked again the next time

    def chosen(self, keywords: Keywords) -> Producer[T]:
        """The producer of the partition that its router chooses; asking counts as a message."""
        if self._failure is not None:
            raise self._failure
        key = keywords.get("key")
        text = b64encode(key).decode() if isinstance(key, bytes) else key
        now = self._context.clock.now()
        return self._producers[self._router.choose(text, len(self._producers), now)]
