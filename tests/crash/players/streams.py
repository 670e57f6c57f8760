"""Streams with retention: an offset belongs to one message for ever, and only the oldest messages
may be removed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from conformance.wire.amqp import AmqpClient, Delivery
from pamqp import commands
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.clients import Publisher, consume
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

KEPT_BYTES: Final = 400_000
SEGMENT_BYTES: Final = 40_000
HEAD_BYTES_MAX: Final = 200
"""A generous bound on what is stored with a body: header, route and properties."""
ARGUMENTS: Final = {
    "x-queue-type": "stream",
    "x-max-length-bytes": KEPT_BYTES,
    "x-stream-max-segment-size-bytes": SEGMENT_BYTES,
}

Offset = int
Number = int


@dataclass(slots=True)
class StreamBook:
    """What was published, and every offset that was ever seen."""

    sent: Number = 0
    confirmed: set[Number] = field(default_factory=set)
    refused: list[Number] = field(default_factory=list)
    seen: dict[Offset, Number] = field(default_factory=dict)
    moved: list[tuple[Offset, Number, Number]] = field(default_factory=list)
    damaged: list[Offset] = field(default_factory=list)
    lowest: Offset = 0
    """Where the log began when it was last read; everything before is gone for good."""

    def see(self, offset: Offset, body: bytes) -> None:
        if not is_whole(body):
            self.damaged.append(offset)
            return
        number = number_of(body)
        if self.seen.setdefault(offset, number) != number:
            self.moved.append((offset, self.seen[offset], number))


def judge_stream(book: StreamBook, log: Sequence[tuple[Offset, Number, int]]) -> list[str]:
    """Every broken promise; ``log`` is the whole stream with the sizes of its bodies."""
    offsets = [offset for offset, _, _ in log]
    numbers = [number for _, number, _ in log]
    first_offset, first_number = (offsets[0], numbers[0]) if log else (0, 0)
    known = dict(zip(offsets, numbers, strict=True))
    kept = sum(size + HEAD_BYTES_MAX for _, _, size in log)
    return [
        *some("offsets with a gap", [b for a, b in pairwise(offsets) if b != a + 1]),
        *some("out of order", [b for a, b in pairwise(numbers) if b <= a]),
        *some("another message at an offset", book.moved),
        *some("damaged", book.damaged),
        *some("refused", book.refused),
        *some("never published", [each for each in numbers if not 0 < each <= book.sent]),
        *some(
            "lost",
            sorted(n for n in book.confirmed.difference(numbers) if n >= first_number),
        ),
        *some(
            "seen and taken back by the crash",
            [each for each in book.seen if each >= first_offset and each not in known],
        ),
        *some("came back after it had gone", [each for each in offsets if each < book.lowest]),
        *some(
            "gone though there was room",
            [first_offset] if first_offset and kept < KEPT_BYTES else [],
        ),
    ]


def offset_of(delivery: Delivery) -> Offset:
    headers = delivery.properties.headers or {}
    return int(headers["x-stream-offset"])  # type: ignore[call-overload]


class StreamPlayer(Player):
    """One publisher, and readers that begin anywhere."""

    name = "stream"

    _book: StreamBook

    @property
    def _queue(self) -> str:
        return self.called("log")

    async def prepare(self) -> None:
        client = await self.amqp()
        await client.declare_queue(self._queue, arguments=ARGUMENTS)
        self._book = StreamBook()

    async def clear(self) -> None:
        client = await self.amqp()
        await client.call(commands.Queue.Delete(queue=self._queue), commands.Queue.DeleteOk)

    async def start(self) -> list[Loop]:
        publisher = await self._publisher(self.dice.choice([1, 20, 200]))
        size = self.dice.choice([50, 500, 3_000, 9_000])
        highest = max(self._book.seen, default=0)
        starts = ["first", "last", "next", self.dice.randint(0, highest)]
        readers = [self._read(await self.amqp(), self.dice.choice(starts)) for _ in range(2)]
        return [until_gone(self._publish(publisher, size)), *map(until_gone, readers)]

    async def judge(self) -> list[str]:
        book = self._book
        marker = book.sent + 1
        publisher = await self._publisher(1)
        await self._publish_one(publisher, 50)
        await publisher.take_over()
        found = await self._read_until("first", marker)
        for delivery in found:
            book.see(offset_of(delivery), delivery.body)
        log = [(offset_of(d), number_of(d.body), len(d.body)) for d in found]
        anomalies = judge_stream(book, log)
        start = self.dice.choice(log[len(log) // 2 :])[0]
        again = await self._read_until(start, marker)
        if offset_of(again[0]) != start:
            anomalies.append(f"began elsewhere: expected offset {start}, got {offset_of(again[0])}")
        book.lowest = log[0][0]
        book.seen = {offset: number for offset, number, _ in log}
        return anomalies

    def summary(self) -> str:
        book = self._book
        return f"{len(book.confirmed)} confirmed, the first {book.lowest} gone"

    async def _publisher(self, window: int) -> Publisher:
        def note(number: int, acked: bool) -> None:
            if acked:
                self._book.confirmed.add(number)
            else:
                self._book.refused.append(number)

        return await Publisher.begin(await self.amqp(), window, note)

    async def _publish(self, publisher: Publisher, size: int) -> None:
        while True:
            await self._publish_one(publisher, size)

    async def _publish_one(self, publisher: Publisher, size: int) -> None:
        self._book.sent += 1
        number = self._book.sent
        await publisher.publish(number, "", self._queue, body_of(number, size))

    async def _read(self, client: AmqpClient, start: str | int) -> None:
        inbox = await consume(
            client, self._queue, prefetch=100, arguments={"x-stream-offset": start}
        )
        while run := await inbox.run():
            for delivery in run:
                self._book.see(offset_of(delivery), delivery.body)
            client.acknowledge(run[-1].tag, multiple=True)
            await client.drain()

    async def _read_until(self, start: str | int, marker: Number) -> list[Delivery]:
        client = await self.amqp()
        inbox = await consume(
            client, self._queue, prefetch=1_000, arguments={"x-stream-offset": start}
        )
        while run := await inbox.run():
            client.acknowledge(run[-1].tag, multiple=True)
            if number_of(run[-1].body) == marker:
                break
        return inbox.items
