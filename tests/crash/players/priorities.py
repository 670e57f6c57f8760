"""Priorities: urgent messages come first after a restart too, and within a priority in the order of
the queue."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from conformance.wire.amqp import AmqpClient
from pamqp import commands
from tests.crash.history import AckBook
from tests.crash.players.bodies import body_of, number_of
from tests.crash.players.clients import Publisher, answer_some, consume, drained
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

PRIORITIES: Final = 5
BACKLOG_MAX: Final = 3_000


@dataclass(slots=True)
class PriorityBook:
    """What was published with which priority, and what was acknowledged."""

    urgency: dict[int, int] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    acks: AckBook[int] = field(default_factory=AckBook)

    def answered(self, number: int, acked: bool) -> None:
        if acked:
            self.confirmed.add(number)
        else:
            self.refused.append(number)


def judge_priorities(book: PriorityBook, back: list[int]) -> list[str]:
    """Every broken promise; ``back`` is everything in the queue, in the order of delivery."""
    known = [each for each in back if each in book.urgency]
    ranks = [(-book.urgency[each], each) for each in known]
    return [
        *some("refused", book.refused),
        *some("lost", sorted(book.confirmed - set(back) - book.acks.sent)),
        *some("acked and came back", sorted(book.acks.durable & set(back))),
        *some("never published", sorted(set(back) - book.urgency.keys())),
        *some("twice", [each for each, count in Counter(back).items() if count > 1]),
        *some("out of order", [b for a, b in pairwise(ranks) if b < a]),
    ]


class PriorityPlayer(Player):
    """A publisher with all priorities, and a consumer that acknowledges some."""

    name = "urgent"

    _book: PriorityBook

    async def prepare(self) -> None:
        client = await self.amqp()
        await client.declare_queue(self.called("q"), arguments={"x-max-priority": PRIORITIES})
        self._book = PriorityBook()

    async def clear(self) -> None:
        client = await self.amqp()
        delete = commands.Queue.Delete(queue=self.called("q"))
        await client.call(delete, commands.Queue.DeleteOk)

    def summary(self) -> str:
        confirmed, acked = len(self._book.confirmed), len(self._book.acks.durable)
        return f"{confirmed} confirmed, {acked} acked, generation {self.generation}"

    async def start(self) -> list[Loop]:
        window = self.dice.choice([1, 10, 100])
        publisher = await Publisher.begin(await self.amqp(), window, self._book.answered)
        loops = [self._publish(publisher), self._consume(await self.amqp())]
        return [until_gone(loop) for loop in loops]

    def crash(self, now: float) -> None:
        self._book.acks.crash(now)

    async def judge(self) -> list[str]:
        book = self._book
        back = [number_of(each.body) for each in await drained(await self.amqp(), self.called("q"))]
        anomalies = judge_priorities(book, back)
        book.acks.recovered(book.urgency, back)
        if len(back) > BACKLOG_MAX:
            await self.end()
            await self.renew()
        return anomalies

    async def _publish(self, publisher: Publisher) -> None:
        while True:
            number = len(self._book.urgency) + 1
            self._book.urgency[number] = priority = self.dice.randrange(PRIORITIES + 1)
            properties = commands.Basic.Properties(delivery_mode=2, priority=priority)
            body = body_of(number, self.dice.choice([30, 1_000]))
            await publisher.publish(number, "", self.called("q"), body, properties)

    async def _consume(self, client: AmqpClient) -> None:
        inbox = await consume(client, self.called("q"), prefetch=self.dice.choice([2, 50]))
        while run := await inbox.run():
            await answer_some(client, run, self._book.acks, self.dice)
