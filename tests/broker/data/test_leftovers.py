"""What unfinished work leaves behind at the data API is bounded, found without a search, and
removed when its time is over."""

from operator import sub
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.broker.data.kit import Served, body_of, served

from arneb.data import room
from arneb.data.rights import ASKED_A_TURN, Everything, expect_consume
from arneb.data.room import Staged
from arneb.data.stages import BatchId, Stages
from arneb.data.topics import DOCUMENTS_PER_TURN, TopicDirectory
from arneb.settings.data_limits import DataLimits
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.engine import open_engine
from pyspark_arneb.service.errors import ServiceError

pytestmark = pytest.mark.real_time

A = "persistent://public/default/a"


async def stage(here: Served, query: str, name: str, piece: int = 0) -> None:
    where = {"query": query, "batch": 1, "stage": name, "piece": piece}
    rows = body_of([b"1"], [{"topic": A}])
    await here.ask("POST", "/stages", parameters=where, rows=rows)


async def test_small_pieces_are_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "PIECES_IN_ALL_MAX", 5)
    async with served(tmp_path) as here:
        for query in ("p", "q"):
            await stage(here, query, "s")
            await stage(here, query, "s", piece=1)
        await stage(here, "q", "t")
        with pytest.raises(ServiceError, match="at most 5 pieces") as refused:
            await stage(here, "q", "t", piece=1)
        assert refused.value.code == "staged_too_much"
        await here.ask("DELETE", "/stages", parameters={"query": "q", "batch": 1, "stage": "s"})
        await stage(here, "q", "t", piece=1)
        used = here.data.commits.stages.room.used
        assert (used.stages, used.pieces) == (2, 4)
    async with served(tmp_path) as here:
        used = here.data.commits.stages.room.used
        assert (used.stages, used.pieces) == (2, 4)
        for query in ("p", "q"):
            await here.ask("DELETE", "/stages", parameters={"query": query, "batch": 1})
        assert used == Staged()


async def test_another_piece_of_a_stage_is_not_another_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "STAGES_MAX", 1)
    async with served(tmp_path) as here:
        await stage(here, "q", "s")
        await stage(here, "q", "s", piece=1)
        with pytest.raises(ServiceError, match="at most 1 stages"):
            await stage(here, "q", "t")


async def test_leftovers_are_removed_without_repeated_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000_000_000]
    looks = 0
    look = Stages.is_forgotten

    def counted(self: Stages, batch: BatchId, older_than_ms: int) -> bool:
        nonlocal looks
        looks += 1
        return look(self, batch, older_than_ms)

    monkeypatch.setattr(Stages, "is_forgotten", counted)
    limits = DataLimits(stage_expiry_s=100)
    async with served(tmp_path, now_ms=lambda: now[0], limits=limits) as here:
        for number in range(40):
            await stage(here, f"q{number}", "s")
        now[0] += 100_000
        await stage(here, "young", "s")
        looks = 0
        await here.data.commits.sweep()
        assert looks <= 2 * 41
        used = here.data.commits.stages.room.used
        assert (used.stages, used.pieces) == (1, 1)
        left = [name for name in here.engine.topics if name.startswith("data-staged:")]
        assert left == ["data-staged://young/1"]


async def test_a_log_without_stages_is_removed_by_the_next_check(tmp_path: Path) -> None:
    """A crash came between the creation of the log and its first piece."""
    async with open_engine(tmp_path) as engine:
        await engine.create_topic("data-staged://q/7")
    async with served(tmp_path) as here:
        await here.data.commits.sweep()
        assert not [name for name in here.engine.topics if name.startswith("data-staged:")]


async def test_many_topics_are_listed_a_few_per_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a client that lists them all."""
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic(A)
        directory = TopicDirectory(engine, None)
        count, seen = 0, []
        document = directory.document

        def counted(topic: Topic) -> dict[str, Any]:
            nonlocal count
            count += 1
            return document(topic)

        async def others() -> None:
            while True:
                seen.append(count)
                await trio.lowlevel.checkpoint()

        monkeypatch.setattr(directory, "document", counted)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            found = await directory.documents([topic] * (6 * DOCUMENTS_PER_TURN))
            nursery.cancel_scope.cancel()
        assert len(found) == count == 6 * DOCUMENTS_PER_TURN
        # Of two tasks that run in each pass of the loop, one may be first in one pass and last in
        # the next.
        assert max(map(sub, seen[1:], seen)) <= 2 * DOCUMENTS_PER_TURN
        assert seen[-1] > DOCUMENTS_PER_TURN


async def test_rights_on_many_topics_are_checked_a_few_per_turn() -> None:
    asked, seen = 0, []

    class Counted(Everything):
        def may_consume(self, topic: str, subscription: str = "") -> bool:
            nonlocal asked
            asked += 1
            return True

    async def others() -> None:
        while True:
            seen.append(asked)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await expect_consume(Counted(), [A] * (6 * ASKED_A_TURN))
        nursery.cancel_scope.cancel()
    assert asked == 6 * ASKED_A_TURN
    assert max(map(sub, seen[1:], seen)) <= 2 * ASKED_A_TURN < seen[-1]
