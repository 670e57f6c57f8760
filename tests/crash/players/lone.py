"""A publisher that waits for every confirm: alone it is served by the journal, a run at a time."""

from dataclasses import dataclass, field
from itertools import pairwise

from pamqp import commands
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.clients import Publisher, drained
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

GENERATION_MESSAGES = 4_000


@dataclass(slots=True)
class LoneBook:
    """What was published, one by one."""

    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    """What was there after the last restart."""

    def told(self, number: int, acked: bool) -> None:
        if acked:
            self.confirmed.add(number)
        else:
            self.refused.append(number)


def judge_lone(book: LoneBook, found: list[int]) -> list[str]:
    """Every broken promise; ``found`` is the queue."""
    return [
        *some("refused", book.refused),
        *some("lost", sorted(book.confirmed - set(found))),
        *some("gone again", sorted(set(book.found) - set(found))),
        *some("never published", [each for each in found if not 0 < each <= book.sent]),
        *some("out of order, or twice", [b for a, b in pairwise(found) if b <= a]),
    ]


class LonePlayer(Player):
    """One publisher, whose queue nobody reads."""

    name = "lone"

    _book: LoneBook

    async def prepare(self) -> None:
        client = await self.amqp()
        await client.declare_queue(self.called("q"))
        self._book = LoneBook()

    async def clear(self) -> None:
        client = await self.amqp()
        delete = commands.Queue.Delete(queue=self.called("q"))
        await client.call(delete, commands.Queue.DeleteOk)

    def summary(self) -> str:
        return f"{len(self._book.confirmed)} confirmed, generation {self.generation}"

    async def start(self) -> list[Loop]:
        publisher = await Publisher.begin(await self.amqp(), 1, self._book.told)
        return [until_gone(self._publish(publisher))]

    async def judge(self) -> list[str]:
        deliveries = await drained(await self.amqp(), self.called("q"))
        if not all(is_whole(each.body) for each in deliveries):
            return ["damaged"]
        found = [number_of(each.body) for each in deliveries]
        anomalies = judge_lone(self._book, found)
        self._book.found = found
        if len(found) > GENERATION_MESSAGES:
            await self.end()
            await self.renew()
        return anomalies

    async def _publish(self, publisher: Publisher) -> None:
        size = self.dice.choice([20, 300, 3_000])
        while True:
            self._book.sent += 1
            number = self._book.sent
            await publisher.publish(number, "", self.called("q"), body_of(number, size))
