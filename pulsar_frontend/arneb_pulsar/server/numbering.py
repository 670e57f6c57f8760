"""Numbering: the number in its topic of each entry's first message, for clients that want it.

The rule: runs keep their order, and a run waits until its numbers are counted. Numbers follow from
those of the entry before; a ledger's batches are counted again only where a consumer begins, and
after entries that it does not get.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.consumer import Sink
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.topics.topic import Topic

WAITING_BYTES_MAX: Final = 1024 * 1024
"""Bytes of runs that wait for their numbers: as much as a connection's output may hold."""

Start = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a task that ends with the connection at the latest."""


class NumberedSink:
    """A consumer's sink in front of its connection's; see
    :class:`arneb_core.api.subscriptions.consumer.Sink`.

    Invariants: an entry at ``_next`` begins with message ``_number``; while runs wait, a task
    counts.
    """

    __slots__ = (
        "_counting",
        "_next",
        "_number",
        "_sink",
        "_start",
        "_topic",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(self, sink: Sink, topic: Topic, start: Start) -> None:
        self._sink = sink
        self._topic = topic
        self._start = start
        self._next = Position(-1)
        self._number = 0
        self._waiting: deque[Deliveries] = deque()
        self._waiting_bytes = 0
        self._counting = False

    def __repr__(self) -> str:
        return f"<NumberedSink next {self._number}, {len(self._waiting)} runs wait>"

    def deliver(self, run: Deliveries) -> None:
        """Pass the run on with its numbers, now or once these are counted."""
        if self._waiting:
            self._waiting.append(run)
            self._waiting_bytes += sum(map(len, run.entries))
            if self._waiting_bytes > WAITING_BYTES_MAX:
                self._pass_on()
        elif self._follows(run):
            self._sink.deliver(replace(run, offsets=[self._take(*each) for each in _pairs(run)]))
        else:
            self._waiting.append(run)
            self._waiting_bytes += sum(map(len, run.entries))
            if not self._counting:
                self._counting = True
                self._start(self._count)

    def _pass_on(self) -> None:
        """Pass waiting runs on without numbers, since counting takes too long."""
        waiting, self._waiting = self._waiting, deque()
        self._waiting_bytes = 0
        for run in waiting:
            self._sink.deliver(run)

    def active_changed(self, active: bool) -> None:
        """Pass it on."""
        self._sink.active_changed(active)

    def closed_by_core(self, reason: str) -> None:
        """Drop waiting runs, and pass it on."""
        self.drop()
        self._sink.closed_by_core(reason)

    def drop(self) -> int:
        """Drop waiting runs, whose messages will be redelivered; return how many messages that is.
        The client was never sent them."""
        dropped = [each for run in self._waiting for each in run.sizes()]
        self._waiting.clear()
        self._waiting_bytes = 0
        return sum(dropped)

    def _follows(self, run: Deliveries) -> bool:
        """Return whether its numbers follow from what was delivered last."""
        first, count = run.positions[0], len(run.positions)
        return first == self._next and run.positions[-1] == first + count - 1

    def _take(self, position: Position, entry: bytes) -> int:
        number = self._number
        self._next, self._number = Position(position + 1), number + messages_in(entry)
        return number

    async def _count(self) -> None:
        try:
            await self._count_all()
        finally:
            self._counting = False

    async def _count_all(self) -> None:
        while self._waiting:
            run = self._waiting[0]
            numbers: list[int] = []
            for position, entry in _pairs(run):
                if position != self._next:
                    try:
                        self._number = await self._topic.offset_of(position)
                    except StoreFailed:
                        break  # passed on without numbers
                numbers.append(self._take(position, entry))
            if self._waiting and self._waiting[0] is run:
                self._waiting.popleft()
                self._waiting_bytes -= sum(map(len, run.entries))
                whole = len(numbers) == len(run.positions)
                self._sink.deliver(replace(run, offsets=numbers) if whole else run)


def _pairs(run: Deliveries) -> list[tuple[Position, bytes]]:
    return list(zip(run.positions, run.entries, strict=True))
