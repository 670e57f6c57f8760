"""The clients of one life: they publish, consume and acknowledge until the broker is gone.

The rule: each records what it is about to do before it does it, and what it was told when it is
told, in the order of the frames. Nothing waits for the broker's death; it simply ends every loop.
"""

import asyncio
import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pulsar
from conformance.brokers.arneb import Arneb
from conformance.wire.amqp import AmqpClient, AmqpClosed, Delivery
from conformance.wire.pulsar import Entry, Place, PulsarClient, PulsarClosed
from pamqp import commands
from tests.crash.history import History, Identity, Item, Seen

SUBSCRIPTION: Final = "billing"
ANCHOR: Final = "anchor"
"""A subscription that never acks, so that nothing is trimmed and the whole log can be judged."""

BODY_BYTES_MAX: Final = 600
SHARED_BYTES: Final = (4_000, 9_000)
"""Sizes around the one from which a message for several queues is stored once."""

PULSAR_PENDING_MAX: Final = 200
PERMITS: Final = 500
PULSAR_CONSUMER_PART: Final = 0.6

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Names:
    """The topics of one generation."""

    generation: int

    @property
    def queue(self) -> str:
        return f"work-{self.generation}"

    @property
    def copy(self) -> str:
        return f"copy-{self.generation}"

    @property
    def exchange(self) -> str:
        return f"fan-{self.generation}"

    @property
    def topic(self) -> str:
        return topic_of(self.queue)

    @property
    def history(self) -> str:
        """The topic of the broker's history of the queue."""
        return f"{self.topic}-amqp-HISTORY"

    @property
    def copy_topic(self) -> str:
        return topic_of(self.copy)


def topic_of(queue: str) -> str:
    """The Pulsar name of an AMQP queue in vhost ``/``."""
    return f"persistent://public/default/{queue}"


def body_of(identity: Identity, size: int) -> bytes:
    """A body that contains its publisher and its number."""
    head = f"{identity[0]}:{identity[1]}:".encode()
    return head + b"." * (size - len(head))


def identity_of(body: bytes) -> Identity:
    """The identity that :func:`body_of` put into a body."""
    publisher, number, _ = body.split(b":", 2)
    return publisher.decode(), int(number)


def items_of(entry: Entry) -> list[Item]:
    """The messages of an entry that are still unacknowledged."""
    return [
        (entry.place.ledger, entry.place.entry, index)
        for index in range(entry.messages)
        if entry.unacked >> index & 1
    ]


