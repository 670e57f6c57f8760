"""Load: producers and consumers of every kind on one broker, and what they were promised.

The rule: every message has its producer and its number, so whoever looks can say of each whether it
was lost, doubled or out of order. A durable subscription that nobody reads keeps all of it for the
end, when a reader counts what the topics have.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Final

import anyio

from arneb_pulsar.client import (
    EARLIEST,
    Batching,
    Client,
    Compression,
    ConsumerOptions,
    InitialPosition,
    Message,
    MessageId,
    ProducerOptions,
    SubscriptionType,
)
from arneb_pulsar.client.admin import Admin
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.errors import PulsarError, QueueFull, TimedOut
from arneb_pulsar.client.producer.producing import Producing

KEYS: Final = 5
UNREAD: Final = "unread"
"""The subscription that keeps every message, also where others have acknowledged it."""

CHUNK_BYTES: Final = 1_000
LARGE_BYTES: Final = 2_500
"""A message of the producer that sends chunks: three of them."""

CHUNK_EXPIRE_S: Final = 60.0
"""For the chunks of a message, longer than a killed broker keeps its producer from the rest: those
that wait longer are given up, here as with the official clients."""

PUT_OFF_S: Final = 1.0
"""Chunks that a broker's death has parted come again so soon."""

PARTITIONS: Final = 3
PACE_S: Final = 0.01
SETTLE_S: Final = 120.0
CHECK_INTERVAL_S: Final = 0.05


class Place(Enum):
    """The topics of the load, by what their names end in."""

    WHOLE = ""
    PARTS = "-parts"
    CHUNKS = "-chunks"


class PromiseBroken(AssertionError):
    """What was promised and is not so."""


@dataclass(slots=True)
class Sender:
    """One producer, and what became of what it sent."""

    name: str
    place: Place
    options: ProducerOptions
    compression: Compression = Compression.NONE
    pad: int = 0
    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    out_of_order: int = 0
    """Receipts that came before that of an earlier message of the same lane."""
    failed: list[Exception] = field(default_factory=list)
    first_receipt_after: dict[int, float] = field(default_factory=dict)
    """Of each disturbance: when the first message that was sent after it had its receipt, by
    ``time.monotonic``. Receipts of what was sent before may have been under way."""
    sent_before: int = 0
    """How many were sent before the last disturbance."""
    _last_of_lane: dict[int, int] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        """A message is in order with those of its lane: its key, where keys part messages."""
        return KEYS if self.place is Place.PARTS or self.name == "by-key" else 1

    def confirm(self, number: int) -> None:
        """A receipt has come."""
        lane = number % self.lanes
        if number < self._last_of_lane.get(lane, -1):
            self.out_of_order += 1
        self._last_of_lane[lane] = number
        self.confirmed.add(number)

    def body(self, number: int) -> bytes:
        """A message that says which it is."""
        return b"%s %d " % (self.name.encode(), number) + b"." * self.pad


@dataclass(slots=True)
class Listener:
    """One subscription, and what came by it."""

    name: str
    type: SubscriptionType
    place: Place
    consumers: int
    cumulative: bool = False
    came: dict[str, list[int]] = field(default_factory=dict)
    """Of each producer the numbers, in the order in which they came, with repetitions."""
    newest: dict[str, int] = field(default_factory=dict)

    def lanes_of(self, sender: Sender) -> int:
        """In how many lanes first deliveries keep a producer's order; 0 = it is not kept."""
        match self.type:
            case SubscriptionType.SHARED:
                return 0
            case SubscriptionType.KEY_SHARED:
                # A batch of several keys goes where its first key goes.
                return 0 if sender.name == "batch" else KEYS
        return sender.lanes

    def take(self, message: Message[bytes]) -> None:
        """Note it."""
        text, digits, _ = message.data.split(b" ", 2)
        name, number = text.decode(), int(digits)
        self.came.setdefault(name, []).append(number)
        self.newest[name] = max(number, self.newest.get(name, -1))


