"""Numbering: which message of its topic each entry begins with, for clients that are told.

The rule: runs keep their order, and one waits for its numbers until they are counted. They follow
from those of the entry before; only where a consumer begins, and behind what it does not get, are a
ledger's batches counted anew.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from arneb_core.api.consumers import Sink
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import messages_in
from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import Position
from arneb_core.api.topics import Topic

WAITING_BYTES_MAX: Final = 1024 * 1024
"""Of runs that wait for their numbers: as much as a connection's output may hold."""

Start = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a task that ends with the connection at the latest."""


class NumberedSink:
    """A consumer's sink (:class:`arneb_core.api.consumers.Sink`) before that of its connection.

    Invariants: the message at ``_next``, should one be there, has the number ``_number``; while
    something waits a task counts.
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
        """Pass the run on with its numbers, now or once they are counted."""
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
        """Counting takes too long: what waits goes without numbers."""
        waiting, self._waiting = self._waiting, deque()
        self._waiting_bytes = 0
        for run in waiting:
            self._sink.deliver(run)

    def active_changed(self, active: bool) -> None:
        """A failover consumer has become the active one, or is not."""
        self._sink.active_changed(active)

    def closed_by_core(self, reason: str) -> None:
        """The core detached the consumer."""
        self.drop()
        self._sink.closed_by_core(reason)

    def drop(self) -> int:
        """Forget what waits, which is to come again: how many messages that is, of which the client
        never hears."""
        dropped = [each for run in self._waiting for each in run.sizes()]
        self._waiting.clear()
        self._waiting_bytes = 0
        return sum(dropped)

    def _follows(self, run: Deliveries) -> bool:
        """Its numbers follow from what was delivered last."""
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
                        break  # told without numbers: its client knows no more than with others
                numbers.append(self._take(position, entry))
            if self._waiting and self._waiting[0] is run:
                self._waiting.popleft()
                self._waiting_bytes -= sum(map(len, run.entries))
                whole = len(numbers) == len(run.positions)
                self._sink.deliver(replace(run, offsets=numbers) if whole else run)


def _pairs(run: Deliveries) -> list[tuple[Position, bytes]]:
    return list(zip(run.positions, run.entries, strict=True))
