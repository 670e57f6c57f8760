"""Holes as the page draws them, compared with the acknowledgements entry by entry."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.broker.http.management.kit import managed
from tests.broker.http.management.page.test_browsing import publish

from arneb.http.management.page.hole_parts import PARTS, hole_parts
from arneb_core.api.entries.position import Position, before, position_at


class FakeSubscription:
    """A subscription of a log whose entries are named by their positions."""

    def __init__(self, entries: list[Position], done: set[Position]) -> None:
        self._entries, self._done = entries, done
        self.mark_delete = before(entries[0])
        for each in entries:
            if each not in done:
                break
            self.mark_delete = each

    @property
    def holes(self) -> set[Position]:
        return {each for each in self._done if each > self.mark_delete}

    def statistics(self) -> Any:
        return SimpleNamespace(holes=len(self.holes))

    def acknowledged_between(self, low: Position, high: Position) -> int:
        return sum(low < each <= high for each in self._done)


@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=5),
    done=st.sets(st.integers(0, 1999)),
    front=st.integers(0, 50),
)
def test_every_hole_is_drawn_where_it_is(sizes: list[int], done: set[int], front: int) -> None:
    ledgers: Any = [SimpleNamespace(id=n + 1, entries=size) for n, size in enumerate(sizes)]
    entries = [position_at(each.id, n) for each in ledgers for n in range(each.entries)]
    if not entries:
        assert hole_parts(ledgers, FakeSubscription([position_at(1, 0)], set())) == []  # type: ignore[arg-type]
        return
    acknowledged = {each for n, each in enumerate(entries) if n in done or n < front}
    of: Any = FakeSubscription(entries, acknowledged)
    found = hole_parts(ledgers, of)
    assert len(found) <= PARTS
    assert sum(count for _, _, count in found) == len(of.holes)
    for begin, size, count in found:
        part = entries[begin : begin + size]
        assert len(part) == size
        assert count == sum(each in of.holes for each in part) > 0


async def test_a_queue_is_shown_with_its_holes(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", "queues/%2F/q", {"durable": True})
        for number in range(6):
            await publish(call, "q", f"{number}")
        (shown,) = (await call.does("GET", "page/queues/%2F/q"))["details"]
        assert (shown["holes"], shown["hole_parts"]) == (0, [])
        lying = (await call.does("GET", "page/messages/%2F/q"))["messages"]
        gone = [lying[n]["position"] for n in (0, 2, 3)]
        await call.does("POST", "page/messages/%2F/q/delete", {"positions": gone})
        (shown,) = (await call.does("GET", "page/queues/%2F/q"))["details"]
        assert (shown["holes"], shown["hole_parts"]) == (2, [[2, 1, 1], [3, 1, 1]])
