"""Random programs: acknowledgements of every kind, redelivery, seeking, and consumers of every type
one after the other on one subscription, compared with a model of a few lines."""

import asyncio
import random
import struct
from dataclasses import dataclass, field

import pytest
from conformance.brokers.process import Address
from conformance.wire.protobuf import data_of, decode, integer
from conformance.wire.pulsar import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    Entry,
    Place,
    PulsarClient,
)
from conformance.wire.running import run

ENTRIES = 10
BATCHES = (2, 5, 8)
BATCH_MESSAGES = 4
BATCH = b"".join(struct.pack(">I", 2) + b"\x18\x00" for _ in range(BATCH_MESSAGES))
NUM_MESSAGES_IN_BATCH = 11

WITHIN_S = 30.0
SILENCE_S = 0.15

Delivery = tuple[int, int, int]
"""An entry, its redelivery count, and a bit set of its unacknowledged messages."""


def full(entry: int) -> int:
    return (1 << BATCH_MESSAGES) - 1 if entry in BATCHES else 1


@dataclass
class Model:
    """One subscription with one consumer, which receives everything immediately."""

    kind: int = SHARED
    left: list[int] = field(default_factory=lambda: [full(each) for each in range(ENTRIES)])
    counts: dict[int, int] = field(default_factory=dict)

    @property
    def shares(self) -> bool:
        return self.kind in (SHARED, KEY_SHARED)

    def opened(self, kind: int) -> set[Delivery]:
        self.kind = kind
        self.counts.clear()
        return self.all()

    def all(self) -> set[Delivery]:
        return {(each, 0, left) for each, left in enumerate(self.left) if left}

    def given_back(self, entries: list[int]) -> set[Delivery]:
        if not self.shares:
            return self.all()
        due = [each for each in entries if self.left[each]]
        for each in due:
            self.counts[each] = self.counts.get(each, 0) + 1
        return {(each, self.counts[each], self.left[each]) for each in due}

    def acknowledged_until(self, entry: int, left: int) -> None:
        self.left[:entry] = [0] * entry
        self.left[entry] &= left

    def sought(self, entry: int) -> None:
        self.left = [0 if each < entry else full(each) for each in range(ENTRIES)]


class Play:
    """The same operations on a broker."""

    def __init__(self, address: Address, topic: str) -> None:
        self._address = address
        self._topic = topic
        self._places: list[Place] = []
        self._consumer: PulsarClient | None = None
        self._got: list[Delivery] = []
        self._came = asyncio.Event()

    async def publish(self) -> None:
        client = await PulsarClient.open(self._address)
        await client.look_up(self._topic)
        await client.subscribe(self._topic, "kept")  # so that nothing is removed from the log
        await client.create_producer(self._topic)
        for number in range(ENTRIES):
            metadata = [(NUM_MESSAGES_IN_BATCH, BATCH_MESSAGES)] if number in BATCHES else []
            data = BATCH if number in BATCHES else b"x"
            receipt = await client.send(number, data, metadata=metadata)
            place = decode(data_of(receipt, 3))
            self._places.append(Place(integer(place, 1), integer(place, 2)))

    async def open(self, kind: int) -> None:
        client = self._consumer = await PulsarClient.open(self._address)
        client.received = self._take
        await client.look_up(self._topic)
        await client.subscribe(self._topic, "s", kind=kind)
        client.flow(1000)

    async def close(self) -> None:
        await self.consumer.close_consumer()
        await self.consumer.abort()

    @property
    def consumer(self) -> PulsarClient:
        assert self._consumer is not None
        return self._consumer

    def _take(self, _: int, entry: Entry) -> None:
        number = self._places.index(entry.place)
        self._got.append((number, entry.redelivery_count, entry.unacked))
        self._came.set()

    async def acknowledge(self, entries: list[int], left: int = 0, *, until: bool = False) -> None:
        places = [(self._places[each], left or None) for each in entries]
        await self.consumer.acknowledge(places, cumulative=until)

    def give_back(self, entries: list[int]) -> None:
        self.consumer.give_back([self._places[each] for each in entries])

    async def seek(self, entry: int) -> None:
        await self.consumer.seek(self._places[entry])
        await self.consumer.abort()

    async def expect(self, deliveries: set[Delivery], what: str) -> None:
        """Check that exactly these deliveries come, each once."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while len(self._got) < len(deliveries):
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            pass  # the assertion below shows what is missing
        await asyncio.sleep(SILENCE_S)
        got, self._got = sorted(self._got), []
        assert got == sorted(deliveries), what


KINDS = (EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED)


async def perform(play: Play, model: Model, dice: random.Random) -> None:
    await play.publish()
    await play.open(model.kind)
    await play.expect(model.opened(model.kind), "after opening")
    for _ in range(dice.randint(4, 12)):
        some = dice.sample(range(ENTRIES), dice.randint(1, 4))
        match dice.randrange(8):
            case 0 | 1:
                what, due = f"acknowledged {some}", set[Delivery]()
                await play.acknowledge(some)
                for each in some:
                    model.left[each] = 0
            case 2:
                batch, left = dice.choice(BATCHES), dice.randint(1, 14)
                what, due = f"acknowledged all but {left:04b} of {batch}", set()
                await play.acknowledge([batch], left)
                model.left[batch] &= left
            case 3 if not model.shares:
                batch, left = dice.choice(BATCHES), dice.choice([0b1110, 0b1100, 0b1000, 0])
                what, due = f"acknowledged up to {batch}, there all but {left:04b}", set()
                await play.acknowledge([batch], left, until=True)
                model.acknowledged_until(batch, left)
            case 4:
                what = f"gave back {some}"
                play.give_back(some)
                due = model.given_back(some)
            case 5:
                what = "gave everything back"
                play.give_back([])
                due = model.given_back(list(range(ENTRIES)))
            case 6:
                entry = dice.randrange(ENTRIES)
                what = f"sought {entry}"
                await play.seek(entry)
                model.sought(entry)
                await play.open(model.kind)
                due = model.opened(model.kind)
            case _:
                kind = dice.choice(KINDS)
                what = f"came again as {kind}"
                await play.close()
                await play.open(kind)
                due = model.opened(kind)
        await play.expect(due, what)
    await play.close()
    await play.open(SHARED)
    await play.expect(model.opened(SHARED), "at the end")


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_is_what_was_not_acknowledged(pulsar_url: str, topic: str, seed: int) -> None:
    host, _, port = pulsar_url.partition("://")[2].partition(":")
    dice = random.Random(seed)
    play = Play(Address(host, int(port)), topic)
    run(perform(play, Model(dice.choice(KINDS)), dice))
