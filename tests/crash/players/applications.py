"""Messages as applications send them: each with properties of its own, through a topic exchange
with many keys, in rows that are mandatory and rows that are not; and answered in rows of acks,
rejects and nacks. Each is in every queue of its key, or given back before it is confirmed."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from conformance.wire.amqp import PERSISTENT, AmqpClient, Delivery
from pamqp import base, commands
from tests.crash.history import AckBook
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.clients import Publisher, consume, drained, pause
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

QUEUES: Final = ("east", "west")
BINDINGS: Final = (("east", "east.#"), ("west", "west.#"), ("east", "both.*"), ("west", "both.*"))
ROUTES: Final = {"east": ("east",), "west": ("west",), "both": QUEUES, "none": ()}
"""The queues that the first word of a key leads to."""
KEYS_OF_A_ROUTE: Final = 30
WINDOWS: Final = (1, 10, 100, 500)
PREFETCHES: Final = (20, 1_000)
ROW_MAX: Final = 40
GENERATION_MESSAGES: Final = 8_000
FAST_MESSAGES: Final = 3_000
"""After so many in a life the publisher pauses between messages, so that judging stays short."""


ANSWERS: Final[tuple[Callable[[int], base.Frame], ...]] = (
    lambda tag: commands.Basic.Ack(tag, False),
    lambda tag: commands.Basic.Reject(tag, False),
    lambda tag: commands.Basic.Nack(tag, False, False),
    lambda tag: commands.Basic.Nack(tag, False, True),
)


@dataclass(slots=True)
class ApplicationBook:
    """What was published, and what became of it."""

    sent: int = 0
    queues: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Where each message belongs."""
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    due_back: deque[tuple[int, str]] = field(default_factory=deque)
    """Mandatory messages without a queue that have not been given back, and their keys."""
    strangely_returned: list[str] = field(default_factory=list)
    unreturned: list[int] = field(default_factory=list)
    """Those that were confirmed before they were given back."""
    damaged: list[int] = field(default_factory=list)
    seen: dict[str, set[int]] = field(default_factory=lambda: {each: set() for each in QUEUES})
    acks: dict[str, AckBook[int]] = field(
        default_factory=lambda: {each: AckBook() for each in QUEUES}
    )

    def send(self, number: int, key: str, *, mandatory: bool) -> None:
        self.sent = number
        self.queues[number] = ROUTES[key.partition(".")[0]]
        if mandatory and not self.queues[number]:
            self.due_back.append((number, key))

    def answered(self, number: int, acked: bool) -> None:
        if not acked:
            self.refused.append(number)
            return
        self.confirmed.add(number)
        if any(number == each for each, _ in self.due_back):
            self.unreturned.append(number)

    def give_back(self, key: str) -> None:
        """A message with this key was returned."""
        if self.due_back and self.due_back[0][1] == key:
            self.due_back.popleft()
        else:
            self.strangely_returned.append(key)

    def see(self, delivery: Delivery) -> int:
        number = number_of(delivery.body)
        mine = (delivery.properties.message_id, delivery.properties.headers)
        if not is_whole(delivery.body) or mine != (id_of(number), headers_of(number)):
            self.damaged.append(number)
        return number

    def crash(self, now: float) -> None:
        self.due_back.clear()
        for acks in self.acks.values():
            acks.crash(now)

    def recovered(self, found: dict[str, list[int]]) -> None:
        for name, numbers in found.items():
            mine = [each for each, queues in self.queues.items() if name in queues]
            self.acks[name].recovered(mine, numbers)


def judge_applications(book: ApplicationBook, found: dict[str, list[int]]) -> list[str]:
    """Every broken promise; ``found`` is what is ready in each queue, in order."""
    anomalies = [
        *some("refused", book.refused),
        *some("returned though not due", book.strangely_returned),
        *some("confirmed before it was returned", book.unreturned),
        *some("damaged", book.damaged),
    ]
    for name in QUEUES:
        anomalies += (f"{name}: {each}" for each in _judge_queue(book, name, found[name]))
    there = {name: set(found[name]) | book.acks[name].sent for name in QUEUES}
    for name in QUEUES:
        torn = [
            each
            for each in found[name]
            if any(each not in there[other] for other in book.queues.get(each, ()))
        ]
        anomalies += some(f"only in {name}", torn)
    return anomalies


def _judge_queue(book: ApplicationBook, name: str, found: list[int]) -> Iterator[str]:
    acks, numbers = book.acks[name], set(found)
    mine = {each for each in book.confirmed if name in book.queues[each]}
    yield from some("lost", sorted(mine - numbers - acks.sent))
    yield from some("answered and came back", sorted(acks.durable & numbers))
    yield from some("seen and taken back", sorted(book.seen[name] - numbers - acks.sent))
    yield from some("strange", [each for each in found if name not in book.queues.get(each, ())])
    yield from some("out of order, or twice", [b for a, b in pairwise(found) if b <= a])