def pulsar_client(broker: Arneb) -> pulsar.Client:
    """The official client, without log output about broken connections."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    return pulsar.Client(broker.pulsar_url, logger=logger, operation_timeout_seconds=10)


def drop(client: pulsar.Client) -> None:
    """Shut a client down without waiting: if its broker is dead, this sometimes takes ten seconds
    and has no effect any more."""
    threading.Thread(target=client.shutdown, daemon=True).start()


class Workload:
    """All clients of one life."""

    def __init__(
        self, broker: Arneb, names: Names, history: History, dice: random.Random, life: int
    ) -> None:
        self._broker = broker
        self._names = names
        self._history = history
        self._dice = dice
        self._life = life
        self._clients: list[AmqpClient | PulsarClient] = []
        self._wheel = pulsar_client(broker)
        self._stopping = threading.Event()

    async def start(self) -> list[asyncio.Task[None]]:
        """Connect all clients and start them."""
        names, life = self._names, self._life
        started = [
            await self._amqp_publisher(f"amqp{life}", "", names.queue),
            await self._amqp_publisher(f"amqq{life}", "", names.queue),
            await self._amqp_publisher(f"fan{life}", names.exchange, "any", SHARED_BYTES),
            await self._amqp_consumer(f"c{life}"),
            await self._amqp_consumer(f"d{life}"),
            *[await self._pulsar_producer(f"puls{life}x{n}", batched=n == 0) for n in range(2)],
        ]
        # Its receipts make the broker write every cursor immediately; without it, the timer must do
        # that.
        if self._dice.random() < PULSAR_CONSUMER_PART:
            started.append(await self._pulsar_consumer())
        return [asyncio.create_task(loop) for loop in started]

    async def end(self, tasks: list[asyncio.Task[None]]) -> None:
        """After the broker's death: let all clients read what is left, then clean up."""
        self._stopping.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 20)
        for client in self._clients:
            await client.abort()
        drop(self._wheel)

    async def _open(self) -> AmqpClient:
        client = await AmqpClient.open(self._broker.address)
        self._clients.append(client)
        return client

    async def _amqp_publisher(
        self, name: str, exchange: str, key: str, sizes: tuple[int, int] = (40, BODY_BYTES_MAX)
    ) -> Any:
        client = await self._open()
        await client.confirm_select()
        window = self._dice.choice([1, 10, 100, 400])
        room = asyncio.Semaphore(window)
        client.handlers.confirmed = self._confirms_of(name, room)
        client.handlers.ended = room.release
        size = self._dice.randrange(*sizes)

        async def publish() -> None:
            while client.closed is None:
                await room.acquire()
                number = client.published + 1
                self._history.published[name] = number
                client.publish(exchange, key, body_of((name, number), size))
                await client.drain()
                if number % 50 == 0:
                    await asyncio.sleep(0)  # give the other clients of this event loop a turn

        return _until_closed(publish())

    def _confirms_of(self, name: str, room: asyncio.Semaphore) -> Callable[[list[int], bool], None]:
        def confirmed(tags: list[int], acked: bool) -> None:
            for tag in tags:
                if acked:
                    self._history.confirmed[name, tag] = None
                else:
                    self._history.refused.append((name, tag))
                room.release()

        return confirmed

    async def _amqp_consumer(self, name: str) -> Any:
        client = await self._open()
        dice = random.Random(self._dice.random())
        arrived: asyncio.Queue[Delivery | None] = asyncio.Queue()

        def delivered(delivery: Delivery) -> None:
            identity = identity_of(delivery.body)
            self._history.seen.append(Seen(name, identity, delivery.redelivered))
            arrived.put_nowait(delivery)

        client.handlers.delivered = delivered
        client.handlers.ended = lambda: arrived.put_nowait(None)
        await client.consume(self._names.queue, prefetch=dice.choice([1, 7, 50, 300]))

        async def consume() -> None:
            while (first := await arrived.get()) and client.closed is None:
                await self._treat(client, [first, *_rest(arrived, arrived.qsize())], dice)

        return _until_closed(consume())

    async def _treat(self, client: AmqpClient, run: list[Delivery], dice: random.Random) -> None:
        """Acknowledge most of a run, out of order or all at once; requeue some."""
        if dice.random() < 0.3:
            # "multiple" covers all earlier deliveries too, but those have been dealt with already.
            identities = [identity_of(delivery.body) for delivery in run]
            self._history.amqp.send(identities)
            client.acknowledge(run[-1].tag, multiple=True)
        else:
            dice.shuffle(run)
            identities = []
            for delivery in run:
                if dice.random() < 0.03:
                    client.requeue(delivery.tag)
                    continue
                identities.append(identity_of(delivery.body))
                self._history.amqp.send(identities[-1:])
                client.acknowledge(delivery.tag)
        await client.round_trip()
        self._history.amqp.reach(identities, asyncio.get_running_loop().time())

    async def _pulsar_consumer(self) -> Any:
        client = await PulsarClient.open(self._broker.pulsar_address)
        self._clients.append(client)
        dice = random.Random(self._dice.random())
        arrived: asyncio.Queue[Entry | None] = asyncio.Queue()

        def received(_: int, entry: Entry) -> None:
            self._history.entries_seen.update(items_of(entry))
            arrived.put_nowait(entry)

        client.received = received
        client.ended = lambda: arrived.put_nowait(None)
        await client.subscribe(self._names.topic, SUBSCRIPTION)
        client.flow(PERMITS)

        async def consume() -> None:
            while (first := await arrived.get()) and client.closed is None:
                run = [first, *_rest(arrived, dice.randrange(20))]
                client.flow(sum(entry.messages for entry in run))
                self._acknowledge(client, run, dice)
                await asyncio.sleep(0)

        return _until_closed(consume())

    def _acknowledge(self, client: PulsarClient, entries: list[Entry], dice: random.Random) -> None:
        """Acknowledge some entries completely, some in part, some not at all, with one receipt for
        all."""
        acks: list[tuple[Place, int | None]] = []
        items: list[Item] = []
        for entry in entries:
            if dice.random() < 0.1:
                continue
            left = entry.unacked & dice.getrandbits(entry.messages) if dice.random() < 0.3 else 0
            acks.append((entry.place, left or None))
            items += [item for item in items_of(entry) if not left >> item[2] & 1]
        if not acks:
            return
        self._history.pulsar.send(items)
        answer = client.acknowledge(acks)
        answer.add_done_callback(
            lambda done: None if done.exception() else self._history.pulsar.receipt(items)
        )

    async def _pulsar_producer(self, name: str, *, batched: bool) -> Any:
        compression = pulsar.CompressionType.LZ4 if batched else pulsar.CompressionType.NONE
        producer = await asyncio.to_thread(
            self._wheel.create_producer,
            self._names.topic,
            producer_name=name,
            batching_enabled=batched,
            batching_max_publish_delay_ms=2,
            batching_max_messages=self._dice.choice([2, 10, 70]),
            compression_type=compression,
            max_pending_messages=PULSAR_PENDING_MAX,
            block_if_queue_full=False,
            send_timeout_millis=10_000,
        )
        size = self._dice.randrange(40, BODY_BYTES_MAX)
        room = threading.Semaphore(PULSAR_PENDING_MAX // 2)

        def send_all() -> None:
            number = 0
            while not self._stopping.is_set():
                if not room.acquire(timeout=0.05):
                    continue
                number += 1
                self._history.published[name] = number
                done = self._receipt_of((name, number), room)
                producer.send_async(body_of((name, number), size), done)

        return asyncio.to_thread(send_all)

    def _receipt_of(self, identity: Identity, room: threading.Semaphore) -> Callable[..., None]:
        def done(result: pulsar.Result, place: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                item = (place.ledger_id(), place.entry_id(), max(place.batch_index(), 0))
                self._history.confirmed[identity] = item
                room.release()

        return done


def _rest(arrived: asyncio.Queue[T | None], count: int) -> list[T]:
    """Up to ``count`` items that are there already; the end mark is left for the loop to find."""
    waiting = [arrived.get_nowait() for _ in range(min(count, arrived.qsize()))]
    return [item for item in waiting if item is not None]


async def _until_closed(loop: Any) -> None:
    """Run until the broker is gone, which ends every loop."""
    with suppress(AmqpClosed, PulsarClosed, OSError):
        await loop


async def prepare(broker: Arneb, names: Names) -> None:
    """Create the topics of a generation, with the subscriptions that the audit needs."""
    client = await AmqpClient.open(broker.address)
    declare = commands.Exchange.Declare(
        exchange=names.exchange, exchange_type="fanout", durable=True
    )
    await client.call(declare, commands.Exchange.DeclareOk)
    for queue in (names.queue, names.copy):
        kept = {"x-history": True} if queue == names.queue else {}
        await client.declare_queue(queue, arguments=kept)
        bind = commands.Queue.Bind(queue=queue, exchange=names.exchange, routing_key="")
        await client.call(bind, commands.Queue.BindOk)
    await client.close()
    raw = await PulsarClient.open(broker.pulsar_address)
    await raw.subscribe(names.topic, ANCHOR, consumer=1)
    await raw.subscribe(names.topic, SUBSCRIPTION, consumer=2)
    await raw.subscribe(names.copy_topic, ANCHOR, consumer=3)
    await raw.abort()


async def remove(broker: Arneb, names: Names) -> None:
    """Delete a generation's queues and exchange."""
    client = await AmqpClient.open(broker.address)
    for queue in (names.queue, names.copy):
        await client.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
    delete = commands.Exchange.Delete(exchange=names.exchange)
    await client.call(delete, commands.Exchange.DeleteOk)
    await client.close()
