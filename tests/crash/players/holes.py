"""Holes: entries and parts of batches acknowledged individually, with receipts, in any order."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from conformance.wire.pulsar import SHARED, Entry, Place, PulsarClient
from tests.crash.history import AckBook
from tests.crash.players.clients import Inbox, inbox_of
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import judge_acks, some

SUBSCRIPTION: Final = "holes"
BATCH: Final = 8
LEFT_PART: Final = 0.1
"""When less than this share is unacknowledged, a new generation begins."""

Index = int
"""The index of a message, counted over all entries."""


@dataclass(slots=True)
class HoleBook:
    """The topic is filled once; afterwards there are only acknowledgements."""

    places: dict[Place, tuple[Index, ...]] = field(default_factory=dict)
    acks: AckBook[Index] = field(default_factory=AckBook)
    count: int = 0

    def indexes(self, entry: Entry) -> list[Index]:
        """The messages of an entry that are still unacknowledged."""
        if entry.place not in self.places:
            self.places[entry.place] = tuple(range(self.count, self.count + entry.messages))
            self.count += entry.messages
        mine = self.places[entry.place]
        return [each for bit, each in enumerate(mine) if entry.unacked >> bit & 1]


class HolePlayer(Player):
    """One subscription with as many holes as possible."""

    name = "holes"
    entries: int = 6_000
    """The number of entries; every fourth is a batch."""

    _book: HoleBook

    async def prepare(self) -> None:
        self._book = HoleBook()
        client = await self.pulsar()
        await client.subscribe(self.topic("t"), SUBSCRIPTION, kind=SHARED)
        await client.create_producer(self.topic("t"))
        answers = []
        for number in range(1, self.entries + 1):
            batch: list[tuple[int, int]] = [] if number % 4 else [(11, BATCH)]
            more = [(3, BATCH)] if batch else []
            answers.append(client.send(number, bytes(20), more=more, metadata=batch))
            if len(answers) >= 500:
                await asyncio.gather(*answers)
                answers.clear()
        await asyncio.gather(*answers)
        await client.abort()
        client, inbox = await self._subscribe()
        await inbox.until(lambda: len(inbox.items) >= self.entries)
        for entry in sorted(inbox.items, key=lambda each: each.place):
            self._book.indexes(entry)
        await client.abort()

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    async def start(self) -> list[Loop]:
        return [until_gone(self._acknowledge(*await self._subscribe()))]

    def summary(self) -> str:
        acked = len(self._book.acks.durable)
        return f"{acked} of {self._book.count} acked, generation {self.generation}"

    async def judge(self) -> list[str]:
        book = self._book
        client, inbox = await self._subscribe()
        expected = set(range(book.count)) - book.acks.sent
        back: list[Index] = []
        seen = 0
        while expected:
            for entry in await inbox.run():
                indexes = book.indexes(entry)
                back += indexes
                expected.difference_update(indexes)
                seen += 1
        await client.last_place()  # what else was on its way has arrived by now
        for entry in inbox.items[seen:]:
            back += book.indexes(entry)
        log = list(range(book.count))
        anomalies = [
            *judge_acks("holes", book.acks, log, back),
            *some("entries that nobody sent", list(book.places)[self.entries :]),
        ]
        book.acks.recovered(log, back)
        await client.abort()
        if len(back) < LEFT_PART * book.count:
            self.generation += 1
            await self.prepare()
        return anomalies

    async def _subscribe(self) -> tuple[PulsarClient, Inbox[Entry]]:
        client = await self.pulsar()
        inbox = inbox_of(client)
        await client.subscribe(self.topic("t"), SUBSCRIPTION, kind=SHARED)
        client.flow(1 << 24)
        return client, inbox

    async def _acknowledge(self, client: PulsarClient, inbox: Inbox[Entry]) -> None:
        """Acknowledge at random, a few at a time; what has been answered is not sent again."""
        acks, dice = self._book.acks, self.dice
        left: list[tuple[Place, int, int]] = []
        group = dice.choice([1, 10, 100, 2_000])
        while not inbox.is_over:
            if not left:
                left = [(each.place, each.messages, each.unacked) for each in await inbox.run()]
                dice.shuffle(left)
            asked: list[tuple[Place, int | None]] = []
            done: list[Index] = []
            for place, messages, unacked in left[:group]:
                rest = unacked & dice.getrandbits(messages) if messages > 1 else 0
                mine = self._book.places[place]
                done += [each for bit, each in enumerate(mine) if (unacked & ~rest) >> bit & 1]
                asked.append((place, rest or None))
            del left[:group]
            if asked:
                acks.send(done)
                await client.acknowledge(asked)
                acks.receipt(done)
