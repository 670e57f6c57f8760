"""Compaction: readers of the compacted topic get the last message of every key, in order, and
nothing that is not in the log; all others get everything."""

import asyncio
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import pairwise
from typing import Final

from conformance.pulsar.admin import Admin, Refused
from conformance.wire.pulsar import EXCLUSIVE, Message, PulsarClient
from tests.crash.players.bodies import body_of, number_of
from tests.crash.players.clients import inbox_of, pause
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

KEYS: Final = 30
ANCHOR: Final = "anchor"
BUSY: Final = 409
"""The status of the answer if a compaction is already running."""
GENERATION_MESSAGES: Final = 5_000
FROM_THE_START: Final = [(8, 0), (9, [(1, 0), (2, 0)])]
"""Fields of a reader: not durable, and starting at the first message."""
COMPACTED: Final = (11, 1)


@dataclass(slots=True)
class CompactionBook:
    """What was sent; a message's key is its number modulo :data:`KEYS`."""

    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    log: list[int] = field(default_factory=list)


def judge_compaction(book: CompactionBook, log: list[int], compacted: list[int]) -> list[str]:
    """Every broken promise; ``log`` is the whole topic."""
    last = {number % KEYS: number for number in log}
    return [
        *some("lost", sorted(book.confirmed - set(log))),
        *some("out of order, or twice", [b for a, b in pairwise(log) if b <= a]),
        *some("rewritten", book.log[-1:] if log[: len(book.log)] != book.log else []),
        *some("compacted: last of their keys, and gone", sorted({*last.values()} - {*compacted})),
        *some("compacted: not in the log", sorted(set(compacted) - set(log))),
        *some("compacted: out of order", [b for a, b in pairwise(compacted) if b <= a]),
    ]


class CompactionPlayer(Player):
    """A producer with few keys, and an administrator who has the topic compacted repeatedly."""

    name = "compacted"

    _book: CompactionBook
    _compactions = 0
    _left_out = 0

    async def prepare(self) -> None:
        client = await self.pulsar()
        await client.subscribe(self.topic("t"), ANCHOR, kind=EXCLUSIVE)
        await client.abort()
        self._book = CompactionBook()

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    def summary(self) -> str:
        return (
            f"{len(self._book.log)} stored, {self._compactions} compactions,"
            f" {self._left_out} left out, generation {self.generation}"
        )

    async def start(self) -> list[Loop]:
        producer = await self.pulsar()
        await producer.create_producer(self.topic("t"))
        return [until_gone(self._produce(producer)), until_gone(self._compact())]

    async def judge(self) -> list[str]:
        book = self._book
        producer = await self.pulsar()
        await producer.create_producer(self.topic("t"))
        await self._send(producer)
        log = await self._read(book.sent, compacted=False)
        compacted = await self._read(book.sent, compacted=True)
        anomalies = judge_compaction(book, log, compacted)
        book.log, self._left_out = log, len(log) - len(compacted)
        if len(log) > GENERATION_MESSAGES:
            self.generation += 1
            await self.prepare()
        return anomalies

    async def _read(self, marker: int, *, compacted: bool) -> list[int]:
        client = await self.pulsar()
        inbox = inbox_of(client)
        name = f"reader-{compacted}-{marker}"
        more = [*FROM_THE_START, *([COMPACTED] if compacted else [])]
        await client.subscribe(self.topic("t"), name, kind=EXCLUSIVE, more=more)
        client.flow(1 << 20)
        await inbox.until(
            lambda: bool(inbox.items) and number_of(inbox.items[-1].payload) == marker
        )
        return [number_of(each.payload) for each in inbox.items]

    def _send(self, client: PulsarClient) -> asyncio.Future[Message]:
        self._book.sent += 1
        number = self._book.sent
        key = [(6, f"key-{number % KEYS}")]
        answer = client.send(number, body_of(number, 60), metadata=key)

        def note(done: asyncio.Future[Message]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._book.confirmed.add(number)

        answer.add_done_callback(note)
        return answer

    async def _produce(self, client: PulsarClient) -> None:
        window = asyncio.Semaphore(self.dice.choice([1, 50]))
        while client.closed is None:
            await window.acquire()
            if client.closed is None:
                self._send(client).add_done_callback(lambda _: window.release())
            await pause()

    async def _compact(self) -> None:
        admin = Admin(self.broker.admin_url)
        while True:
            try:
                await asyncio.to_thread(admin.put, f"{self.called('t')}/compaction")
                self._compactions += 1
            except Refused as refused:
                if refused.status != BUSY:
                    raise ConnectionError(str(refused)) from refused
            except HTTPException as error:
                raise ConnectionError(str(error)) from error
            await pause(self.dice.uniform(0, 0.1))
