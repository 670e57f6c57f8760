"""Epochs: a producer that was fenced out stays out, whatever happens to the broker."""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from conformance.wire.protobuf import integer
from conformance.wire.pulsar import EXCLUSIVE, Message, PulsarClient, PulsarClosed
from tests.crash.players.clients import inbox_of, pause
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

ALONE: Final = 1
FENCING: Final = 3
"""Producer access modes."""
EPOCH: Final = 5
"""The field of PRODUCER_SUCCESS with the epoch."""
FENCED: Final = "error 25:"
"""How the raw client reports ProducerFenced."""

Place = tuple[int, int]
"""A message, identified by the epoch of its producer and its number there."""


@dataclass(slots=True)
class EpochBook:
    """Every epoch that was announced, and what was stored in each."""

    used: set[int] = field(default_factory=set)
    again: list[int] = field(default_factory=list)
    """Epochs that were begun although they, or later ones, already existed when they were
    requested."""
    asked: int = 0
    """Claims without an answer: each may have begun an epoch."""
    receipts: set[Place] = field(default_factory=set)
    read: list[Place] = field(default_factory=list)
    """What the reader received in earlier lives."""
    let_in: list[int] = field(default_factory=list)
    """Epochs that were over, and whose producers were admitted nevertheless."""
    locked_out: list[str] = field(default_factory=list)

    @property
    def last(self) -> int:
        return max(self.used, default=-1)

    def begin(self, epoch: int, after: int) -> None:
        """A claim made when ``after`` was the last epoch has begun ``epoch``."""
        if epoch <= after or epoch in self.used:
            self.again.append(epoch)
        self.used.add(epoch)


def judge_epochs(book: EpochBook, found: list[Place]) -> list[str]:
    """Every broken promise; ``found`` is what the reader received after what it had before."""
    whole = [*book.read, *found]
    return [
        *some("an epoch that was there before", book.again),
        *some("of an epoch that was over, or twice", [b for a, b in pairwise(whole) if b <= a]),
        *some("lost", sorted(book.receipts - set(whole))),
        *some("in an epoch that nobody had", [e for e in whole if e[0] not in book.used]),
        *some("let in again", book.let_in),
        *some("locked out", book.locked_out),
    ]


class EpochPlayer(Player):
    """Producers that fence one another out, and try to return after a restart."""

    name = "epoch"

    _book: EpochBook

    async def prepare(self) -> None:
        client = await self.pulsar()
        await client.subscribe(self.topic("t"), "reader", kind=EXCLUSIVE)
        await client.abort()
        self._book = EpochBook()

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    async def start(self) -> list[Loop]:
        return [until_gone(self._fence()), until_gone(self._fence())]

    def summary(self) -> str:
        return f"{len(self._book.used)} epochs, {len(self._book.receipts)} receipts"

    async def judge(self) -> list[str]:
        book, client = self._book, await self.pulsar()
        over = sorted(book.used)[:-1]
        old = [*self.dice.sample(over, min(3, len(over))), *over[-1:]]
        for number, epoch in enumerate(old, 1):
            if await self._comes_back(client, number, epoch):
                book.let_in.append(epoch)
        # A claim without an answer may have begun an epoch that nobody was told about.
        unsure, book.asked = book.asked, 0
        if book.used and not unsure:
            answer = await self._comes_back(client, 100, book.last)
            if answer is None or integer(answer, EPOCH) != book.last:
                book.locked_out.append(f"epoch {book.last}: {answer}")
            await client.abort()
        found = await self._read()
        anomalies = judge_epochs(book, found)
        book.read += found
        return anomalies

    async def _comes_back(self, client: PulsarClient, producer: int, epoch: int) -> Message | None:
        """The answer to a returning producer; None if it is fenced."""
        more = [(4, "old"), (9, 1), (10, ALONE), (11, epoch)]
        try:
            return await client.create_producer(self.topic("t"), producer=producer, more=more)
        except PulsarClosed as refused:
            if FENCED not in str(refused):
                raise
            return None

    async def _read(self) -> list[Place]:
        """Everything after what was acknowledged; a last message marks the end."""
        writer, reader = await self.pulsar(), await self.pulsar()
        epoch = await self._claim(writer, "marker")
        await writer.send(1, b"%d:1" % epoch)
        self._book.receipts.add((epoch, 1))
        inbox = inbox_of(reader)
        await reader.subscribe(self.topic("t"), "reader", kind=EXCLUSIVE)
        reader.flow(1 << 20)
        end = b"%d:1" % epoch
        await inbox.until(lambda: bool(inbox.items) and inbox.items[-1].payload == end)
        await reader.acknowledge([(inbox.items[-1].place, None)], cumulative=True)
        await writer.abort()
        await reader.abort()
        return [place_of(each.payload) for each in inbox.items]

    async def _claim(self, client: PulsarClient, name: str) -> int:
        """Create a producer that claims the topic; the result is its epoch."""
        self._book.asked += 1
        after = self._book.last
        more = [(4, name), (9, 1), (10, FENCING)]
        answer = await client.create_producer(self.topic("t"), more=more)
        self._book.asked -= 1
        epoch = integer(answer, EPOCH)
        self._book.begin(epoch, after)
        return epoch

    async def _fence(self) -> None:
        """Claim the topic, send until somebody else claims it, and claim it again."""
        name = f"p{self.dice.randrange(10**6)}"
        while True:
            client = await self.pulsar()
            epoch = await self._claim(client, name)
            await self._produce(client, epoch, self.dice.uniform(0, 0.1))

    async def _produce(self, client: PulsarClient, epoch: int, seconds: float) -> None:
        """Send in one epoch for a while; the epoch may end at any time."""
        until, number = asyncio.get_running_loop().time() + seconds, 0
        window = asyncio.Semaphore(self.dice.choice([1, 30]))
        while client.closed is None and asyncio.get_running_loop().time() < until:
            await window.acquire()
            if client.closed:
                break
            number += 1
            answer = client.send(number, b"%d:%d" % (epoch, number))

            def note(done: asyncio.Future[Message], place: Place = (epoch, number)) -> None:
                window.release()
                if not done.cancelled() and done.exception() is None:
                    self._book.receipts.add(place)

            answer.add_done_callback(note)
            await pause()


def place_of(body: bytes) -> Place:
    epoch, number = map(int, body.split(b":"))
    return epoch, number
