"""Deduplication: what a producer sends again is stored once, even if everything stored has been
acknowledged and trimmed."""

import asyncio
import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from conformance.pulsar.admin import Admin
from conformance.wire.protobuf import data_of, decode, encode, integer
from conformance.wire.pulsar import EXCLUSIVE, Entry, Message, PulsarClient, PulsarClosed
from tests.crash.players.bodies import body_of, number_of
from tests.crash.players.clients import inbox_of, pause
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

NOBODY_YET: Final = (1 << 64) - 1
"""-1, the last sequence id of a producer that has sent nothing, as an unsigned number."""
NOWHERE: Final = (1 << 64) - 1
"""The ledger in the receipt for a message that had already been stored."""
BATCH: Final = 5
SENT_AGAIN_MAX: Final = 60
SIZE: Final = struct.Struct(">I")


@dataclass(slots=True)
class SequenceBook:
    """One producer; its numbers are its sequence ids, from 0."""

    sent: int = -1
    confirmed: int = -1
    """The highest number in a receipt or in PRODUCER_SUCCESS."""
    lowered: list[int] = field(default_factory=list)
    doubtful: list[int] = field(default_factory=list)
    """New numbers whose receipt called them duplicates, or the other way round."""
    read: int = -1
    """The last number that the reader has received and acknowledged with a receipt."""

    began_with: int = -1
    """The number in PRODUCER_SUCCESS in the current life; greater numbers are new."""

    def begin(self, last: int) -> None:
        """PRODUCER_SUCCESS gave the last sequence id."""
        if last < self.confirmed:
            self.lowered.append(last)
        self.confirmed = max(self.confirmed, last)
        self.began_with = last

    def receipt(self, first: int, last: int, *, was_there: bool) -> None:
        """The numbers from ``first`` to ``last`` are stored."""
        self.confirmed = max(self.confirmed, last)
        if was_there is (first > self.began_with):
            self.doubtful.append(first)


def judge_sequence(book: SequenceBook, found: list[int]) -> list[str]:
    """Every broken promise; ``found`` is what the reader received after what it had before."""
    whole = [book.read, *found]
    return [
        *some("stored twice, or out of order", [b for a, b in pairwise(whole) if b <= a]),
        *some("left out", [b for a, b in pairwise(whole) if b > a + 1]),
        *some("lost", [book.confirmed] if whole[-1] < book.confirmed else []),
        *some("never published", [each for each in found if each > book.sent]),
        *some("a last sequence id that was higher before", book.lowered),
        *some("new and called a duplicate, or the other way round", book.doubtful),
    ]


class DeduplicationPlayer(Player):
    """Two producers with fixed names, one of single messages and one of batches. Both start again
    some way before where they stopped."""

    name = "once"

    PRODUCERS: Final = {"single": 1, "batched": BATCH}

    _books: dict[str, SequenceBook]

    async def prepare(self) -> None:
        client = await self.pulsar()
        for consumer, name in enumerate(self.PRODUCERS, 1):
            await client.subscribe(self.topic(name), "reader", consumer=consumer, kind=EXCLUSIVE)
            path = f"{self.called(name)}/deduplicationEnabled"
            await asyncio.to_thread(Admin(self.broker.admin_url).post, path, True)
        await client.abort()
        self._books = {name: SequenceBook() for name in self.PRODUCERS}

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    async def start(self) -> list[Loop]:
        loops = [self._produce(name, await self.pulsar()) for name in self.PRODUCERS]
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        return ", ".join(f"{name} {book.read + 1} once" for name, book in self._books.items())

    async def judge(self) -> list[str]:
        return [
            f"{name}: {anomaly}"
            for name in self.PRODUCERS
            for anomaly in await self._judge_one(name)
        ]

    async def _judge_one(self, name: str) -> list[str]:
        book, client = self._books[name], await self.pulsar()
        await self._begin(name, client)
        inbox = inbox_of(client)
        await client.subscribe(self.topic(name), "reader", kind=EXCLUSIVE)
        client.flow(1 << 20)
        # This message comes after everything else, and shows that the numbers continue.
        answers = self._send(name, client, book.confirmed + 1)
        await asyncio.wait_for(answers, 10)
        last = book.confirmed
        await inbox.until(lambda: bool(inbox.items) and numbers_of(inbox.items[-1])[-1] >= last)
        found = [number for each in inbox.items for number in numbers_of(each)]
        anomalies = judge_sequence(book, found)
        await client.acknowledge([(inbox.items[-1].place, None)], cumulative=True)
        book.read = found[-1]
        await client.abort()
        return anomalies

    async def _begin(self, name: str, client: PulsarClient) -> int:
        """Create the producer; the result is its last sequence id according to the broker."""
        while True:
            try:
                answer = await client.create_producer(self.topic(name), more=[(4, name), (9, 1)])
                break
            except PulsarClosed:
                if client.closed:
                    raise
                await pause(0.02)  # its previous connection has not been found closed yet
        last = integer(answer, 3, NOBODY_YET)
        last = -1 if last == NOBODY_YET else last
        self._books[name].begin(last)
        return last

    def _send(self, name: str, client: PulsarClient, first: int) -> asyncio.Future[Message]:
        """Send one message or one batch."""
        book, count = self._books[name], self.PRODUCERS[name]
        last = first + count - 1
        book.sent = max(book.sent, last)
        metadata: list[tuple[int, int | str]] = [(1, name)]
        more = [(3, count)]
        if count == 1:
            data = body_of(first, self.dice.choice([20, 2_000]))
        else:
            data = b"".join(map(packed, range(first, first + count)))
            metadata += [(11, count), (24, last)]
            more.append((6, last))
        answer = client.send(first, data, more=more, metadata=metadata)

        def note(done: asyncio.Future[Message]) -> None:
            if not done.cancelled() and not done.exception():
                book.receipt(first, last, was_there=is_nowhere(done.result()))

        answer.add_done_callback(note)
        return answer

    async def _produce(self, name: str, client: PulsarClient) -> None:
        step = self.PRODUCERS[name]
        last = await self._begin(name, client)
        again = self.dice.randrange(SENT_AGAIN_MAX)
        number = max(0, (last + 1 - again) // step * step)
        window = asyncio.Semaphore(self.dice.choice([1, 10, 100]))
        while client.closed is None:
            await window.acquire()
            answer = self._send(name, client, number)
            answer.add_done_callback(lambda _: window.release())
            number += step
            await pause()


def packed(number: int) -> bytes:
    """A message packed in a batch."""
    body = body_of(number, 50)
    described = encode([(3, len(body))])
    return SIZE.pack(len(described)) + described + body


def numbers_of(entry: Entry) -> list[int]:
    """The numbers of the messages in an entry."""
    if entry.messages == 1:
        return [number_of(entry.payload)]
    numbers, at = [], 0
    for _ in range(entry.messages):
        (size,) = SIZE.unpack_from(entry.payload, at)
        at += SIZE.size + size
        # The size of each body is in its metadata, but all bodies have the same size here.
        body = entry.payload[at : at + len(body_of(0, 50))]
        numbers.append(number_of(body))
        at += len(body)
    return numbers


def is_nowhere(receipt: Message) -> bool:
    """Whether a receipt says that the message had already been stored."""
    return integer(decode(data_of(receipt, 3)), 1) == NOWHERE
