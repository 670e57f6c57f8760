"""What players do with the raw clients: wait for what arrives, and publish in a window."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from conformance.wire.amqp import AmqpClient, Delivery
from conformance.wire.pulsar import Entry, PulsarClient
from pamqp import commands
from tests.crash.history import AckBook
from tests.crash.players.bodies import number_of

T = TypeVar("T")


class Inbox(Generic[T]):
    """What has arrived, and a way to wait for more."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self.is_over = False
        self._taken = 0
        self._news = asyncio.Event()

    def put(self, item: T) -> None:
        self.items.append(item)
        self._news.set()

    def end(self) -> None:
        """Nothing more will arrive."""
        self.is_over = True
        self._news.set()

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait until ``enough()`` is true. Raises :class:`ConnectionError` if nothing more will
        arrive."""
        while not enough():
            if self.is_over:
                raise ConnectionError("the stream ended while more was expected")
            self._news.clear()
            await self._news.wait()

    async def run(self) -> list[T]:
        """Wait for new items, and return them; the list is empty if nothing more will arrive."""
        with suppress(ConnectionError):
            await self.until(lambda: len(self.items) > self._taken)
        first, self._taken = self._taken, len(self.items)
        return self.items[first:]


async def pause(seconds: float = 0) -> None:
    """Let the broker, and the other clients of this event loop, continue."""
    await asyncio.sleep(seconds)


async def consume(
    client: AmqpClient,
    queue: str,
    *,
    prefetch: int = 0,
    no_ack: bool = False,
    arguments: dict[str, Any] | None = None,
) -> Inbox[Delivery]:
    """Start a consumer on a queue."""
    inbox: Inbox[Delivery] = Inbox()
    client.handlers.delivered = inbox.put
    client.handlers.ended = inbox.end
    await client.call(commands.Basic.Qos(prefetch_count=prefetch), commands.Basic.QosOk)
    method = commands.Basic.Consume(queue=queue, no_ack=no_ack, arguments=arguments or {})
    await client.call(method, commands.Basic.ConsumeOk)
    return inbox


async def answer_some(
    client: AmqpClient, run: list[Delivery], acks: AckBook, dice: random.Random
) -> None:
    """Acknowledge most of ``run``, requeue the rest, and note which acks the broker has read."""
    chosen = [each for each in run if dice.random() < 0.8]
    numbers = [number_of(each.body) for each in chosen]
    acks.send(numbers)
    for delivery in run:
        if delivery in chosen:
            client.acknowledge(delivery.tag)
        else:
            client.requeue(delivery.tag)
    await client.round_trip()
    acks.reach(numbers, asyncio.get_running_loop().time())


async def ready(client: AmqpClient, queue: str) -> int:
    """The number of ready messages in a queue."""
    answer = await client.declare_queue(queue, passive=True)
    return int(answer.message_count or 0)


async def drained(client: AmqpClient, queue: str) -> list[Delivery]:
    """All ready messages of a queue, delivered and not acknowledged."""
    count = await ready(client, queue)
    inbox = await consume(client, queue)
    await inbox.until(lambda: len(inbox.items) >= count)
    await client.round_trip()  # deliveries beyond the count would have arrived by now
    return inbox.items


def inbox_of(client: PulsarClient) -> Inbox[Entry]:
    """Collect a client's entries from now on; call it before subscribing."""
    inbox: Inbox[Entry] = Inbox()
    client.received = lambda _, entry: inbox.put(entry)
    client.ended = inbox.end
    return inbox


class Publisher:
    """An AMQP publisher of numbered messages, with a window of unconfirmed ones."""

    def __init__(
        self, client: AmqpClient, window: int, answered: Callable[[int, bool], None]
    ) -> None:
        self.client = client
        self._room = asyncio.Semaphore(window)
        self._window = window
        self._numbers: dict[int, int] = {}
        self._told = answered

    @classmethod
    async def begin(
        cls, client: AmqpClient, window: int, answered: Callable[[int, bool], None]
    ) -> "Publisher":
        """``told`` is called with a message's number and whether it was confirmed (True) or
        refused."""
        publisher = cls(client, window, answered)
        await client.confirm_select()
        client.handlers.confirmed = publisher._confirmed
        client.handlers.ended = publisher._room.release
        return publisher

    async def publish(
        self,
        number: int,
        exchange: str,
        key: str,
        body: bytes,
        properties: commands.Basic.Properties | None = None,
        *,
        mandatory: bool = False,
    ) -> None:
        """Publish as soon as there is room in the window."""
        await self._room.acquire()
        if self.client.closed is not None:
            raise self.client.closed
        self._numbers[self.client.published + 1] = number
        self.client.publish(exchange, key, body, properties, mandatory=mandatory)
        await self.client.drain()

    async def take_over(self) -> None:
        """Wait until everything is confirmed."""
        for _ in range(self._window):
            await self._room.acquire()
        for _ in range(self._window):
            self._room.release()

    def _confirmed(self, tags: list[int], acked: bool) -> None:
        for tag in tags:
            self._told(self._numbers.pop(tag), acked)
            self._room.release()