def senders() -> list[Sender]:
    """One of each kind."""

    def options(name: str, **more: object) -> ProducerOptions:
        more.setdefault("batching", None)
        return ProducerOptions(name=name, send_timeout_s=0, **more)  # type: ignore[arg-type]

    batches = Batching(messages_max=20, delay_s=0.02)
    by_key = Batching(messages_max=20, delay_s=0.02, by_key=True)
    chunks = options("chunks", chunking=True, chunk_bytes_max=CHUNK_BYTES)
    return [
        Sender("single", Place.WHOLE, options("single")),
        Sender("batch", Place.WHOLE, options("batch", batching=batches), Compression.LZ4),
        Sender("by-key", Place.WHOLE, options("by-key", batching=by_key)),
        Sender("chunks", Place.CHUNKS, chunks, pad=LARGE_BYTES),
        Sender("parts", Place.PARTS, options("parts", batching=batches)),
    ]


def listeners(*, shares_chunks: bool) -> list[Listener]:
    """One of each kind; where messages are shared, with chunks of large ones among them only if
    the broker ``shares_chunks``: Apache Pulsar forgets with a broker who has a message's first
    chunks, and acknowledges the rest itself (``SharedConsumerAssignor``)."""
    kinds, whole = SubscriptionType, Place.WHOLE
    found = [
        Listener("exclusive", kinds.EXCLUSIVE, whole, 1, cumulative=True),
        Listener("failover", kinds.FAILOVER, whole, 2),
        Listener("shared", kinds.SHARED, whole, 2),
        Listener("key-shared", kinds.KEY_SHARED, whole, 2),
        Listener("shared-parts", kinds.SHARED, Place.PARTS, 2),
        Listener("failover-parts", kinds.FAILOVER, Place.PARTS, 1),
        Listener("exclusive-chunks", kinds.EXCLUSIVE, Place.CHUNKS, 1, cumulative=True),
        Listener("failover-chunks", kinds.FAILOVER, Place.CHUNKS, 2),
    ]
    if shares_chunks:
        found.append(Listener("shared-chunks", kinds.SHARED, Place.CHUNKS, 2))
        found.append(Listener("key-shared-chunks", kinds.KEY_SHARED, Place.CHUNKS, 2))
    return found


