"""Pulsar messages with a delivery time; see :mod:`tests.crash.players.delays`."""

import asyncio
import random
from typing import Final

from conformance.wire.pulsar import KEY_SHARED, SHARED, Entry, PulsarClient
from tests.crash.history import AckBook
from tests.crash.players.bodies import body_of
from tests.crash.players.clients import Inbox, inbox_of, pause
from tests.crash.players.delays import DELAYS, DelayBook, all_expected, judge_delays
from tests.crash.players.player import Loop, Player, until_gone


class DeliverAtPlayer(Player):
    """A Pulsar producer of delayed and other messages, with subscriptions of both types that
    support delays."""

    name = "deliver-at"

    KINDS: Final = {"shared": SHARED, "other": SHARED, "keyed": KEY_SHARED}

    _book: DelayBook
    _acks: dict[str, AckBook[int]]

    async def prepare(self) -> None:
        client = await self.pulsar()
        for consumer, (name, kind) in enumerate(self.KINDS.items(), 1):
            await client.subscribe(self.topic("t"), name, consumer=consumer, kind=kind)
        self._book = DelayBook()
        self._acks = {name: AckBook() for name in self.KINDS}
        await client.abort()

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    async def start(self) -> list[Loop]:
        producer = await self.pulsar()
        await producer.create_producer(self.topic("t"))
        loops = [self._produce(producer)]
        loops += [self._consume(name, await self.pulsar()) for name in self.KINDS]
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        acked = [len(acks.durable) for acks in self._acks.values()]
        return f"{len(self._book.confirmed)} confirmed, {acked} acked"

    def crash(self, now: float) -> None:
        """Only acks with a receipt count as durable."""

    async def judge(self) -> list[str]:
        found = await asyncio.gather(*(self._judge_one(name) for name in self.KINDS))
        return [anomaly for each in found for anomaly in each]

    async def _judge_one(self, name: str) -> list[str]:
        client, acks = await self.pulsar(), self._acks[name]
        back: list[int] = []
        entries: list[Entry] = []
        inbox: Inbox[object] = Inbox()

        def received(_: int, entry: Entry) -> None:
            back.append(self._book.see(entry.payload))
            entries.append(entry)
            inbox.put(entry)

        client.received, client.ended = received, inbox.end
        await client.subscribe(self.topic("t"), name, kind=self.KINDS[name])
        client.flow(1 << 20)
        anomalies = await all_expected(name, self._book, acks, back, inbox)
        anomalies += judge_delays(name, self._book, acks, back)
        acks.sent.difference_update(back)
        kept = [self.dice.random() < 0.1 for _ in entries]
        chosen = [index for index, keep in enumerate(kept) if not keep]
        if chosen:
            numbers = [back[index] for index in chosen]
            acks.send(numbers)
            await client.acknowledge([(entries[index].place, None) for index in chosen])
            acks.receipt(numbers)
        await client.abort()
        return anomalies

    async def _produce(self, client: PulsarClient) -> None:
        delays = self.dice.sample(DELAYS, 4)
        window = asyncio.Semaphore(self.dice.choice([1, 20, 200]))
        while True:
            await window.acquire()
            delay = self.dice.choice(delays)
            number = self._book.plan(delay)
            at_ms = int(self._book.due[number] * 1000)
            metadata: list[tuple[int, int | str]] = [(6, f"key-{number % 7}")]
            if delay:
                metadata.append((19, at_ms))
            answer = client.send(number, body_of(number, 100), metadata=metadata)

            def note(done: asyncio.Future[object], number: int = number) -> None:
                window.release()
                if not done.cancelled() and done.exception() is None:
                    self._book.confirmed.add(number)

            answer.add_done_callback(note)
            if client.closed:
                raise client.closed
            await pause()

    async def _consume(self, name: str, client: PulsarClient) -> None:
        acks, dice = self._acks[name], random.Random(self.dice.random())
        inbox = inbox_of(client)
        await client.subscribe(self.topic("t"), name, kind=self.KINDS[name])
        client.flow(500)
        while run := await inbox.run():
            numbers = [self._book.see(each.payload) for each in run]
            client.flow(len(run))
            chosen = [index for index in range(len(run)) if dice.random() < 0.7]
            back = [run[index].place for index in range(len(run)) if dice.random() < 0.1]
            if chosen:
                mine = [numbers[index] for index in chosen]
                acks.send(mine)
                answer = client.acknowledge([(run[index].place, None) for index in chosen])
                answer.add_done_callback(
                    lambda done, mine=mine: None if done.exception() else acks.receipt(mine)
                )
            if back:
                client.give_back(back)
            await pause()
