"""Messages for several queues at once, stored once if they are large: in all queues or in none,
byte for byte, and gone with the last queue."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from conformance.wire.amqp import AmqpClient, Delivery
from pamqp import commands
from tests.crash.history import AckBook
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.clients import Publisher, answer_some, consume, drained, pause
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import judge_acks, some

SIZES: Final = (100, 3_900, 4_200, 9_000, 17_000, 70_000)
CONSUMED: Final = ("a", "b", "c")
"""Queues whose consumers acknowledge."""
DISTURBED: Final = ("purged", "deleted")
"""Queues whose contents cannot be predicted."""
KEPT: Final = "kept"
"""A queue that nothing leaves during a generation."""
GENERATION_MESSAGES: Final = 1_500


@dataclass(slots=True)
class FanBook:
    """What was published to the exchange, and acknowledged in each queue."""

    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    damaged: list[int] = field(default_factory=list)
    acks: dict[str, AckBook[int]] = field(
        default_factory=lambda: {each: AckBook() for each in CONSUMED}
    )

    def see(self, delivery: Delivery) -> int:
        if not is_whole(delivery.body):
            self.damaged.append(number_of(delivery.body))
        return number_of(delivery.body)


def judge_fan_out(book: FanBook, found: dict[str, list[int]]) -> list[str]:
    """Every broken promise; ``found`` is what is ready in each queue, in order."""
    log = found[KEPT]
    anomalies = [
        *some("lost", sorted(book.confirmed - set(log))),
        *some("never published", [each for each in log if not 0 < each <= book.sent]),
        *some("out of order", [b for a, b in pairwise(log) if b <= a]),
        *some("seen and taken back by the crash", sorted(book.seen - set(log))),
        *some("damaged", book.damaged),
        *some("refused", book.refused),
    ]
    for name, acks in book.acks.items():
        anomalies += judge_acks(name, acks, log, found[name])
    for name in DISTURBED:
        anomalies += [
            *some(f"{name}: not in the other queues", sorted(set(found[name]) - set(log))),
            *some(f"{name}: out of order", [b for a, b in pairwise(found[name]) if b <= a]),
        ]
    return anomalies


class FanOutPlayer(Player):
    """A publisher to a fanout exchange with six queues, which are consumed, purged and deleted."""

    name = "fan"

    _book: FanBook

    @property
    def _queues(self) -> dict[str, str]:
        return {each: self.called(each) for each in (*CONSUMED, *DISTURBED, KEPT)}

    async def prepare(self) -> None:
        client = await self.amqp()
        declare = commands.Exchange.Declare(
            exchange=self.called("all"), exchange_type="fanout", durable=True
        )
        await client.call(declare, commands.Exchange.DeclareOk)
        for queue in self._queues.values():
            await self._declare(client, queue)
        self._book = FanBook()

    async def clear(self) -> None:
        client = await self.amqp()
        for queue in self._queues.values():
            await client.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
        delete = commands.Exchange.Delete(exchange=self.called("all"))
        await client.call(delete, commands.Exchange.DeleteOk)

    async def start(self) -> list[Loop]:
        publisher = await Publisher.begin(
            await self.amqp(), self.dice.choice([1, 8, 40]), self._told
        )
        sizes = self.dice.choices(SIZES, k=3)
        loops = [self._publish(publisher, sizes)]
        loops += [self._consume(await self.amqp(), each) for each in CONSUMED]
        loops += [self._disturb(await self.amqp())]
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        acked = sum(len(acks.durable) for acks in self._book.acks.values())
        return f"{len(self._book.confirmed)} confirmed, {acked} acked, generation {self.generation}"

    def crash(self, now: float) -> None:
        for acks in self._book.acks.values():
            acks.crash(now)

    async def judge(self) -> list[str]:
        client = await self.amqp()
        await self._declare(client, self._queues["deleted"])
        found = {name: await self._drained(queue) for name, queue in self._queues.items()}
        anomalies = judge_fan_out(self._book, found)
        for name, acks in self._book.acks.items():
            acks.recovered(found[KEPT], found[name])
        if len(found[KEPT]) > GENERATION_MESSAGES:
            await self.end()
            await self.renew()
        return anomalies

    async def _drained(self, queue: str) -> list[int]:
        client = await self.amqp()
        found = [self._book.see(each) for each in await drained(client, queue)]
        await client.abort()
        return found

    def _told(self, number: int, acked: bool) -> None:
        if acked:
            self._book.confirmed.add(number)
        else:
            self._book.refused.append(number)

    async def _declare(self, client: AmqpClient, queue: str) -> None:
        await client.declare_queue(queue)
        bind = commands.Queue.Bind(queue=queue, exchange=self.called("all"), routing_key="")
        await client.call(bind, commands.Queue.BindOk)

    async def _publish(self, publisher: Publisher, sizes: list[int]) -> None:
        while True:
            self._book.sent += 1
            number = self._book.sent
            body = body_of(number, self.dice.choice(sizes))
            await publisher.publish(number, self.called("all"), "", body)

    async def _consume(self, client: AmqpClient, name: str) -> None:
        acks = self._book.acks[name]
        inbox = await consume(client, self._queues[name], prefetch=self.dice.choice([3, 50]))
        while run := await inbox.run():
            numbers = [self._book.see(each) for each in run]
            self._book.seen.update(numbers)
            await answer_some(client, run, acks, self.dice)

    async def _disturb(self, client: AmqpClient) -> None:
        purged, deleted = (self._queues[each] for each in DISTURBED)
        while True:
            await pause(self.dice.uniform(0.01, 0.2))
            if self.dice.random() < 0.5:
                await client.call(commands.Queue.Purge(queue=purged), commands.Queue.PurgeOk)
            else:
                await client.call(commands.Queue.Delete(queue=deleted), commands.Queue.DeleteOk)
                await pause(self.dice.uniform(0, 0.05))
                await self._declare(client, deleted)
