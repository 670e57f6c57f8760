"""Cursors through the data API: leases, backlogs, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.data.kit import Served, served

from arneb.data.cursors import Cursors
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import append, make_entry, publish, quiet
from pyspark_arneb.service.errors import ServiceError

pytestmark = pytest.mark.real_time

A, B = "persistent://public/default/a", "persistent://public/default/b"
HOUR_S = 3600


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000_000_000_000

    def __call__(self) -> int:
        return self.ms


async def opened(here: Served, *names: str, **fields: Any) -> dict[str, Any]:
    topics = {name: {"initial": fields.pop("initial", "earliest")} for name in names}
    body = {"subscription": "q", "owner": "me", "lease_s": HOUR_S, "topics": topics, **fields}
    answer = await here.ask("POST", "/cursors/open", body=body)
    found: dict[str, Any] = answer["cursors"]
    return found


async def moved(here: Served, route: str, name: str, **fields: Any) -> dict[str, Any]:
    topic = {"id": here.engine.topic(name).id, **fields.pop("topic", {})}
    body = {"subscription": "q", "owner": "me", "topics": {name: topic}, **fields}
    answer = await here.ask("POST", f"/cursors/{route}", body=body)
    found: dict[str, Any] = answer["cursors"][name]
    return found


async def test_a_cursor_is_created_moved_and_released(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        topic = await here.engine.create_topic(A)
        await publish(here.engine, A, [b"x" * 100] * 10)
        found = (await opened(here, A))[A]
        assert (found["created"], found["next"], found["id"]) == (True, "1:0", topic.id)
        assert found["owner"] == "me"
        backlog = found["backlog"]
        assert (backlog["messages"], backlog["entries"], backlog["bytes"]) == (10, 10, 1400)
        found = await moved(here, "acknowledge", A, topic={"next": "1:4"})
        assert (found["created"], found["next"], found["backlog"]["messages"]) == (False, "1:4", 6)
        found = await moved(here, "acknowledge", A, topic={"next": "1:2"})
        assert found["next"] == "1:4", "a cursor never moves back"
        assert topic.subscriptions["q"].mark_delete == position_at(1, 3)
        found = await moved(here, "acknowledge", A, topic={"next": "1:10"})
        assert found["backlog"] == {"messages": 0, "entries": 0, "bytes": 0, "seconds": 0}
        assert (await opened(here, A, expect=True))[A]["created"] is False
        await here.ask(
            "POST",
            "/cursors/release",
            body={"subscription": "q", "owner": "me", "topics": [A]},
        )
        assert not topic.subscriptions
        assert not here.engine.metadata("data/lease/")


async def test_the_creator_of_a_cursor_says_where_it_begins(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        await here.engine.create_topic(A)
        await publish(here.engine, A, [b"x"] * 5)
        for number, (initial, expected) in enumerate(
            [("earliest", "1:0"), ("latest", "1:5"), ("1:3", "1:3"), ("9:9", "1:5")]
        ):
            found = await opened(here, A, initial=initial, subscription=f"s{number}")
            assert found[A]["next"] == expected


async def test_the_backlog_has_an_age(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path, now_ms=clock) as here:
        await here.engine.create_topic(A)
        entries = [make_entry(b"", publish_time_ms=clock.ms - 1000 * n) for n in (90, 60, 30)]
        await append(here.engine, A, entries)
        assert (await opened(here, A))[A]["backlog"]["seconds"] == 90
        clock.ms += 5_000
        found = await moved(here, "acknowledge", A, topic={"next": "1:2"})
        assert found["backlog"]["seconds"] == 35


async def test_cursors_of_others_are_refused_until_their_lease_has_ended(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path, now_ms=clock) as here:
        for name in (A, B):
            await here.engine.create_topic(name)
            await publish(here.engine, name, [b"x"] * 5)
        await opened(here, A)
        await moved(here, "acknowledge", A, topic={"next": "1:3"})
        for route, fields in (("renew", {}), ("acknowledge", {"topic": {"next": "1:5"}})):
            with pytest.raises(ServiceError, match="me") as caught:
                await moved(here, route, A, owner="thief", **fields)
            assert caught.value.code == "lease_held"
        with pytest.raises(ServiceError, match="held"):
            await opened(here, B, A, owner="thief")
        assert not here.engine.topic(B).subscriptions, "both subscriptions are made, or neither"
        clock.ms += HOUR_S * 1000 - 1
        await here.data.cursors.sweep()
        with pytest.raises(ServiceError, match="held"):
            await opened(here, A, owner="thief")
        clock.ms += 1
        found = (await opened(here, A, owner="thief"))[A]
        assert (found["created"], found["next"]) == (True, "1:0"), "it must be a new cursor"


async def test_a_lease_that_nobody_renews_ends_and_the_end_is_noticed(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path, now_ms=clock) as here:
        topic = await here.engine.create_topic(A)
        await publish(here.engine, A, [b"x"] * 5)
        await opened(here, A)
        await opened(here, A, subscription="for-ever", lease_s=None)
        await topic.subscribe("theirs")
        await opened(here, A, subscription="theirs")
        for _ in range(5):
            clock.ms += HOUR_S * 900
            await moved(here, "renew", A)
            await here.data.cursors.sweep()
        assert set(topic.subscriptions) == {"q", "for-ever", "theirs"}
        clock.ms += HOUR_S * 1000
        await here.data.cursors.sweep()
        assert set(topic.subscriptions) == {"for-ever", "theirs"}
        for answer in (
            moved(here, "renew", A),
            moved(here, "acknowledge", A, topic={"next": "1:1"}),
            opened(here, A, expect=True),
        ):
            with pytest.raises(ServiceError) as caught:
                await answer
            assert (caught.value.code, caught.value.status) == ("cursor_gone", 410)
        assert set(topic.subscriptions) == {"for-ever", "theirs"}
        listed = await here.ask("GET", "/cursors", parameters={"topic": A})
        assert listed["cursors"][A] == {
            "for-ever": {"owner": "me", "lease_until_ms": None},
            "theirs": {"owner": None, "lease_until_ms": None},
        }


async def test_a_lease_survives_a_restart_and_gets_time_to_be_renewed(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path, now_ms=clock) as here:
        await here.engine.create_topic(A)
        await opened(here, A)
        until_ms = (await moved(here, "renew", A))["lease_until_ms"]
        assert until_ms == clock.ms + HOUR_S * 1000
    clock.ms += 10 * HOUR_S * 1000
    async with served(tmp_path, now_ms=clock) as here:
        await here.data.cursors.sweep()
        assert "q" in here.engine.topic(A).subscriptions
        clock.ms += 599_000
        await here.data.cursors.sweep()
        assert (await opened(here, A, expect=True))[A]["created"] is False
    async with served(tmp_path, now_ms=clock) as here:
        clock.ms += HOUR_S * 1000
        await here.data.cursors.sweep()
        assert "q" not in here.engine.topic(A).subscriptions


async def test_the_end_on_disk_is_never_much_too_early(tmp_path: Path) -> None:
    clock = Clock()
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic(A)
        cursors = Cursors(engine, clock)
        from arneb.data.cursors import Holder

        holder = Holder("q", "me", 1000)
        await cursors.open(holder, {topic: InitialPosition.EARLIEST}, expect=False)
        before = engine.statistics().commits_total
        for _ in range(1000):
            clock.ms += 1000
            found = await cursors.renew(holder, {topic: None})
            stored = Cursors(engine, lambda: 0)._leases[f"data/lease/{topic.id:08x}/q"]
            until_ms = found[A]["lease_until_ms"]
            assert until_ms - 100_000 <= stored.until_ms <= until_ms == clock.ms + 1_000_000
        await quiet(engine)
        assert engine.statistics().commits_total - before < 20


async def test_deleting_a_topic_deletes_its_leases(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path, now_ms=clock) as here:
        await here.engine.create_topic(A)
        await opened(here, A)
        await opened(here, A, subscription="for-ever", lease_s=None)
        await here.engine.delete_topic(A)
        await here.data.cursors.sweep()
        assert not here.engine.metadata("data/lease/")
        await here.engine.create_topic(A)
        assert (await opened(here, A))[A]["created"]


async def test_ledgers_are_rolled_and_trimmed_behind_cursors(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        topic = await here.engine.create_topic(
            A, TopicSettings(retention_ms=-1, retention_bytes=-1)
        )
        for _ in range(2):
            await publish(here.engine, A, [b"x"] * 5)
            await topic.roll()
        await publish(here.engine, A, [b"x"] * 5)
        body = {"topics": {A: {"id": topic.id}}}
        assert await here.ask("POST", "/ledgers/roll", body=body) == {"topics": {A: {"end": "4:0"}}}
        await opened(here, A)
        body = {"topics": {A: {"id": topic.id, "before": "3:0"}}}
        answer = await here.ask("POST", "/ledgers/trim", body=body)
        assert answer == {"topics": {A: {"first": "1:0", "held_by": ["q"]}}}
        await moved(here, "acknowledge", A, topic={"next": "4:0"})
        answer = await here.ask("POST", "/ledgers/trim", body=body)
        assert answer == {"topics": {A: {"first": "3:0", "held_by": []}}}
        assert [each.id for each in topic.ledgers()] == [3, 4]


async def test_invalid_requests_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        topic = await here.engine.create_topic(A)
        await here.engine.create_topic(B, TopicSettings(durable=False))
        for fields in (
            {"lease_s": 1}, {"lease_s": "x"}, {"owner": 5}, {"initial": "newest"}, {"more": 1},
            {"expect": 1}, {"subscription": ""}, {"owner": ""},
        ):  # fmt: skip
            with pytest.raises(ServiceError) as caught:
                await opened(here, A, **fields)
            assert caught.value.code == "bad_request", fields
        for name, code in ((B, "not_allowed"), ("persistent://x/y/z", "topic_not_found")):
            with pytest.raises(ServiceError) as caught:
                await opened(here, name)
            assert caught.value.code == code
        await opened(here, A)
        with pytest.raises(ServiceError, match="1:0") as caught:
            await moved(here, "acknowledge", A, topic={"next": "7:0"})
        assert caught.value.code == "bad_request"
        with pytest.raises(ServiceError, match="recreated") as caught:
            await moved(here, "renew", A, topic={"id": topic.id + 5})
        assert caught.value.code == "topic_replaced"
