"""A publisher with a small window: when it is alone, each commit goes through the journal."""

from dataclasses import dataclass, field
from itertools import pairwise

from pamqp import commands
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.clients import Publisher, drained
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

GENERATION_MESSAGES = 4_000
WINDOWS = (1, 1, 3, 12, 40)
QUEUES = ("q", "twin")


@dataclass(slots=True)
class LoneBook:
    """What was published, one by one."""

    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    """What was there after the last restart."""
    both: set[int] = field(default_factory=set)
    """Messages sent to both queues; the others went to the first one."""

    def answered(self, number: int, acked: bool) -> None:
        if acked:
            self.confirmed.add(number)
        else:
            self.refused.append(number)


def judge_lone(book: LoneBook, found: list[int], twin: list[int]) -> list[str]:
    """Every broken promise; ``found`` and ``twin`` are the contents of the queues."""
    return [
        *some("refused", book.refused),
        *some("lost", sorted(book.confirmed - set(found))),
        *some("gone again", sorted(set(book.found) - set(found))),
        *some("never published", [each for each in found if not 0 < each <= book.sent]),
        *some("out of order, or twice", [b for a, b in pairwise(found) if b <= a]),
        *some("in one queue only", sorted((set(found) & book.both) ^ set(twin))),
        *some("out of order, or twice, in the other", [b for a, b in pairwise(twin) if b <= a]),
    ]


class LonePlayer(Player):
    """One publisher, whose queues nobody reads."""

    name = "lone"

    _book: LoneBook

    async def prepare(self) -> None:
        client = await self.amqp()
        exchange = self.called("both")
        declare = commands.Exchange.Declare(exchange=exchange, exchange_type="fanout", durable=True)
        await client.call(declare, commands.Exchange.DeclareOk)
        for name in QUEUES:
            queue = self.called(name)
            await client.declare_queue(queue)
            bind = commands.Queue.Bind(queue=queue, exchange=exchange, routing_key="")
            await client.call(bind, commands.Queue.BindOk)
        self._book = LoneBook()

    async def clear(self) -> None:
        client = await self.amqp()
        for name in QUEUES:
            delete = commands.Queue.Delete(queue=self.called(name))
            await client.call(delete, commands.Queue.DeleteOk)
        gone = commands.Exchange.Delete(exchange=self.called("both"))
        await client.call(gone, commands.Exchange.DeleteOk)

    def summary(self) -> str:
        return f"{len(self._book.confirmed)} confirmed, generation {self.generation}"

    async def start(self) -> list[Loop]:
        window = self.dice.choice(WINDOWS)
        publisher = await Publisher.begin(await self.amqp(), window, self._book.answered)
        return [until_gone(self._publish(publisher))]

    async def judge(self) -> list[str]:
        queues: list[list[int]] = []
        for name in QUEUES:
            deliveries = await drained(await self.amqp(), self.called(name))
            if not all(is_whole(each.body) for each in deliveries):
                return ["damaged"]
            queues.append([number_of(each.body) for each in deliveries])
        found, twin = queues
        anomalies = judge_lone(self._book, found, twin)
        self._book.found = found
        if len(found) > GENERATION_MESSAGES:
            await self.end()
            await self.renew()
        return anomalies

    async def _publish(self, publisher: Publisher) -> None:
        size = self.dice.choice([20, 300, 3_000])
        doubled = self.dice.choice([0.0, 0.1, 1.0])
        while True:
            self._book.sent += 1
            number = self._book.sent
            exchange, key = "", self.called(QUEUES[0])
            if self.dice.random() < doubled:
                self._book.both.add(number)
                exchange, key = self.called("both"), ""
            await publisher.publish(number, exchange, key, body_of(number, size))