def id_of(number: int) -> str:
    """A message's id: as long as a UUID."""
    return f"{number:036}"


def headers_of(number: int) -> dict[str, Any]:
    """Three headers that differ from those of the next message."""
    return {"trace-id": f"{number * 7_919:016x}", "attempt": number % 5, "tenant": f"t{number}"}


class ApplicationPlayer(Player):
    """A publisher and two consumers."""

    name = "apps"

    _book: ApplicationBook

    async def prepare(self) -> None:
        client = await self.amqp()
        exchange = self.called("in")
        declare = commands.Exchange.Declare(exchange=exchange, exchange_type="topic", durable=True)
        await client.call(declare, commands.Exchange.DeclareOk)
        for name in QUEUES:
            await client.declare_queue(self.called(name))
        for name, pattern in BINDINGS:
            bind = commands.Queue.Bind(
                queue=self.called(name), exchange=exchange, routing_key=pattern
            )
            await client.call(bind, commands.Queue.BindOk)
        self._book = ApplicationBook()

    async def clear(self) -> None:
        client = await self.amqp()
        for name in QUEUES:
            delete = commands.Queue.Delete(queue=self.called(name))
            await client.call(delete, commands.Queue.DeleteOk)
        gone = commands.Exchange.Delete(exchange=self.called("in"))
        await client.call(gone, commands.Exchange.DeleteOk)

    async def start(self) -> list[Loop]:
        client = await self.amqp()
        client.handlers.returned = lambda method: self._book.give_back(method.routing_key or "")
        publisher = await Publisher.begin(client, self.dice.choice(WINDOWS), self._book.answered)
        loops = [self._publish(publisher)]
        loops += [self._consume(await self.amqp(), each) for each in QUEUES]
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        book = self._book
        answered = sum(len(acks.durable) for acks in book.acks.values())
        return f"{len(book.confirmed)} confirmed, {answered} gone, generation {self.generation}"

    def crash(self, now: float) -> None:
        self._book.crash(now)

    async def judge(self) -> list[str]:
        book = self._book
        found: dict[str, list[int]] = {}
        for name in QUEUES:
            client = await self.amqp()
            found[name] = [book.see(each) for each in await drained(client, self.called(name))]
            await client.abort()
        anomalies = judge_applications(book, found)
        book.recovered(found)
        if book.sent > GENERATION_MESSAGES:
            await self.end()
            await self.renew()
        return anomalies

    async def _publish(self, publisher: Publisher) -> None:
        dice, published = self.dice, 0
        mandatory_part = dice.choice([0.0, 0.5, 1.0])
        homeless_part = dice.choice([0.02, 0.1])
        while True:
            mandatory = dice.random() < mandatory_part
            for _ in range(dice.randrange(1, ROW_MAX)):
                published += 1
                word = dice.choice(("east", "west", "both"))
                if dice.random() < homeless_part:
                    word = "none"
                key = f"{word}.{dice.randrange(KEYS_OF_A_ROUTE)}"
                await self._publish_one(publisher, key, mandatory=mandatory)
                if published > FAST_MESSAGES:
                    await pause(0.001)

    async def _publish_one(self, publisher: Publisher, key: str, *, mandatory: bool) -> None:
        number = self._book.sent + 1
        properties = commands.Basic.Properties(
            delivery_mode=PERSISTENT,
            message_id=id_of(number),
            timestamp=datetime.fromtimestamp(number, UTC),
            headers=headers_of(number),
        )
        body = body_of(number, self.dice.randrange(40, 1_000))
        self._book.send(number, key, mandatory=mandatory)
        await publisher.publish(
            number, self.called("in"), key, body, properties, mandatory=mandatory
        )

    async def _consume(self, client: AmqpClient, name: str) -> None:
        book = self._book
        acks = book.acks[name]
        inbox = await consume(client, self.called(name), prefetch=self.dice.choice(PREFETCHES))
        while run := await inbox.run():
            numbers = [book.see(each) for each in run]
            book.seen[name].update(numbers)
            answer = self.dice.choice(ANSWERS)
            goes_back = answer is ANSWERS[-1]
            if not goes_back:
                acks.send(numbers)
            answers = [answer(delivery.tag) for delivery in run]
            for row in [answers] if self.dice.random() < 0.5 else zip(answers, strict=True):
                client.send_together(row)
            await client.round_trip()
            if not goes_back:
                acks.reach(numbers, asyncio.get_running_loop().time())
            await pause(self.dice.choice([0, 0.005]))
