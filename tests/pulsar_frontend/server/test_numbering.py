"""Numbers of messages: runs keep their order, and each number is that of the topic."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio

from arneb_core.api.entries.entry import ENTRY_FORMAT, HEADER, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.server import numbering
from arneb_pulsar.server.numbering import NumberedSink

SIZES = (1, 3, 2, 1, 4, 1, 5)
FIRST = [sum(SIZES[:index]) for index in range(len(SIZES))]


class Topic:
    """Counts how often it is asked, and takes its time."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    async def offset_of(self, position: Position) -> int:
        self.asked += 1
        await anyio.sleep(1)
        if self.fails:
            raise StoreFailed("the disk is gone")
        return FIRST[position]


class Sink:
    def __init__(self) -> None:
        self.runs: list[Deliveries] = []
        self.events: list[object] = []

    def deliver(self, run: Deliveries) -> None:
        self.runs.append(run)

    def active_changed(self, active: bool) -> None:
        self.events.append(active)

    def closed_by_core(self, reason: str) -> None:
        self.events.append(reason)

    @property
    def numbers(self) -> list[list[int] | None]:
        return [each.offsets for each in self.runs]


def run_of(*positions: int, masks: dict[Position, int] | None = None) -> Deliveries:
    entries = [
        HEADER.pack(ENTRY_FORMAT, Origin.PULSAR, 0, SIZES[each], 0, 0, 0, 0, 0, 0)
        for each in positions
    ]
    return Deliveries([Position(each) for each in positions], entries, masks=masks)


def made(nursery: trio.Nursery) -> tuple[NumberedSink, Sink, Topic]:
    topic, sink = Topic(), Sink()
    given: Any = topic

    def start(task: Callable[[], Awaitable[None]]) -> None:
        nursery.start_soon(task)

    return NumberedSink(sink, given, start), sink, topic


async def test_what_follows_is_numbered_at_once_and_what_does_not_is_counted() -> None:
    async with trio.open_nursery() as nursery:
        numbered, sink, topic = made(nursery)
        numbered.deliver(run_of(0, 1))
        assert sink.runs == []
        await anyio.sleep(2)
        numbered.deliver(run_of(2, 3))
        assert sink.numbers == [[0, 1], [4, 6]]
        assert topic.asked == 1
        numbered.deliver(run_of(1, 5, 6))  # one comes again, and one was somebody else's
        numbered.deliver(run_of(4))
        assert len(sink.runs) == 2
        await anyio.sleep(9)
        assert sink.numbers[2:] == [[1, 11, 12], [7]]
        assert topic.asked == 4


async def test_what_is_dropped_is_not_delivered_and_costs_its_client_nothing() -> None:
    async with trio.open_nursery() as nursery:
        numbered, sink, _ = made(nursery)
        numbered.deliver(run_of(1, 2, masks={Position(1): 0b101}))
        numbered.deliver(run_of(3))
        assert numbered.drop() == 2 + 2 + 1
        numbered.deliver(run_of(0, 1))
        await anyio.sleep(9)
        assert sink.numbers == [[0, 1]]
        assert numbered.drop() == 0


async def test_without_numbers_all_is_delivered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with trio.open_nursery() as nursery:
        numbered, sink, topic = made(nursery)
        topic.fails = True
        numbered.deliver(run_of(1))
        await anyio.sleep(2)
        assert sink.numbers == [None]
        topic.fails = False
        monkeypatch.setattr(numbering, "WAITING_BYTES_MAX", 100)
        for position in (3, 4, 5):  # 40 bytes each
            numbered.deliver(run_of(position))
        assert [each.positions for each in sink.runs] == [[1], [3], [4], [5]]
        await anyio.sleep(2)
        numbered.deliver(run_of(6))
        await anyio.sleep(2)
        assert sink.numbers == [None, None, None, None, [12]]


async def test_what_the_core_says_goes_through() -> None:
    async with trio.open_nursery() as nursery:
        numbered, sink, _ = made(nursery)
        numbered.deliver(run_of(0))
        numbered.active_changed(True)
        numbered.closed_by_core("over")
        await anyio.sleep(2)
        assert (sink.events, sink.runs) == ([True, "over"], [])
        assert repr(numbered) == "<NumberedSink next 0, 0 runs wait>"