class Load:
    """Everybody at work on ``topic`` and those beside it (:class:`Place`)."""

    def __init__(self, topic: str, *, shares_chunks: bool, pace_s: float = PACE_S) -> None:
        self.topic = topic
        self.senders = senders()
        self.listeners = listeners(shares_chunks=shares_chunks)
        self.disturbances = 0
        self.producers: list[Producing[bytes]] = []
        self.consumers: list[Consuming[bytes]] = []
        self._pace_s = pace_s
        self._stopping = False

    def __repr__(self) -> str:
        sent = sum(each.sent for each in self.senders)
        return f"<Load of {self.topic}, {sent} sent, {self.confirmed} confirmed>"

    @property
    def confirmed(self) -> int:
        """Messages with a receipt."""
        return sum(len(each.confirmed) for each in self.senders)

    def at(self, place: Place) -> str:
        """The topic's name."""
        return f"{self.topic}{place.value}"

    async def prepare(self, admin: Admin) -> None:
        """Make the topics, with what keeps every message, and have producers deduplicated."""
        namespace = "/".join(self.topic.split("/")[2:4])
        await admin.set_policy(namespace, "deduplication", True)
        for place in Place:
            partitions = (PARTITIONS,) if place is Place.PARTS else ()
            await admin.create_topic(self.at(place), *partitions)
        parts = [f"{self.at(Place.PARTS)}-partition-{number}" for number in range(PARTITIONS)]
        for topic in (self.at(Place.WHOLE), self.at(Place.CHUNKS), *parts):
            await admin.create_subscription(topic, UNREAD, at="earliest")

    @asynccontextmanager
    async def at_work(self, client: Client) -> AsyncIterator[None]:
        """Produce and consume while the block runs; then everything is to arrive. Raises
        :class:`PromiseBroken`."""
        async with anyio.create_task_group() as tasks:
            for listener in self.listeners:
                for number in range(listener.consumers):
                    consumer = await self._subscribed(client, listener, number)
                    tasks.start_soon(self._consume, listener, consumer)
            async with anyio.create_task_group() as producing:
                for sender in self.senders:
                    producing.start_soon(self._produce, client, sender)
                yield
                self._stopping = True
            await self.until(self._all_came, "everything to have come")
            tasks.cancel_scope.cancel()

    def note_disturbance(self) -> None:
        """From now on first receipts are noted again."""
        self.disturbances += 1
        for each in self.senders:
            each.sent_before = each.sent

    async def until_back(self) -> None:
        """Until each producer has a receipt, and each subscription a message, of after the last
        disturbance. Raises :class:`PromiseBroken`."""
        number = self.disturbances
        await self.until(
            lambda: all(number in each.first_receipt_after for each in self.senders),
            f"every producer to be back after disturbance {number}",
        )
        before = {each.name: each.sent for each in self.senders}

        def all_get() -> bool:
            return all(
                listener.newest.get(sender.name, -1) >= before[sender.name] - 1
                for listener in self.listeners
                for sender in self._senders_of(listener)
            )

        await self.until(all_get, f"every subscription to go on after disturbance {number}")

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for what no event tells. Raises :class:`PromiseBroken`."""
        for _ in range(int(SETTLE_S / CHECK_INTERVAL_S)):
            if holds():
                return
            await anyio.sleep(CHECK_INTERVAL_S)
        raise PromiseBroken(f"expected {what} within {SETTLE_S} s; {self._standing()}")

    async def judge(self, client: Client) -> str:
        """Look at everything; a line about it. Raises :class:`PromiseBroken`."""
        wrong = list(self._wrongs_of_senders())
        wrong += self._wrongs_of_listeners()
        for place in Place:
            mine = [each for each in self.senders if each.place is place]
            there = await self._read(client, place, sum(len(each.confirmed) for each in mine))
            wrong += _wrongs_of_log(mine, there)
        if wrong:
            raise PromiseBroken("\n".join(wrong))
        again = sum(
            len(numbers) - len(set(numbers))
            for each in self.listeners
            for numbers in each.came.values()
        )
        return f"{self.confirmed} confirmed, each once in its topic; {again} deliveries came again"

    def back_after_s(self, disturbance: int, served_at: float) -> dict[str, float]:
        """How long each producer took from ``served_at`` to its first receipt."""
        return {
            each.name: max(0.0, each.first_receipt_after[disturbance] - served_at)
            for each in self.senders
        }

    # Those at work

    async def _subscribed(
        self, client: Client, listener: Listener, number: int
    ) -> Consuming[bytes]:
        options = ConsumerOptions(
            type=listener.type,
            name=f"{listener.name}-{number}",
            initial_position=InitialPosition.EARLIEST,
            queue_size=100,
            chunk_expire_s=CHUNK_EXPIRE_S,
            negative_ack_delay_s=PUT_OFF_S,
        )
        topic = self.at(listener.place)
        consumer = await client.subscribe(topic, listener.name, options)
        self.consumers.append(consumer)
        return consumer

    async def _consume(self, listener: Listener, consumer: Consuming[bytes]) -> None:
        async for message in consumer:
            listener.take(message)
            if listener.cumulative:
                consumer.acknowledge_cumulative(message)
            else:
                consumer.acknowledge(message)

    async def _produce(self, client: Client, sender: Sender) -> None:
        topic = self.at(sender.place)
        producer = await client.create_producer(
            topic, sender.options, compression=sender.compression
        )
        self.producers.append(producer)
        while not self._stopping:
            if await self._sent(producer, sender):
                sender.sent += 1
            await anyio.sleep(self._pace_s)
        await producer.close()

    async def _sent(self, producer: Producing[bytes], sender: Sender) -> bool:
        number = sender.sent

        def note(found: MessageId | None, error: Exception | None) -> None:
            if found is None:
                sender.failed.append(error or PulsarError("neither an id nor an error"))
                return
            sender.confirm(number)
            if number >= sender.sent_before:
                sender.first_receipt_after.setdefault(self.disturbances, time.monotonic())

        try:
            key = f"{sender.name}-{number % KEYS}"
            producer.send_nowait(sender.body(number), key=key, callback=note)
        except QueueFull:
            with anyio.move_on_after(1):
                await producer.wait_for_room()
            return False
        return True

    async def _read(self, client: Client, place: Place, wanted: int) -> dict[str, list[int]]:
        """What a topic has, in its order: so many messages at least, unless some are lost."""
        listener = Listener("reader", SubscriptionType.EXCLUSIVE, place, 1)
        reader = await client.create_reader(self.at(place), EARLIEST)
        count = 0
        try:
            while True:
                listener.take(await reader.read(2.0 if count >= wanted else 30.0))
                count += 1
        except TimedOut:
            await reader.close()
        return listener.came

    # What is wrong

    def _senders_of(self, listener: Listener) -> list[Sender]:
        return [each for each in self.senders if each.place is listener.place]

    def _all_came(self) -> bool:
        return all(
            len(sender.confirmed) == sender.sent
            and len(set(listener.came.get(sender.name, ()))) == sender.sent
            for listener in self.listeners
            for sender in self._senders_of(listener)
        )

    def _standing(self) -> str:
        producing = ", ".join(
            f"{each.name} {len(each.confirmed)}/{each.sent}" for each in self.senders
        )
        consuming = ", ".join(
            f"{each.name} {sum(len(set(numbers)) for numbers in each.came.values())}"
            for each in self.listeners
        )
        states = "\n".join(map(repr, (*self.producers, *self.consumers)))
        return f"confirmed: {producing}; came: {consuming}\n{states}"

    def _wrongs_of_senders(self) -> Iterable[str]:
        for each in self.senders:
            if each.failed:
                yield f"{each.name}: {len(each.failed)} sends failed: {each.failed[0]!r}"
            if each.out_of_order:
                yield f"{each.name}: {each.out_of_order} receipts out of order"

    def _wrongs_of_listeners(self) -> Iterable[str]:
        for listener in self.listeners:
            for sender in self._senders_of(listener):
                firsts = list(dict.fromkeys(listener.came.get(sender.name, ())))
                where = f"{sender.name} by {listener.name}"
                if missing := sorted(sender.confirmed.difference(firsts)):
                    yield f"{where}: {len(missing)} lost, the first is {missing[0]}"
                yield from _steps_back(firsts, listener.lanes_of(sender), where)


def _wrongs_of_log(mine: Iterable[Sender], there: dict[str, list[int]]) -> Iterable[str]:
    for sender in mine:
        numbers = there.get(sender.name, [])
        if missing := sorted(sender.confirmed.difference(numbers)):
            yield f"{sender.name}: {len(missing)} confirmed and gone, the first is {missing[0]}"
        if len(numbers) != len(set(numbers)):
            yield f"{sender.name}: {len(numbers) - len(set(numbers))} stand twice in the topic"
        yield from _steps_back(numbers, sender.lanes, f"{sender.name} in its topic")


def _steps_back(numbers: list[int], lanes: int, where: str) -> Iterable[str]:
    for lane in range(lanes):
        mine = [each for each in numbers if each % lanes == lane]
        for before, after in pairwise(mine):
            if after < before:
                yield f"{where}: {after} came behind {before}"
                break


async def confirmed_soon(load: Load) -> None:
    """Until each producer has its first receipt: before that there is nothing to lose."""
    await load.until(
        lambda: all(each.confirmed for each in load.senders), "a receipt of every producer"
    )
