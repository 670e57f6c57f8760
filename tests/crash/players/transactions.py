"""AMQP transactions: messages are moved from one queue to two others, all of a transaction or
none."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from conformance.wire.amqp import AmqpClient
from pamqp import commands
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.clients import Publisher, consume, drained
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

FROM: Final = "from"
TO: Final = ("to", "also")
GENERATION_MESSAGES: Final = 6_000


@dataclass(slots=True)
class MoveBook:
    """What was published, and which moves were committed."""

    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    units: list[frozenset[int]] = field(default_factory=list)
    """Each transaction of the current life whose commit was sent."""
    moved: set[int] = field(default_factory=set)
    """Committed, or found moved after a restart."""

    def answered(self, number: int, acked: bool) -> None:
        if acked:
            self.confirmed.add(number)
        else:
            self.refused.append(number)


def judge_moves(book: MoveBook, found: dict[str, list[int]]) -> list[str]:
    """Every broken promise; ``found`` is what is in each queue."""
    source, moved = set(found[FROM]), set(found[TO[0]])
    counts = {name: Counter(numbers) for name, numbers in found.items()}
    torn = [sorted(unit) for unit in book.units if 0 < len(unit & moved) < len(unit)]
    return [
        *some("refused", book.refused),
        *some("lost", sorted(book.confirmed - source - moved)),
        *some("at both ends", sorted(source & moved)),
        *some("at one place of two", sorted(moved ^ set(found[TO[1]]))),
        *some("committed and not moved", sorted(book.moved - moved)),
        *some("never published", [n for n in source | moved if not 0 < n <= book.sent]),
        *some("half a transaction", torn),
        *(
            line
            for name, each in counts.items()
            for line in some(f"{name}: twice", [n for n, count in each.items() if count > 1])
        ),
    ]


class TransactionPlayer(Player):
    """A publisher that fills a queue, and two movers."""

    name = "moved"

    _book: MoveBook

    async def prepare(self) -> None:
        client = await self.amqp()
        for queue in (FROM, *TO):
            await client.declare_queue(self.called(queue))
        self._book = MoveBook()

    async def clear(self) -> None:
        client = await self.amqp()
        for queue in (FROM, *TO):
            delete = commands.Queue.Delete(queue=self.called(queue))
            await client.call(delete, commands.Queue.DeleteOk)

    async def start(self) -> list[Loop]:
        client = await self.amqp()
        publisher = await Publisher.begin(client, self.dice.choice([1, 30]), self._book.answered)
        loops = [self._publish(publisher)]
        loops += [self._move(await self.amqp()) for _ in range(2)]
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        book = self._book
        return f"{len(book.confirmed)} confirmed, {len(book.moved)} moved"

    async def judge(self) -> list[str]:
        found = {}
        for queue in (FROM, *TO):
            client = await self.amqp()
            deliveries = await drained(client, self.called(queue))
            if not all(is_whole(each.body) for each in deliveries):
                return [f"{queue}: damaged"]
            found[queue] = [number_of(each.body) for each in deliveries]
            await client.abort()
        anomalies = judge_moves(self._book, found)
        self._book.units.clear()
        self._book.moved = set(found[TO[0]])
        if len(self._book.moved) > GENERATION_MESSAGES:
            await self.end()
            await self.renew()
        return anomalies

    async def _publish(self, publisher: Publisher) -> None:
        while True:
            self._book.sent += 1
            number = self._book.sent
            body = body_of(number, self.dice.choice([20, 500, 6_000]))
            await publisher.publish(number, "", self.called(FROM), body)

    async def _move(self, client: AmqpClient) -> None:
        book = self._book
        await client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        inbox = await consume(client, self.called(FROM), prefetch=self.dice.choice([1, 9, 40]))
        while run := await inbox.run():
            numbers = frozenset(number_of(each.body) for each in run)
            for delivery in run:
                for queue in TO:
                    client.publish("", self.called(queue), delivery.body)
                client.acknowledge(delivery.tag)
            if self.dice.random() < 0.1:
                await client.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)
                for delivery in run:
                    client.requeue(delivery.tag)
                await client.call(commands.Tx.Commit(), commands.Tx.CommitOk)
                continue
            book.units.append(numbers)
            await client.call(commands.Tx.Commit(), commands.Tx.CommitOk)
            book.moved |= numbers
