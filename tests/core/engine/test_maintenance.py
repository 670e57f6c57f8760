"""Maintenance: what looks at every topic lets others have their turn."""

from typing import cast

import pytest
import trio

from arneb_core.engine import maintenance
from arneb_core.engine.maintenance import forget_unused
from arneb_core.engine.topic import LogTopic


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
