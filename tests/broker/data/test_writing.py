"""Rows through the data API: published at once, or staged and committed once."""

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from tests.broker.data.kit import Served, body_of, messages, served, values
from tests.broker.data.queues import bind, declare

from arneb.settings.data_limits import DataLimits
from arneb_core.api.entries.entry import Origin
from arneb_core.api.entries.position import position_at
from arneb_core.api.topics.settings import TopicSettings
from pyspark_arneb.service.errors import ServiceError

pytestmark = pytest.mark.real_time

A, B = "persistent://public/default/a", "persistent://public/default/b"


async def stage(here: Served, name: str, body: bytes, piece: int = 0, batch: int = 1) -> Any:
    where = {"query": "q", "batch": batch, "stage": name, "piece": piece}
    return await here.ask("POST", "/stages", parameters=where, rows=body)


async def commit(here: Served, *stages: tuple[str, int, int], batch: int = 1, **more: Any) -> Any:
    named = [{"stage": name, "pieces": pieces, "rows": rows} for name, pieces, rows in stages]
    body = {"query": "q", "batch": batch, "stages": named, **more}
    return await here.ask("POST", "/commits", body=body)


async def refusal(answer: Any, code: str) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        await answer
    assert caught.value.code == code, caught.value
    return caught.value


async def test_rows_for_a_topic_become_messages_with_all_their_fields(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        body = body_of(
            [b"1", None, b"", b"4"],
            [{"topic": A}],
            keys=[b"k", b"k", None, b"l"],
            sets=[{"x": "y", "n": 5, "t": True, "e": None}],
            properties=[0, 0xFFFFFFFF, 0, 0],
            event_time_ms=[1000, 0, 0, 5],
        )
        answer = await here.ask("POST", "/publish", rows=body)
        assert answer == {"rows": 4, "unrouted": 0}
        found = await messages(here.engine, A)
        by_value = {(each.key, each.value, each.is_null) for each in found}
        assert by_value == {
            (b"k", b"1", False), (b"k", b"", True), (None, b"", False), (b"l", b"4", False),
        }  # fmt: skip
        first = next(each for each in found if each.value == b"1")
        assert dict(first.properties) == {"x": "y", "n": "5", "t": "true", "e": ""}
        assert first.event_time_ms == 1000
        assert here.engine.topic(A).statistics().messages == 4


async def test_staged_rows_are_invisible_until_they_are_committed_once(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        target = [{"topic": A}]
        assert (await stage(here, "t1", body_of([b"1", b"2"], target)))["rows"] == 2
        found = await stage(here, "t1", body_of([b"3"], target), piece=1)
        assert (found["pieces"], found["rows"], found["already_committed"]) == (2, 3, False)
        await stage(here, "t2", body_of([b"4"], target))
        await stage(here, "lost", body_of([b"never"], target))
        assert await values(here.engine, A) == []
        listed = await here.ask("GET", "/stages", parameters={"query": "q"})
        assert [each["stage"] for each in listed["stages"]] == ["t1", "t2", "lost"]
        assert await commit(here, ("t2", 1, 1), ("t1", 2, 3)) == {
            "committed": True, "already": False, "rows": 4, "unrouted": 0,
        }  # fmt: skip
        assert await values(here.engine, A) == [b"4", b"1", b"2", b"3"]
        again = await commit(here, ("t2", 1, 1), ("t1", 2, 3))
        assert again["already"]
        assert (await commit(here, ("nonsense", 7, 7)))["already"]
        assert (await stage(here, "late", body_of([b"5"], target)))["already_committed"]
        assert await values(here.engine, A) == [b"4", b"1", b"2", b"3"]
        left = await here.ask("GET", "/stages", parameters={"query": "q"})
        assert left["stages"] == []
        assert not [name for name in here.engine.topics if name.startswith("data-staged")]
        assert not here.engine.metadata("data/stage/")
        assert await here.ask("GET", "/commits", parameters={"query": "q"}) == {
            "query": "q", "batch": 1,
        }  # fmt: skip


async def test_stages_and_marks_survive_a_restart(tmp_path: Path) -> None:
    target = [{"topic": A}]
    async with served(tmp_path) as here:
        await stage(here, "t1", body_of([b"1", b"2"], target))
        await commit(here, batch=0)
    async with served(tmp_path) as here:
        await stage(here, "t1", body_of([b"3"], target), piece=1)
    async with served(tmp_path) as here:
        assert (await commit(here, ("t1", 2, 3)))["rows"] == 3
        assert (await commit(here, batch=0))["already"]
    async with served(tmp_path) as here:
        assert (await commit(here, ("t1", 2, 3)))["already"]
        assert await values(here.engine, A) == [b"1", b"2", b"3"]


async def test_a_piece_that_is_sent_again_counts_once(tmp_path: Path) -> None:
    target = [{"topic": A}]
    async with served(tmp_path) as here:
        first, other = body_of([b"1"], target), body_of([b"x"], target)
        await stage(here, "t", first)
        assert (await stage(here, "t", first))["pieces"] == 1
        await refusal(stage(here, "t", other), "stage_differs")
        await refusal(stage(here, "t", other, piece=2), "stage_incomplete")
        await stage(here, "t", other, piece=1)
        assert (await stage(here, "t", first))["pieces"] == 2
        await refusal(commit(here, ("t", 1, 1)), "stage_incomplete")
        await refusal(commit(here, ("t", 2, 2), ("gone", 1, 1)), "stage_not_found")
        assert await values(here.engine, A) == []
        await commit(here, ("t", 2, 2))
        assert await values(here.engine, A) == [b"1", b"x"]


async def test_an_aborted_or_expired_stage_is_removed_with_its_log(tmp_path: Path) -> None:
    now = [1_000_000_000_000]
    target = [{"topic": A}]
    limits = DataLimits(stage_expiry_s=100, mark_expiry_s=1000)
    async with served(tmp_path, now_ms=lambda: now[0], limits=limits) as here:
        for name in ("t1", "t2"):
            await stage(here, name, body_of([b"1"], target))
        where = {"query": "q", "batch": 1}
        await here.ask("DELETE", "/stages", parameters={**where, "stage": "t1"})
        await refusal(commit(here, ("t1", 1, 1)), "stage_not_found")
        for _ in range(2):
            await here.ask("DELETE", "/stages", parameters=where)
        await refusal(commit(here, ("t2", 1, 1)), "stage_not_found")
        assert not [name for name in here.engine.topics if name.startswith("data-staged")]
        assert here.data.commits.stages.room.used.bytes == 0
        await stage(here, "t3", body_of([b"1"], target))
        now[0] += 99_000
        await here.data.commits.sweep()
        await stage(here, "t3", body_of([b"2"], target), piece=1)
        now[0] += 99_000
        await here.data.commits.sweep()
        assert (await commit(here, ("t3", 2, 2)))["rows"] == 2
        await stage(here, "t4", body_of([b"3"], target), batch=2)
        now[0] += 100_000
        await here.data.commits.sweep()
        await refusal(commit(here, ("t4", 1, 1), batch=2), "stage_not_found")
        assert (await commit(here))["already"]
        now[0] += 1_000_000
        await here.data.commits.sweep()
        assert not here.engine.metadata("data/")
        assert (await here.ask("GET", "/commits", parameters={"query": "q"}))["batch"] is None


async def test_an_ended_query_is_known_as_long_as_its_answer_may_be_lost(
    tmp_path: Path,
) -> None:
    """Otherwise every write of a DataFrame would take one of the places for queries, for months."""
    now = [1_000_000_000_000]
    async with served(tmp_path, now_ms=lambda: now[0]) as here:
        await stage(here, "s", body_of([b"1"], [{"topic": A}]))
        await commit(here, ("s", 1, 1), last=True)
        now[0] += 599_000
        await here.data.commits.sweep()
        assert (await commit(here, ("s", 1, 1), last=True))["already"]
    async with served(tmp_path, now_ms=lambda: now[0]) as here:
        assert (await commit(here, last=True))["already"], "the mark must outlive a restart"
        now[0] += 1_000
        await here.data.commits.sweep()
        assert not here.engine.metadata("data/mark")
        assert await values(here.engine, A) == [b"1"]


async def test_rows_are_routed_by_exchanges_like_publishes(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        one, two = await declare(here.topology, "one"), await declare(here.topology, "two")
        fanout = {"exchange": "amq.fanout"}
        await bind(here.topology, "amq.topic", "one", "orders.#")
        await bind(here.topology, "amq.fanout", "one", "")
        await bind(here.topology, "amq.fanout", "two", "")
        body = body_of(
            [b"1", b"2", b"3", b"4"],
            [{"exchange": "amq.topic"}, fanout, {"queue": "two"}],
            keys=[b"orders.new", b"", b"any", b"nobody"],
            target=[0, 1, 2, 0],
            priority=[3, 0, 0, 0],
        )
        await stage(here, "t", body)
        error = await refusal(commit(here, ("t", 1, 4), mandatory=True), "unroutable")
        assert "nobody" in error.reason
        assert await values(here.engine, one) == []
        assert (await commit(here, ("t", 1, 4)))["unrouted"] == 1
        assert await values(here.engine, one) == [b"1", b"2"]
        assert await values(here.engine, two) == [b"2", b"3"]
        first, _ = await messages(here.engine, one)
        assert first.key == b"orders.new"
        assert dict(first.properties)["amqp.priority"] == "3"
        third = (await messages(here.engine, two))[1]
        assert third.key == b"two", "as published through the default exchange"


async def test_rows_for_a_queues_topic_are_in_the_queues_protocol(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        name = await declare(here.topology, "orders")
        body = body_of([b"1", b"2"], [{"topic": name}], keys=[b"k", None])
        await here.ask("POST", "/publish", rows=body)
        first, second = await messages(here.engine, name)
        assert (first.key, second.key) == (b"k", b"orders")
        (run,) = await here.engine.topic(name).read(position_at(1, 0), 1)
        assert run[1][0][1] == Origin.AMQP


async def test_a_full_queue_that_refuses_rejects_the_whole_batch(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        full = await declare(
            here.topology, "full", **{"x-max-length": 2, "x-overflow": "reject-publish"}
        )
        free = await declare(here.topology, "free")
        body = body_of(
            [b"1", b"2", b"3", b"4"], [{"queue": "full"}, {"queue": "free"}], target=[0, 0, 0, 1]
        )
        await stage(here, "t", body)
        await refusal(commit(here, ("t", 1, 4)), "not_allowed")
        assert await values(here.engine, free) == []
        await here.engine.topic(full).subscriptions["amqp"].purge()
        await here.ask("DELETE", "/stages", parameters={"query": "q", "batch": 1})
        body = body_of([b"1", b"2", b"4"], [{"queue": "full"}, {"queue": "free"}], target=[0, 0, 1])
        await stage(here, "t", body)
        await commit(here, ("t", 1, 3))
        assert await values(here.engine, full) == [b"1", b"2"]
        assert await values(here.engine, free) == [b"4"]


async def test_refusals_name_the_bound(tmp_path: Path) -> None:
    limits = DataLimits(body_bytes_max=2 << 20, batch_bytes_max=3 << 20, staged_bytes_max=5 << 20)
    target = [{"topic": A}]
    large = body_of([bytes(1_500_000)], target)
    async with served(tmp_path, limits=limits) as here:
        error = await refusal(stage(here, "t", body_of([bytes(3 << 20)], target)), "body_too_large")
        assert "no row is divided" in error.reason
        error = await refusal(stage(here, "t", body_of([b""] * 70_000, target)), "body_too_large")
        assert "65536" in error.reason
        await stage(here, "t1", large)
        await stage(here, "t1", large, piece=1)
        error = await refusal(stage(here, "t1", large, piece=2), "batch_too_large")
        assert "data.batch_bytes_max" in error.reason
        await stage(here, "t2", large)
        error = await refusal(stage(here, "t3", large), "staged_too_much")
        assert "data.staged_bytes_max" in error.reason
        error = await refusal(commit(here, ("t1", 2, 2), ("t2", 1, 1)), "batch_too_large")
        assert "maxOffsetsPerTrigger" in error.reason
        await commit(here, ("t1", 2, 2))
        assert len(await values(here.engine, A)) == 2
        assert here.data.commits.stages.room.used.bytes == 0


async def test_malformed_rows_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    good = body_of([b"1", b"2"], [{"topic": A}], keys=[b"k", None])
    head = json.loads(good[8 : 8 + int.from_bytes(good[4:8], "little")])
    rest = good[8 + int.from_bytes(good[4:8], "little") :]

    def with_head(**changed: Any) -> bytes:
        made = json.dumps({**head, **changed}).encode()
        return b"ARW1" + pack("<I", len(made)) + made + rest

    wrong = [
        b"", b"ARW1", good[:-1], good + b"x", b"ARW2" + good[4:], good[:9], b"ARW1" + b"\xff" * 40,
        with_head(rows=-1), with_head(rows=3), with_head(rows="2"), with_head(columns=["value"]),
        with_head(columns=["key"]), with_head(columns=["value", "value"]), with_head(targets=[]),
        with_head(columns=["value", "keys"]), with_head(targets=[{}]), with_head(more=1),
        with_head(targets=[{"topic": 5}]), with_head(properties=[5]),
        with_head(targets=[{"t": ""}]),
        with_head(properties=[{"a": []}]), with_head(targets=[{"topic": A, "queue": "x"}]),
        body_of([b"1"], [{"topic": A}], target=[1]),
        body_of([b"1"], [{"topic": A}], properties=[0]),
        body_of([b"1"], [{"topic": A}], event_time_ms=[-1]),
        body_of([b"1"], [{"topic": A}]).replace(pack("<i", 1), pack("<i", -5)),
        body_of([b"1"], [{"topic": A}]).replace(pack("<i", 1), pack("<i", 1 << 30)),
        b"ARW1" + pack("<I", 200_000) + b"[" * 200_000,
    ]  # fmt: skip
    async with served(tmp_path) as here:
        for each in wrong:
            error = await refusal(here.ask("POST", "/publish", rows=each), "bad_request")
            assert len(error.reason) < 700
        for target, code in (
            ({"topic": "x://y"}, "topic_not_found"),
            ({"topic": "persistent://nobody/nothing/x"}, "topic_not_found"),
            ({"queue": "nothing"}, "queue_not_found"),
            ({"exchange": "nothing"}, "exchange_not_found"),
            ({"exchange": "amq.topic", "vhost": "none"}, "exchange_not_found"),
        ):
            await refusal(here.ask("POST", "/publish", rows=body_of([b"1"], [target])), code)
        for where in ({"batch": -1}, {"piece": 5000}, {"stage": "a/b"}, {"query": ""}, {"x": 1}):
            asked = {"query": "q", "batch": 1, "stage": "s", "piece": 0, **where}
            await refusal(here.ask("POST", "/stages", parameters=asked, rows=good), "bad_request")
        assert not [name for name in here.engine.topics if "staged" in name]
        assert A not in here.engine.topics


async def test_a_user_who_may_not_produce_is_refused_at_the_stage_and_at_the_commit(
    tmp_path: Path,
) -> None:
    allowed = {A}

    class Some:
        name = "user some"

        def may_continue(self, owner: str) -> bool:
            return True

        def may_consume(self, topic: str, subscription: str = "") -> bool:
            return True

        def may_produce(self, topic: str) -> bool:
            return topic in allowed

        def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
            return routing_key == "mine"

    async with served(tmp_path, rights_of=lambda request: Some()) as here:
        await refusal(stage(here, "t", body_of([b"1"], [{"topic": B}])), "forbidden")
        await stage(here, "t", body_of([b"1"], [{"topic": A}]))
        allowed.clear()
        await refusal(commit(here, ("t", 1, 1)), "forbidden")
        topic_rows = body_of([b"1"], [{"exchange": "amq.topic", "routing_key": "x"}])
        await refusal(here.ask("POST", "/publish", rows=topic_rows), "forbidden")
        mine = body_of(
            [b"1"], [{"exchange": "amq.topic", "routing_key": "mine"}], keys=[b"not-mine"]
        )
        await refusal(here.ask("POST", "/publish", rows=mine), "forbidden")


async def test_a_topic_in_memory_accepts_rows_too(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        await here.engine.create_topic(A, TopicSettings(durable=False))
        await stage(here, "t", body_of([b"1"], [{"topic": A}]))
        await commit(here, ("t", 1, 1))
        assert here.engine.topic(A).messages == 1
