"""Key_Shared: a key is in flight at only one consumer and in order, while consumers come, leave and
return messages, and after a restart."""

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from conformance.wire.pulsar import EXCLUSIVE, KEY_SHARED, Entry, Message, Place, PulsarClient
from tests.crash.history import AckBook
from tests.crash.players.clients import Inbox, inbox_of, pause
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import SHOWN_MAX, some

KEYS: Final = 40
CONSUMERS_MAX: Final = 6
HELD_S_MAX: Final = 0.02
SUBSCRIPTION: Final = "keyed"

Identity = tuple[int, int]
"""A message, identified by its key and its number there, from 1."""


@dataclass(slots=True)
class KeyBook:
    """What is in flight where, from the consumers' point of view."""

    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    confirmed: set[Identity] = field(default_factory=set)
    acks: AckBook[Identity] = field(default_factory=AckBook)
    log: list[Identity] = field(default_factory=list)
    never_stored: set[Identity] = field(default_factory=set)
    """Messages sent to a broker that was then killed, and not found in the log."""
    anomalies: list[str] = field(default_factory=list)

    held: dict[str, set[Identity]] = field(default_factory=lambda: defaultdict(set))
    """By consumer: received, and neither acknowledged nor returned."""
    given_back: set[Identity] = field(default_factory=set)
    """Returned by a consumer and not delivered again since."""
    highest: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    received: set[Identity] = field(default_factory=set)
    """Received by anybody in the current life; and the highest number of each key."""
    is_cut: bool = False
    """A consumer that holds something may have lost its connection without noticing, while the next
    leader of a cluster already serves a consumer that was waiting for one. So which consumer holds
    what is not judged."""

    _done: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Up to this number, all messages of a key are durably acknowledged."""
    _judged: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Up to this number, it is known which messages of a key were stored."""

    def receive(self, consumer: str, item: Identity) -> None:
        """``consumer`` receives a message now."""
        key, number = item
        if item in self.acks.durable:
            self.anomalies.append(f"{item} to {consumer}, acknowledged with a receipt")
        if self.is_cut:
            return
        elsewhere = [
            name
            for name, held in self.held.items()
            if name != consumer and any(each[0] == key for each in held)
        ]
        if elsewhere:
            self.anomalies.append(f"{item} to {consumer} while {elsewhere} hold that key")
        mine = self.held[consumer]
        mine.add(item)
        self.given_back.discard(item)
        if before := [each for each in self._open_before(item) if each not in mine]:
            self.anomalies.append(f"{item} to {consumer} before {before[:3]}")
        if item not in self.received and number < self.highest[key]:
            self.anomalies.append(f"{item} to {consumer} after {self.highest[key]}")
        self.received.add(item)
        self.highest[key] = max(number, self.highest[key])

    def _open_before(self, item: Identity) -> list[Identity]:
        """What should have been delivered before ``item``, if nobody had it already."""
        key, number = item
        while (
            next_ := (key, self._done[key] + 1)
        ) in self.acks.durable or next_ in self.never_stored:
            self._done[key] = next_[1]
        accounted = self.acks.sent, self.never_stored, self.given_back
        lower = ((key, each) for each in range(self._done[key] + 1, number))
        return [each for each in lower if not any(each in some for some in accounted)]

    def give_back(self, consumer: str, items: list[Identity]) -> None:
        self.held[consumer].difference_update(items)
        self.given_back.update(items)

    def ack(self, consumer: str, items: list[Identity]) -> None:
        self.held[consumer].difference_update(items)
        self.acks.send(items)

    def leave(self, consumer: str) -> None:
        """The consumer has left; what it held goes to others, in order."""
        self.held.pop(consumer, None)

    def crash(self) -> None:
        """Nobody holds anything now, and returned messages are like all others."""
        self.is_cut = False
        self.held.clear()
        self.given_back.clear()
        self.received.clear()
        self.highest.clear()

    def recover(self, found: list[Identity]) -> None:
        """Take the next part of the log."""
        self.log += found
        stored = set(found)
        for key, last in self.sent.items():
            new = {(key, each) for each in range(self._judged[key] + 1, last + 1)}
            self.never_stored |= new - stored
            self._judged[key] = last


def judge_keys(book: KeyBook, found: list[Identity]) -> list[str]:
    """Broken promises about the log; ``found`` is what was added since it was read last."""
    stored = [*book.log, *found]
    last: dict[int, int] = {}
    disorder = []
    for key, number in stored:
        if number <= last.get(key, 0):
            disorder.append((key, number))
        last[key] = number
    return [
        *some("lost", sorted(book.confirmed - set(stored))),
        *some("stored out of order, or twice", disorder),
    ]


