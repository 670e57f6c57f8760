"""Dead letters: rejected, expired, over the length limit, delivered too often. Each message is in
its queue, or at both places where dead letters go with its death on record, and never in the queue
and there."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.wire.amqp import AmqpClient, Delivery
from pamqp import commands
from tests.crash.history import AckBook
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.clients import Publisher, consume, drained, pause, ready
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

EXPIRES_MS: Final = 150
SOURCES: Final[dict[str, dict[str, Any]]] = {
    "classic": {"x-message-ttl": EXPIRES_MS, "x-max-length": 100},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 2, "x-message-ttl": 400},
}
"""Everything published to these queues leaves them by itself in the end."""
REASONS: Final = {
    "classic": {"rejected", "expired", "maxlen"},
    "quorum": {"rejected", "expired", "delivery_limit"},
}
DEAD: Final = ("one", "two")
GENERATION_MESSAGES: Final = 4_000
EMPTY_WITHIN_S: Final = 20.0
STILL_ROUNDS: Final = 3
"""How many rounds without a change it takes to conclude that nothing is on its way."""


@dataclass(slots=True)
class DeathBook:
    """What was published to each source."""

    sent: int = 0
    source: dict[int, str] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    acks: AckBook[int] = field(default_factory=AckBook)
    dead: set[int] = field(default_factory=set)
    """Messages found dead after earlier restarts."""

    def told(self, number: int, acked: bool) -> None:
        if acked:
            self.confirmed.add(number)
        else:
            self.refused.append(number)


@dataclass(frozen=True, slots=True)
class Dead:
    """A dead letter as it was found."""

    number: int
    is_whole: bool
    deaths: tuple[tuple[str, str, int], ...]
    """The queue, reason and count of each record in ``x-death``."""


def judge_deaths(book: DeathBook, found: dict[str, list[Dead]]) -> list[str]:
    """Every broken promise; ``found`` has the dead letters at each place, after the sources have
    become empty."""
    anomalies = list(some("refused", book.refused))
    for place, letters in found.items():
        numbers = {each.number for each in letters}
        counts = Counter(each.number for each in letters)
        anomalies += [
            *some(f"{place}: lost", sorted(book.confirmed - numbers - book.acks.sent)),
            *some(f"{place}: acked and dead", sorted(book.acks.durable & numbers)),
            *some(f"{place}: twice", [each for each, count in counts.items() if count > 1]),
            *some(f"{place}: never published", sorted(numbers - book.source.keys())),
            *some(f"{place}: gone", sorted(book.dead - numbers)),
            *some(f"{place}: damaged", [each.number for each in letters if not each.is_whole]),
            *some(
                f"{place}: strange deaths", [each for each in letters if _is_strange(book, each)]
            ),
        ]
    first, second = ({each.number for each in letters} for letters in found.values())
    return [*anomalies, *some("at one place of two", sorted(first ^ second))]


def _is_strange(book: DeathBook, letter: Dead) -> bool:
    source = book.source.get(letter.number, "")
    return not (
        len(letter.deaths) == 1
        and letter.deaths[0][0] == source
        and letter.deaths[0][1] in REASONS.get(source, ())
        and letter.deaths[0][2] == 1
    )


class DeadLetterPlayer(Player):
    """Publishers to two queues whose dead letters go to two others, and consumers that rarely
    acknowledge."""

    name = "dying"

    _book: DeathBook

    async def prepare(self) -> None:
        client = await self.amqp()
        declare = commands.Exchange.Declare(
            exchange=self.called("end"), exchange_type="fanout", durable=True
        )
        await client.call(declare, commands.Exchange.DeclareOk)
        for place in DEAD:
            queue = self.called(place)
            await client.declare_queue(queue)
            bind = commands.Queue.Bind(queue=queue, exchange=self.called("end"), routing_key="")
            await client.call(bind, commands.Queue.BindOk)
        for source, arguments in SOURCES.items():
            mine = {**arguments, "x-dead-letter-exchange": self.called("end")}
            await client.declare_queue(self.called(source), arguments=mine)
        self._book = DeathBook()

    async def clear(self) -> None:
        client = await self.amqp()
        for queue in (*SOURCES, *DEAD):
            delete = commands.Queue.Delete(queue=self.called(queue))
            await client.call(delete, commands.Queue.DeleteOk)
        gone = commands.Exchange.Delete(exchange=self.called("end"))
        await client.call(gone, commands.Exchange.DeleteOk)

    async def start(self) -> list[Loop]:
        loops: list[Loop] = []
        for source in SOURCES:
            window = self.dice.choice([1, 10, 60])
            publisher = await Publisher.begin(await self.amqp(), window, self._book.told)
            loops.append(self._publish(publisher, source))
            loops.append(self._consume(await self.amqp(), source))
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        confirmed, dead = len(self._book.confirmed), len(self._book.dead)
        acked = len(self._book.acks.durable)
        return f"{confirmed} confirmed, {dead} dead, {acked} acked, generation {self.generation}"

    def crash(self, now: float) -> None:
        self._book.acks.crash(now)

    async def judge(self) -> list[str]:
        client = await self.amqp()
        try:
            async with asyncio.timeout(EMPTY_WITHIN_S):
                await self._until_empty(client)
        except TimeoutError:
            left = {each: await ready(client, self.called(each)) for each in SOURCES}
            return [f"still there after {EMPTY_WITHIN_S} s: {left}"]
        found = {place: await self._dead(place) for place in DEAD}
        anomalies = judge_deaths(self._book, found)
        self._book.dead = {each.number for each in found[DEAD[0]]}
        if len(self._book.dead) > GENERATION_MESSAGES:
            await self.end()
            await self.renew()
        return anomalies

    async def _until_empty(self, client: AmqpClient) -> None:
        """Wait until nothing is left in the sources or on its way from there."""
        still = 0
        counts: list[int] = []
        while still < STILL_ROUNDS:
            await pause(0.02)
            queues = [self.called(each) for each in (*SOURCES, *DEAD)]
            before, counts = counts, [await ready(client, each) for each in queues]
            still = still + 1 if counts == before and not any(counts[: len(SOURCES)]) else 0

    async def _dead(self, place: str) -> list[Dead]:
        client = await self.amqp()
        found = [dead_letter(each, self.generation) for each in await self._drained(client, place)]
        await client.abort()
        return found

    async def _drained(self, client: AmqpClient, place: str) -> list[Delivery]:
        return await drained(client, self.called(place))

    async def _publish(self, publisher: Publisher, source: str) -> None:
        book = self._book
        while True:
            book.sent += 1
            number = book.sent
            book.source[number] = source
            size = self.dice.choice([30, 300, 5_000])
            await publisher.publish(number, "", self.called(source), body_of(number, size))

    async def _consume(self, client: AmqpClient, source: str) -> None:
        book = self._book
        inbox = await consume(client, self.called(source), prefetch=self.dice.choice([5, 60]))
        while run := await inbox.run():
            acked = []
            # Rows of one kind of answer are read as one run.
            same = self.dice.random() if self.dice.random() < 0.5 else None
            for delivery in run:
                match same or self.dice.random():
                    case chance if chance < 0.3:
                        client.reject(delivery.tag)
                    case chance if chance < 0.7:
                        client.requeue(delivery.tag)
                    case _:
                        acked.append(number_of(delivery.body))
                        book.acks.send(acked[-1:])
                        client.acknowledge(delivery.tag)
            await client.round_trip()
            book.acks.reach(acked, asyncio.get_running_loop().time())


def dead_letter(delivery: Delivery, generation: int) -> Dead:
    """A dead letter, with its queues named as in the tables above."""
    headers: dict[str, Any] = dict(delivery.properties.headers or {})
    deaths = tuple(
        (
            each["queue"].removeprefix("dying-").removesuffix(f"-{generation}"),
            each["reason"],
            each["count"],
        )
        for each in headers.get("x-death", ())
    )
    return Dead(number_of(delivery.body), is_whole(delivery.body), deaths)
