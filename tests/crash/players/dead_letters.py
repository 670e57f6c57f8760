"""Dead letters: rejected, expired, over the length limit, delivered too often. Each message is in
its queue, or at both places where dead letters go with its death on record, and never in the queue
and there."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import dropwhile
from typing import Any, Final

from conformance.wire.amqp import AmqpClient, Delivery
from pamqp import base, commands
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


class Answer(Enum):
    """What a consumer says of a delivery."""

    ACK = auto()
    REJECT = auto()
    REQUEUE = auto()


ANSWER_PARTS: Final = {Answer.ACK: 0.3, Answer.REJECT: 0.3, Answer.REQUEUE: 0.4}


@dataclass(slots=True)
class DeathBook:
    """What was published to each source."""

    sent: int = 0
    source: dict[int, str] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    acks: AckBook[int] = field(default_factory=AckBook)
    rejects: AckBook[int] = field(default_factory=AckBook)
    """The rejections of the current life."""
    rejected: dict[str, dict[int, None]] = field(
        default_factory=lambda: {each: {} for each in SOURCES}
    )
    """The same for each source, in their order."""
    again: list[int] = field(default_factory=list)
    """Messages that were delivered although they had been rejected in the same life."""
    dead: set[int] = field(default_factory=set)
    """Messages found dead after earlier restarts."""

    def see(self, source: str, numbers: Sequence[int]) -> None:
        """These were delivered."""
        self.again += [each for each in numbers if each in self.rejected[source]]

    def reject(self, source: str, numbers: Sequence[int]) -> None:
        """These are about to be rejected."""
        self.rejects.send(numbers)
        self.rejected[source].update(dict.fromkeys(numbers))

    def crash(self, now: float) -> None:
        self.acks.crash(now)
        self.rejects.crash(now)

    def recovered(self, dead: set[int]) -> None:
        """All that was rejected is dead by now, of that or of something else."""
        self.dead = dead
        self.rejects = AckBook()
        for numbers in self.rejected.values():
            numbers.clear()

    def answered(self, number: int, acked: bool) -> None:
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
    anomalies = [
        *some("refused", book.refused),
        *some("rejected and delivered again", book.again),
        *_judge_rejections(book, found[DEAD[0]]),
    ]
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


def _judge_rejections(book: DeathBook, letters: list[Dead]) -> Iterator[str]:
    """Rejections count in their order: what a crash takes back are the last ones of each source."""
    counted = {each.number for each in letters if each.deaths and each.deaths[-1][1] == "rejected"}
    yield from some("rejected and not dead of it", sorted(book.rejects.durable - counted))
    for source, numbers in book.rejected.items():
        since_last = list(dropwhile(lambda each: each not in counted, reversed(numbers)))
        passed_over = [each for each in reversed(since_last) if each not in counted]
        yield from some(f"{source}: passed over by later rejections", passed_over)


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
            publisher = await Publisher.begin(await self.amqp(), window, self._book.answered)
            loops.append(self._publish(publisher, source))
            loops.append(self._consume(await self.amqp(), source))
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        confirmed, dead = len(self._book.confirmed), len(self._book.dead)
        acked = len(self._book.acks.durable)
        return f"{confirmed} confirmed, {dead} dead, {acked} acked, generation {self.generation}"

    def crash(self, now: float) -> None:
        self._book.crash(now)

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
        self._book.recovered({each.number for each in found[DEAD[0]]})
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
            numbers = [number_of(each.body) for each in run]
            book.see(source, numbers)
            answers = chosen_answers(len(run), self.dice)
            acked, rejected = (
                [number for number, each in zip(numbers, answers, strict=True) if each is kind]
                for kind in (Answer.ACK, Answer.REJECT)
            )
            book.acks.send(acked)
            book.reject(source, rejected)
            frames = frames_of(answers, [each.tag for each in run], self.dice)
            for row in [frames] if self.dice.random() < 0.5 else zip(frames):
                client.send_together(row)
            await client.round_trip()
            now = asyncio.get_running_loop().time()
            book.acks.reach(acked, now)
            book.rejects.reach(rejected, now)


def chosen_answers(count: int, dice: random.Random) -> list[Answer]:
    """As many answers: half of the time all are the same, because rows of one kind are read as one
    run."""
    kinds, parts = list(ANSWER_PARTS), list(ANSWER_PARTS.values())
    if dice.random() < 0.5:
        return dice.choices(kinds, parts) * count
    return dice.choices(kinds, parts, k=count)


def frames_of(
    answers: Sequence[Answer], tags: Sequence[int], dice: random.Random
) -> list[base.Frame]:
    """How the answers are said: by reject, by nack or by both in turns; equal ones perhaps all at
    once."""
    if len(set(answers)) == 1 and dice.random() < 0.3:
        return [_frame_of(answers[0], tags[-1], by_nack=True, multiple=True)]
    nack_part = dice.choice([0.0, 0.5, 1.0])
    return [
        _frame_of(answer, tag, by_nack=dice.random() < nack_part)
        for answer, tag in zip(answers, tags, strict=True)
    ]


def _frame_of(answer: Answer, tag: int, *, by_nack: bool, multiple: bool = False) -> base.Frame:
    if answer is Answer.ACK:
        return commands.Basic.Ack(tag, multiple)
    requeue = answer is Answer.REQUEUE
    if by_nack:
        return commands.Basic.Nack(tag, multiple, requeue)
    return commands.Basic.Reject(tag, requeue)


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