class KeyPlayer(Player):
    """Producers with few keys, and consumers of a Key_Shared subscription that come and leave."""

    name = "keys"

    _book: KeyBook
    _consumers = 0

    async def prepare(self) -> None:
        client = await self.pulsar()
        await client.subscribe(self.topic("t"), "log", consumer=1, kind=EXCLUSIVE)
        await client.subscribe(self.topic("t"), SUBSCRIPTION, consumer=2, kind=KEY_SHARED)
        await client.abort()
        self._book = KeyBook()

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    async def start(self) -> list[Loop]:
        loops: list[Loop] = [self._produce(await self.pulsar(), range(KEYS // 2))]
        loops.append(self._produce(await self.pulsar(), range(KEYS // 2, KEYS)))
        loops += [self._come_and_go() for _ in range(self.dice.randint(1, CONSUMERS_MAX))]
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        acked = len(self._book.acks.durable)
        return f"{len(self._book.log)} stored, {acked} acked, {self._consumers} consumers"

    def cut(self) -> None:
        self._book.is_cut = True

    def crash(self, now: float) -> None:
        self._book.crash()

    async def judge(self) -> list[str]:
        book = self._book
        found = await self._read_log()
        anomalies = judge_keys(book, found)
        book.recover(found)
        await self._drain(set(book.log) - book.acks.sent)
        anomalies += book.anomalies[:SHOWN_MAX]
        book.anomalies.clear()
        return anomalies

    async def _drain(self, must: set[Identity]) -> None:
        """Let several consumers receive everything; ``must`` has to come."""
        book = self._book
        arrived: Inbox[Identity] = Inbox()

        async def serve(name: str, client: PulsarClient, inbox: Inbox[Entry]) -> None:
            while run := await inbox.run():
                items = [identity_of(each.payload) for each in run]
                for each in items:
                    arrived.put(each)
                # Others join during the pause, and its keys go to them.
                await pause(self.dice.uniform(0, HELD_S_MAX))
                await self._ack(client, name, run, items)

        consumers = []
        for _ in range(self.dice.randint(1, CONSUMERS_MAX)):
            name, client, inbox = await self._join()
            serving = asyncio.create_task(until_gone(serve(name, client, inbox)))
            consumers.append((name, client, serving))
            client.flow(self.dice.choice([5, 100, 1 << 20]))
            await pause(self.dice.uniform(0, HELD_S_MAX))
        for _, client, _ in consumers:
            client.flow(1 << 20)
        left = set(must)
        while left:
            left.difference_update(await arrived.run())
        for name, client, serving in consumers:
            await client.abort()
            book.leave(name)
            await serving

    async def _read_log(self) -> list[Identity]:
        """What came after the part of the log that was read before."""
        client = await self.pulsar()
        inbox = inbox_of(client)
        await client.subscribe(self.topic("t"), "log", kind=EXCLUSIVE)
        client.flow(1 << 20)
        producer = await self.pulsar()
        await producer.create_producer(self.topic("t"))
        self._book.sent[KEYS] += 1
        last = (KEYS, self._book.sent[KEYS])
        await producer.send(1, body_of(last), metadata=[(6, f"key-{KEYS}")])
        self._book.confirmed.add(last)
        end = body_of(last)
        await inbox.until(lambda: bool(inbox.items) and inbox.items[-1].payload == end)
        await client.acknowledge([(inbox.items[-1].place, None)], cumulative=True)
        await client.abort()
        await producer.abort()
        return [identity_of(each.payload) for each in inbox.items]

    async def _join(self) -> tuple[str, PulsarClient, Inbox[Entry]]:
        """A new consumer; the messages that it receives are recorded in the book."""
        client = await self.pulsar()
        self._consumers += 1
        name = f"c{self._consumers}"
        inbox = inbox_of(client)

        def arrived(_: int, entry: Entry) -> None:
            self._book.receive(name, identity_of(entry.payload))
            inbox.put(entry)

        client.received = arrived
        more = [(6, name), (17, [(1, 0)])]
        await client.subscribe(self.topic("t"), SUBSCRIPTION, kind=KEY_SHARED, more=more)
        return name, client, inbox

    async def _produce(self, client: PulsarClient, keys: range) -> None:
        await client.create_producer(self.topic("t"))
        book, number = self._book, 0
        window = asyncio.Semaphore(self.dice.choice([1, 20, 100]))
        while client.closed is None:
            await window.acquire()
            if client.closed:
                break
            key = self.dice.choice(keys)
            number += 1
            book.sent[key] += 1
            item = (key, book.sent[key])
            answer = client.send(number, body_of(item), metadata=[(6, f"key-{key}")])

            def note(done: asyncio.Future[Message], item: Identity = item) -> None:
                window.release()
                if not done.cancelled() and done.exception() is None:
                    book.confirmed.add(item)

            answer.add_done_callback(note)
            await pause()

    async def _come_and_go(self) -> None:
        dice = random.Random(self.dice.random())
        while True:
            await pause(dice.uniform(0, HELD_S_MAX))
            name, client, inbox = await self._join()
            until = asyncio.get_running_loop().time() + dice.uniform(0.01, 0.2)
            client.flow(dice.choice([3, 20, 500]))
            while asyncio.get_running_loop().time() < until and (run := await inbox.run()):
                client.flow(len(run))
                await self._treat(client, name, run, dice)
            closed = client.closed
            await client.abort()
            self._book.leave(name)
            if closed:
                raise closed

    async def _treat(
        self, client: PulsarClient, name: str, run: list[Entry], dice: random.Random
    ) -> None:
        """Acknowledge some messages, return some, keep some."""
        acked, back = [], []
        for entry in run:
            chance = dice.random()
            if chance < 0.7:
                acked.append(entry)
            elif chance < 0.8:
                back.append(entry)
        if back:
            self._book.give_back(name, [identity_of(each.payload) for each in back])
            client.give_back([each.place for each in back])
        if acked:
            await self._ack(client, name, acked, [identity_of(each.payload) for each in acked])
        else:
            await pause(0.001)

    async def _ack(
        self, client: PulsarClient, name: str, run: list[Entry], items: list[Identity]
    ) -> None:
        places: list[tuple[Place, int | None]] = [(each.place, None) for each in run]
        self._book.ack(name, items)
        await client.acknowledge(places)
        self._book.acks.receipt(items)


def body_of(item: Identity) -> bytes:
    return b"%d:%d" % item


def identity_of(body: bytes) -> Identity:
    key, number = map(int, body.split(b":"))
    return key, number
