"""What the page receives about queues and topics: their ages, their past, what becomes due, and
topics in namespaces of no virtual host."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.http.management.kit import Caller, managed
from tests.broker.http.management.page.test_browsing import publish

from arneb.http.management.lists import ages as ages_module
from arneb.http.management.lists.ages import Ages
from arneb.http.management.lists.queues_by_name import QueuesByName
from arneb.http.management.lists.rows import AllRows, Row
from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings

ELSEWHERE = "persistent://elsewhere/place/log"
NAMED = "page/topic/persistent%3A%2F%2Felsewhere%2Fplace%2Flog"


class FakeLedger:
    def __init__(self, created_ms: int, closed_ms: int) -> None:
        self.id, self.created_ms, self.closed_ms = 1, created_ms, closed_ms


class FakeRow:
    """A log with one waiting message, or none; it is its own topic and subscription, too."""

    id = 1

    def __init__(self, name: str, published_ms: int | None, ledger: FakeLedger) -> None:
        self.name, self.published_ms, self._ledger = name, published_ms, ledger
        self.topic: Any = self
        self.main: Any = self
        self.reads = 0
        self.fails = False

    def __repr__(self) -> str:
        return self.name

    @property
    def lengths(self) -> tuple[int, int]:
        return (0, 0) if self.published_ms is None else (1, 0)

    def unacknowledged(self, limit: int) -> Sequence[Position]:
        return [] if self.published_ms is None else [position_at(1, 0)]

    def ledgers(self) -> list[FakeLedger]:
        return [self._ledger]

    async def entry_at(self, place: Position) -> bytes:
        self.reads += 1
        if self.fails:
            raise StoreFailed("as told")
        assert self.published_ms is not None
        return EntryHeader(Origin.BROKER, publish_time_ms=self.published_ms).pack()


ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 30), st.integers(0, 10), st.integers(0, 10)), max_size=12
)


def made(rows: list[tuple[int | None, int, int]]) -> list[FakeRow]:
    return [
        FakeRow(f"r{n}", at, FakeLedger((at or 0) - before, (at or 0) + after))
        for n, (at, before, after) in enumerate(rows)
    ]


@given(rows=ROWS, end=st.integers(0, 14), reverse=st.booleans())
def test_rows_are_in_the_order_of_their_oldest_messages(
    rows: list[tuple[int | None, int, int]], end: int, reverse: bool
) -> None:
    async def play() -> None:
        found = made(rows)
        ages = Ages()
        for _ in range(2):  # on disk, and in memory
            ordered = await ages.oldest_first(found, end, trio.lowlevel.checkpoint, reverse=reverse)
            none = float("-inf") if reverse else float("inf")
            times = [none if e.published_ms is None else e.published_ms for e in ordered]
            every = [none if e.published_ms is None else e.published_ms for e in found]
            if reverse:
                empty = [each for each in every if each == none]
                rest = sorted((each for each in every if each != none), reverse=True)
                assert times == [*empty, *rest][:end]
            else:
                assert times == sorted(every)[:end]
        assert all(each.reads <= 1 for each in found)

    trio.run(play)


async def test_only_possible_candidates_for_the_oldest_are_read() -> None:
    rows = [FakeRow(f"r{n}", 1000 * n + 5, FakeLedger(1000 * n, 1000 * n + 9)) for n in range(50)]
    await Ages().oldest_first(rows, 3, trio.lowlevel.checkpoint, reverse=False)
    assert sum(each.reads for each in rows) == 3


async def test_a_sort_reads_only_so_much_and_continues_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ages_module, "READS_MAX", 4)
    rows = [FakeRow(f"r{n}", 100 - n, FakeLedger(0, 200)) for n in range(10)]
    ages, reads = Ages(), 0
    for _ in range(3):
        found = await ages.oldest_first(rows, 3, trio.lowlevel.checkpoint, reverse=False)
        now = sum(each.reads for each in rows)
        assert now - reads <= 4
        reads = now
    assert [each.published_ms for each in found] == [91, 92, 93]


async def test_a_message_that_cannot_be_read_counts_as_old_as_its_ledger() -> None:
    rows = [FakeRow(f"r{n}", 10 * n, FakeLedger(10 * n, 0)) for n in range(5)]
    rows[2].fails = True
    found = await Ages().oldest_first(rows, 5, trio.lowlevel.checkpoint, reverse=False)
    assert [each.name for each in found] == ["r0", "r1", "r2", "r3", "r4"]


async def test_the_list_is_sorted_by_age(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        for name in ("b", "a", "empty"):
            await call.does("PUT", f"queues/%2F/{name}", {"durable": True})
        now_ms = wall_clock_ms()  # no message is older than its ledger
        for name, at in (("b", now_ms + 60_000), ("a", now_ms + 120_000)):
            entry = EntryHeader(Origin.BROKER, publish_time_ms=at).pack() + b"x"
            topic = call.site.core.topics[f"persistent://public/default/{name}"]
            await call.site.core.committed(Unit([(topic, [entry])]))
        order = "page/topics?page=1&sort=age&sort_reverse="
        oldest = await call.does("GET", f"{order}true")
        assert [each["name"] for each in oldest["items"]] == ["b", "a", "empty"]
        youngest = await call.does("GET", f"{order}false")
        assert [each["name"] for each in youngest["items"]] == ["empty", "a", "b"]


async def elsewhere(call: Caller) -> None:
    """A topic in a namespace that no vhost has."""
    core = call.site.core
    topic = await core.create_topic(ELSEWHERE, TopicSettings())
    await topic.subscribe("s", initial=InitialPosition.EARLIEST)
    entry = EntryHeader(Origin.BROKER, publish_time_ms=1).pack() + b"seen"
    await core.committed(Unit([(topic, [entry])]))


async def test_a_topic_of_no_vhost_is_listed_and_can_be_opened(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await elsewhere(call)
        (row,) = (await call.does("GET", "page/topics?page=1"))["items"]
        assert (row["vhost"], row["topic"], row["messages"]) == ("", ELSEWHERE, 1)
        shown = await call.does("GET", NAMED)
        assert (shown["topic"], shown["messages"]) == (ELSEWHERE, 1)
        assert [each["name"] for each in shown["details"]] == ["s"]
        found = await call.does("GET", f"{NAMED}/messages")
        assert [each["body"] for each in found["messages"]] == ["seen"]
        assert (await call("GET", f"{NAMED}x")).status == 404


@pytest.mark.parametrize("user", ["monitoring", "management", "policymaker"])
async def test_only_administrators_may_open_it(tmp_path: Path, user: str) -> None:
    async with managed(tmp_path) as call:
        await elsewhere(call)
        for path in ("", "/messages", "/history"):
            assert (await call("GET", NAMED + path, user=user)).status == 401
        shown = await call.does("GET", "page/topics?page=1", user=user)
        assert shown["items"] == []


async def test_the_brokers_internal_topics_are_in_no_list(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        body = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "topic"}}
        await call.does("PUT", "exchanges/%2F/later", body)
        await call.does("PUT", "queues/%2F/q", {"durable": True})
        own = [each for each in call.site.core.topics if each.startswith("amqp-delayed://")]
        assert len(own) == 1
        shown = await call.does("GET", "page/topics?page=1")
        assert [each["name"] for each in shown["items"]] == ["q"]
        assert (await call("GET", f"page/topic/{quote(own[0], safe='')}")).status == 404


async def test_rows_that_stay_are_the_same_when_others_come_and_go(tmp_path: Path) -> None:
    """Otherwise the order of very many would be recomputed each time."""
    async with managed(tmp_path) as call:
        site = call.site

        async def rows() -> dict[str, Row]:
            found = await site.rows.of(site.core, site.topology)
            return {each.name: each for each in (*found["/"], *found.get("", ()))}

        await elsewhere(call)
        for name in ("stays", "goes", "returns", "topic"):
            await call.does("PUT", f"queues/%2F/{name}", {"durable": True})
        before = await rows()
        for name in ("goes", "returns"):
            await call.does("DELETE", f"queues/%2F/{name}")
        for name in ("comes", "returns"):
            await call.does("PUT", f"queues/%2F/{name}", {"durable": True})
        after = await rows()
        assert sorted(after) == ["comes", "elsewhere/place/log", "returns", "stays", "topic"]
        same = {name for name in after if after[name] is before.get(name)}
        assert same == {"stays", "elsewhere/place/log", "topic"}
        for row in after.values():
            assert row.topic is site.core.topics[row.topic.name]
            assert row.queue is None or row.queue is site.vhost("/").queues.get(row.name)


async def test_a_new_queue_soon_appears_however_much_others_do(tmp_path: Path) -> None:
    now = 0.0

    async def others() -> None:
        nonlocal now
        now += 60.0

    async with managed(tmp_path) as call:
        site = call.site
        rows = AllRows(QueuesByName(), others, lambda: now)

        async def names() -> list[str]:
            found = await rows.of(site.core, site.topology)
            return [each.name for each in found["/"]]

        for name in ("a", "b", "c"):
            await call.does("PUT", f"queues/%2F/{name}", {"durable": True})
            now += 0.6
            assert (await names())[-1] == name


async def test_the_past_of_a_queue_begins_when_somebody_opens_it(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", "queues/%2F/q", {"durable": True})
        await call.does("GET", "page/queues/%2F/q")
        await publish(call, "q", "x")
        with trio.move_on_after(10):
            await trio.sleep_forever()
        history = await call.does("GET", "page/queues/%2F/q/history")
        assert set(history) == {"in", "out", "acknowledged", "ready", "unacknowledged"}
        assert history["ready"]["samples"][0]["sample"] == 1
        assert history["in"]["samples"][0]["sample"] == 1


async def test_messages_that_become_due_are_shown_of_queues_and_exchanges(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        arguments = {"x-delayed-type": "topic"}
        body = {"type": "x-delayed-message", "durable": True, "arguments": arguments}
        await call.does("PUT", "exchanges/%2F/later", body)
        for number, delay_ms in enumerate((7_200_000, 3_600_000)):
            message = {
                "properties": {"headers": {"x-delay": delay_ms}, "delivery_mode": 2},
                "routing_key": "k", "payload": f"{number}", "payload_encoding": "string",
            }  # fmt: skip
            await call.does("POST", "exchanges/%2F/later/publish", message)
        (shown,) = await call.does("GET", "page/delayed")
        assert (shown["name"], shown["exchange"], shown["delayed"]) == ("later", True, 2)
        due = await call.does("GET", "page/delayed-by/%2F/later")
        assert [each["body"] for each in due] == ["1", "0"]
        assert due[0]["deliver_at_ms"] == shown["next_ms"]
        assert (await call("GET", "page/delayed-by/%2F/never")).status == 404
        rights = {"configure": ".*", "write": ".*", "read": "^$"}
        await call.does("PUT", "permissions/%2F/management", rights)
        refused = await call("GET", "page/delayed-by/%2F/later", user="management")
        assert refused.status == 401
        await call.does("PUT", "queues/%2F/q", {"durable": True})
        assert await call.does("GET", "page/delayed/%2F/q") == []
        assert (await call("GET", "page/delayed/%2F/q", user="management")).status == 401
