"""Cursors: cumulative acknowledgements and seeks. After an answer, the subscription continues from
there."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from conformance.wire.pulsar import EXCLUSIVE, Entry, Message, Place, PulsarClient, PulsarClosed
from tests.crash.players.bodies import body_of, number_of
from tests.crash.players.clients import Inbox, inbox_of, pause
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import SHOWN_MAX, some

SUBSCRIPTION: Final = "cursor"
LOG: Final = "log"
ANCHOR: Final = "anchor"
"""A subscription that never acknowledges, so that it is possible to seek back any distance."""
SEEK_PART: Final = 0.1
SOUGHT_BACK_MAX: Final = 300


@dataclass(slots=True)
class CursorBook:
    """What is in the topic, and the possible positions of the subscription."""

    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    judged: int = 0
    """Up to this number it is known what was stored and what was not."""
    absent: set[int] = field(default_factory=set)
    places: dict[int, Place] = field(default_factory=dict)
    done: set[int] = field(default_factory=lambda: {0})
    """Everything up to one of these numbers is acknowledged; there are several while an answer is
    outstanding."""
    anomalies: list[str] = field(default_factory=list)

    def next_after(self, number: int) -> int:
        number += 1
        while number in self.absent:
            number += 1
        return number

    def ask(self, number: int) -> None:
        """The subscription has been asked to move there."""
        self.done.add(number)

    def answer(self, number: int) -> None:
        """The subscription has moved there."""
        self.done = {number}

    def begins(self, number: int) -> None:
        """Check the first message that a new consumer receives."""
        expected = sorted(map(self.next_after, self.done))
        if number not in expected:
            self.anomalies.append(f"began with {number} instead of {expected}")
        self.done = {number - 1}

    def goes_on(self, before: int, number: int) -> None:
        """Check a message that follows another."""
        if number != self.next_after(before):
            expected = self.next_after(before)
            self.anomalies.append(f"{number} after {before}, instead of {expected}")

    def recover(self, found: list[int]) -> list[str]:
        """Take the next part of the log; the result is what is wrong with it."""
        lost = {each for each in self.confirmed if each > self.judged} - set(found)
        last, self.judged = self.judged, self.sent
        self.absent.update(set(range(last + 1, self.sent + 1)) - set(found))
        return [
            *some("lost", sorted(lost)),
            *some("out of order, or twice", [] if found == sorted(set(found)) else found),
        ]


class CursorPlayer(Player):
    """A producer and one consumer, which acknowledges cumulatively or seeks."""

    name = "cursor"

    _book: CursorBook
    _acks = 0
    _seeks = 0

    async def prepare(self) -> None:
        client = await self.pulsar()
        for consumer, name in enumerate((SUBSCRIPTION, LOG, ANCHOR), 1):
            await client.subscribe(self.topic("t"), name, consumer=consumer, kind=EXCLUSIVE)
        await client.abort()
        self._book = CursorBook()

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    def summary(self) -> str:
        stored = self._book.judged - len(self._book.absent)
        return f"{stored} stored, {self._acks} acks, {self._seeks} seeks"

    async def start(self) -> list[Loop]:
        return [until_gone(self._produce(await self.pulsar())), until_gone(self._read())]

    async def judge(self) -> list[str]:
        book = self._book
        producer = await self.pulsar()
        await producer.create_producer(self.topic("t"))
        await self._send(producer, 1)
        marker = book.sent
        client, inbox = await self._subscribe(LOG)
        await inbox.until(
            lambda: bool(inbox.items) and number_of(inbox.items[-1].payload) >= marker
        )
        anomalies = book.recover([self._see(each) for each in inbox.items])
        await client.acknowledge([(inbox.items[-1].place, None)], cumulative=True)
        client, inbox = await self._subscribe(SUBSCRIPTION)
        # Raises ConnectionError if the broker ends before it answers; the play then reports that.
        await inbox.until(lambda: bool(inbox.items))
        book.begins(self._see(inbox.items[0]))
        anomalies += book.anomalies[:SHOWN_MAX]
        book.anomalies.clear()
        return anomalies

    def _see(self, entry: Entry) -> int:
        number = number_of(entry.payload)
        self._book.places[number] = entry.place
        return number

    def _send(self, client: PulsarClient, sequence: int) -> asyncio.Future[Message]:
        self._book.sent += 1
        number = self._book.sent
        answer = client.send(sequence, body_of(number, 100))

        def note(done: asyncio.Future[Message]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._book.confirmed.add(number)

        answer.add_done_callback(note)
        return answer

    async def _produce(self, client: PulsarClient) -> None:
        await client.create_producer(self.topic("t"))
        window = asyncio.Semaphore(self.dice.choice([1, 50]))
        sequence = 0
        while client.closed is None:
            await window.acquire()
            if client.closed is None:
                sequence += 1
                self._send(client, sequence).add_done_callback(lambda _: window.release())
            await pause()

    async def _subscribe(self, name: str) -> tuple[PulsarClient, Inbox[Entry]]:
        client = await self.pulsar()
        inbox = inbox_of(client)
        while True:
            try:
                await client.subscribe(self.topic("t"), name, kind=EXCLUSIVE)
                break
            except PulsarClosed:
                if client.closed:
                    raise
                # the previous consumer's connection has not been found closed yet
                await pause(0.01)
        client.flow(1 << 20)
        return client, inbox

    async def _read(self) -> None:
        while True:
            client, inbox = await self._subscribe(SUBSCRIPTION)
            before = None
            sought = False
            while not sought and (run := await inbox.run()):
                for entry in run:
                    number = self._see(entry)
                    if before is None:
                        self._book.begins(number)
                    else:
                        self._book.goes_on(before, number)
                    before = number
                sought = self.dice.random() < SEEK_PART
                await (self._seek if sought else self._acknowledge)(client, run)
            if client.closed:
                raise client.closed
            await client.abort()

    async def _acknowledge(self, client: PulsarClient, run: list[Entry]) -> None:
        entry = self.dice.choice(run)
        number = self._see(entry)
        self._book.ask(number)
        await client.acknowledge([(entry.place, None)], cumulative=True)
        self._book.answer(number)
        self._acks += 1

    async def _seek(self, client: PulsarClient, run: list[Entry]) -> None:
        last = self._see(run[-1])
        known = [
            n for n in range(max(1, last - SOUGHT_BACK_MAX), last + 1) if n in self._book.places
        ]
        number = self.dice.choice(known)
        self._book.ask(number - 1)
        await client.seek(self._book.places[number])
        self._book.answer(number - 1)
        self._seeks += 1
