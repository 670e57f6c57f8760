"""Warming: a node that follows counts in advance what its engine would count."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest
import trio
from tests.cluster.test_replica import steps_of

from arneb_cluster.replica import Replica
from arneb_cluster.warming import Warming
from arneb_core.engine.catalog.open_counts import OpenCounts
from arneb_core.engine.engine import open_engine
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.testing.engine_kit import publish

pytestmark = pytest.mark.real_time


async def test_it_is_warm_when_everything_is_counted(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await engine.create_topic("t")
        await publish(engine, "t", [b"a", b"b"])
    with Store.open(tmp_path) as store:
        warming = Warming(Replica(store), lambda: True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(warming.run)
            with trio.fail_after(10):
                await warming.warm()
            nursery.cancel_scope.cancel()
        assert [each.entries for each in warming.counts._counted.values()] == [2]


async def test_a_leader_counts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path) as store:
        warming = Warming(Replica(store), lambda: False)
        monkeypatch.setattr(warming, "_count", pytest.fail)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(warming.run)
            with trio.fail_after(10):
                await warming.warm()
            nursery.cancel_scope.cancel()


async def test_a_count_ends_with_the_node_and_the_store_stays_open_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = Event(), []

    def count_all(self: OpenCounts, snapshot: Any, wanted: Any) -> None:
        begun.set()
        while wanted():
            pass
        ended.append(snapshot)

    monkeypatch.setattr(OpenCounts, "count_all", count_all)
    with Store.open(tmp_path) as store:
        replica = Replica(store)
        replica.apply(steps_of([Changes()]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Warming(replica, lambda: True).run)
            await trio.to_thread.run_sync(begun.wait)
            nursery.cancel_scope.cancel()
        assert ended


async def test_damaged_rows_are_left_to_the_opening_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def count_all(*_: object) -> None:
        raise ValueError("expected a row")

    monkeypatch.setattr(OpenCounts, "count_all", count_all)
    with Store.open(tmp_path) as store:
        warming = Warming(Replica(store), lambda: True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(warming.run)
            with trio.fail_after(10):
                await warming.warm()
            nursery.cancel_scope.cancel()
    assert "expected a row" in caplog.text
