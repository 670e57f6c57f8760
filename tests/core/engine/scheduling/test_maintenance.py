"""Maintenance: what looks at every topic lets others have their turn."""

from typing import cast

import pytest
import trio

from arneb_core.engine.group_commit.committer import Committer
from arneb_core.engine.scheduling import maintenance
from arneb_core.engine.scheduling.maintenance import (
    CURSOR_FLUSH_S,
    TAKEOVER_S,
    Maintenance,
    forget_unused,
)
from arneb_core.engine.topics.topic import LogTopic


class Topic:
    """Notes how many turns others have had when it is looked at."""

    def __init__(self, turns: list[None], seen: list[int]) -> None:
        self._turns = turns
        self._seen = seen

    def forget_unused(self) -> None:
        self._seen.append(len(self._turns))


async def test_topics_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[None] = []
    seen: list[int] = []

    async def checkpoint() -> None:
        turns.append(None)

    monkeypatch.setattr(maintenance, "LOOKED_AT_PER_TURN", 2)
    monkeypatch.setattr(trio.lowlevel, "checkpoint", checkpoint)
    topics = [cast("LogTopic", Topic(turns, seen)) for _ in range(5)]
    await forget_unused(topics)
    assert seen == [0, 0, 1, 1, 2]


class Busy:
    """A committer to which publishers bring something all the time; ``has_dirty``: and consumers
    acknowledge it. Notes when it was asked for what."""

    def __init__(self, *, has_dirty: bool) -> None:
        self.has_dirty = has_dirty
        self.taken_over: list[float] = []
        self.flushed: list[float] = []

    async def until_takeover_needed(self) -> None:
        await trio.lowlevel.checkpoint()

    def take_over(self) -> None:
        self.taken_over.append(trio.current_time())

    def flush_cursors(self) -> bool:
        if self.has_dirty:
            self.flushed.append(trio.current_time())
        return self.has_dirty


async def passed(seconds: float) -> None:
    """The test's clock has gone on by so much."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def settled_in(busy: Busy, seconds: float) -> Maintenance:
    """Both loops for so long."""
    maintenance_ = Maintenance(cast("Committer", busy), lambda: None, lambda: 0)
    maintenance_.cursor_changed()
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(maintenance_.flush_cursors)
            await passed(CURSOR_FLUSH_S / 3)
            nursery.start_soon(maintenance_.take_over_journal)
    return maintenance_


async def test_a_flush_of_cursors_takes_the_journal_along() -> None:
    """Two commits of LMDB for each record would be one too many."""
    busy = Busy(has_dirty=True)
    await settled_in(busy, 20.5 * CURSOR_FLUSH_S)
    assert len(busy.flushed) == 20
    assert all(each in busy.flushed for each in busy.taken_over), (
        "taking over and flushing must share a commit"
    )


async def test_without_one_the_journal_is_taken_over_as_often() -> None:
    busy = Busy(has_dirty=False)
    began = trio.current_time()
    await settled_in(busy, 20.5 * TAKEOVER_S)
    assert len(busy.taken_over) == 20
    assert max(b - a for a, b in zip([began, *busy.taken_over], busy.taken_over, strict=False)) <= (
        TAKEOVER_S + CURSOR_FLUSH_S / 3 + 1e-9
    )


async def test_what_comes_after_the_last_flush_is_taken_over_in_time() -> None:
    busy = Busy(has_dirty=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settled_in, busy, 3 * CURSOR_FLUSH_S)
        await passed(CURSOR_FLUSH_S * 1.5)
        busy.has_dirty = False
    assert busy.flushed and busy.taken_over
    assert busy.taken_over[0] - busy.flushed[-1] <= TAKEOVER_S + 1e-9
