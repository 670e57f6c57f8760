"""Delayed messages, through both protocols: none is lost, none comes early, and none comes again
after a durable acknowledgement."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from tests.crash.history import AckBook
from tests.crash.players.bodies import is_whole, number_of
from tests.crash.players.clients import Inbox
from tests.crash.verdict import some

TRUNCATED: Final = timedelta(milliseconds=1)
"""Clocks are read in whole milliseconds on the way."""
WAITED_MAX: Final = timedelta(seconds=0.7)
"""What is due later than this after a restart is left for the next life."""
LATE_MAX: Final = timedelta(seconds=20)
"""How late a message may be on a busy machine before it is reported as missing."""
LONG: Final = timedelta(hours=1)
"""A delay that does not end during any test: the message must keep waiting and be there."""
DELAYS: Final = (
    timedelta(0),
    timedelta(milliseconds=5),
    timedelta(milliseconds=100),
    timedelta(milliseconds=600),
    timedelta(seconds=1),
    timedelta(seconds=3),
    timedelta(seconds=8),
    LONG,
)


@dataclass(slots=True)
class DelayBook:
    """When each message is due at the earliest, and its fate at one receiver."""

    due: dict[int, float] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    early: list[tuple[int, float]] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)

    def plan(self, delay: timedelta) -> int:
        """The number of a new message, published now."""
        number = len(self.due) + 1
        self.due[number] = time.time() + delay.total_seconds()
        return number

    def answered(self, number: int, acked: bool) -> None:
        if acked:
            self.confirmed.add(number)
        else:
            self.refused.append(number)

    def see(self, body: bytes) -> int:
        """A message arrived now; the result is its number."""
        number, now = number_of(body), time.time()
        if not is_whole(body):
            self.damaged.append(number)
        if now < self.due.get(number, now) - TRUNCATED.total_seconds():
            self.early.append((number, self.due[number] - now))
        return number

    def expected(self, until: float, acks: AckBook[int]) -> set[int]:
        """The messages that must come, of those due by ``until``."""
        return {each for each in self.confirmed if self.due[each] <= until} - acks.sent


def judge_delays(name: str, book: DelayBook, acks: AckBook[int], back: list[int]) -> list[str]:
    """Every broken promise at one receiver; ``back`` is what has come since the restart."""
    return [
        *some(f"{name}: seconds too early", book.early),
        *some(f"{name}: damaged", book.damaged),
        *some(f"{name}: refused", book.refused),
        *some(f"{name}: never published", [each for each in back if each not in book.due]),
        *some(f"{name}: acked and came back", sorted(acks.durable & set(back))),
        *some(f"{name}: came twice", [each for each, count in Counter(back).items() if count > 1]),
    ]


async def all_expected(
    name: str, book: DelayBook, acks: AckBook[int], back: list[int], inbox: Inbox[object]
) -> list[str]:
    """Wait for the messages that must come; the result is a line about those that did not."""
    expected = book.expected(time.time() + WAITED_MAX.total_seconds(), acks)
    try:
        async with asyncio.timeout(LATE_MAX.total_seconds()):
            await inbox.until(lambda: expected <= set(back))
    except TimeoutError:
        return list(some(f"{name}: due and did not come", sorted(expected - set(back))))
    return []
