"""Messages that an operator reads, searches and moves: nothing else happens to them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.broker.http.management.kit import Caller, managed

from arneb.http.management.page import browsing
from arneb.http.management.page.moving import MOVED_MAX
from arneb.http.management.page.row_documents import SORTABLE

QUEUE = "page/messages/%2F/q"


@asynccontextmanager
async def filled(path: Path, count: int = 6) -> AsyncIterator[Caller]:
    """A queue ``q`` with numbered messages, and empty queues beside it."""
    async with managed(path) as call:
        for name in ("q", "other"):
            await call.does("PUT", f"queues/%2F/{name}", {"durable": True})
        for number in range(count):
            await publish(call, "q", f'{{"number": {number}}}', region="eu" if number % 2 else "us")
        yield call


async def publish(call: Caller, queue: str, payload: str, **headers: str) -> None:
    body = {
        "properties": {"headers": headers, "delivery_mode": 2},
        "routing_key": queue,
        "payload": payload,
        "payload_encoding": "string",
    }
    assert (await call.does("POST", "exchanges/%2F/amq.default/publish", body))["routed"]


async def lengths(call: Caller, *names: str) -> list[tuple[int, int]]:
    found = [await call.does("GET", f"queues/%2F/{name}") for name in names]
    return [(each["messages_ready"], each["messages_unacknowledged"]) for each in found]


def bodies(shown: dict[str, Any]) -> list[str]:
    return [each["body"] for each in shown["messages"]]


def positions(shown: dict[str, Any], *numbers: int) -> Sequence[str]:
    return [shown["messages"][number]["position"] for number in numbers]


async def test_reading_changes_nothing(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        for _ in range(3):
            shown = await call.does("GET", QUEUE)
        assert bodies(shown) == [f'{{"number": {number}}}' for number in range(6)]
        first = shown["messages"][0]
        assert (first["key"], first["encoding"], first["waits"]) == ("q", "json", True)
        assert shown["next"] is None
        assert await lengths(call, "q") == [(6, 0)]
        taking = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        (taken,) = await call.does("POST", "queues/%2F/q/get", taking)
        assert not taken["redelivered"]


async def test_the_next_page_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        first = await call.does("GET", f"{QUEUE}?limit=4")
        then = await call.does("GET", f"{QUEUE}?limit=4&from={first['next']}")
        assert len(bodies(first)) == 4
        assert bodies(first) + bodies(then) == [f'{{"number": {n}}}' for n in range(6)]
        assert then["next"] is None


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("header=region=eu", [1, 3, 5]),
        ("header=region", [0, 1, 2, 3, 4, 5]),
        ("header=region=asia", []),
        ("header=colour", []),
        ("text=number%22:%204", [4]),
        ("key=q&text=5", [5]),
        ("key=elsewhere", []),
        ("since=1", [0, 1, 2, 3, 4, 5]),
        ("until=1", []),
    ],
)
async def test_messages_are_found_by_their_content(
    tmp_path: Path, query: str, numbers: list[int]
) -> None:
    async with filled(tmp_path) as call:
        shown = await call.does("GET", f"{QUEUE}?{query}")
        assert bodies(shown) == [f'{{"number": {number}}}' for number in numbers]


async def test_a_search_stops_at_its_budget_and_continues_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "SLICE_BYTES", 1)
    monkeypatch.setattr(browsing, "SEARCHED_BYTES_MAX", 1)
    async with filled(tmp_path) as call:
        found, place, calls = list[str](), "", 0
        while place is not None:
            shown = await call.does("GET", f"{QUEUE}?text=number&from={place}")
            found, place, calls = found + bodies(shown), shown["next"], calls + 1
        assert found == [f'{{"number": {number}}}' for number in range(6)]
        assert calls > 1


async def test_acknowledged_messages_are_found_while_they_are_retained(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        taking = {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"}
        await call.does("POST", "queues/%2F/q/get", taking)
        assert len(bodies(await call.does("GET", QUEUE))) == 4
        everything = await call.does("GET", f"{QUEUE}?of=all")
        assert [each["waits"] for each in everything["messages"]] == [False] * 2 + [True] * 4


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=x", "from=1", "from=x:y", "since=-1", "text=" + "x" * 2000],
)
async def test_invalid_requests_are_refused(tmp_path: Path, query: str) -> None:
    async with filled(tmp_path, 1) as call:
        assert (await call("GET", f"{QUEUE}?{query}")).status == 400


async def test_only_users_who_may_read_the_queue_see_its_messages(tmp_path: Path) -> None:
    async with filled(tmp_path, 1) as call:
        rights = {"configure": ".*", "write": ".*", "read": "^other$"}
        await call.does("PUT", "permissions/%2F/management", rights)
        assert (await call("GET", QUEUE, user="management")).status == 401
        body = {"positions": ["1:0"], "to": "other"}
        for action in ("move", "copy", "delete", "send-back"):
            assert (await call("POST", f"{QUEUE}/{action}", body, user="management")).status == 401
        assert await lengths(call, "q", "other") == [(1, 0), (0, 0)]


async def test_messages_are_moved_with_all_their_fields(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        shown = await call.does("GET", QUEUE)
        body = {"positions": positions(shown, 1, 3), "to": "other"}
        assert await call.does("POST", f"{QUEUE}/move", body) == {"done": 2, "left": 0}
        assert await lengths(call, "q", "other") == [(4, 0), (2, 0)]
        there = await call.does("GET", "page/messages/%2F/other")
        assert bodies(there) == ['{"number": 1}', '{"number": 3}']
        assert there["messages"][0]["properties"] == shown["messages"][1]["properties"]
        assert await call.does("POST", f"{QUEUE}/move", body) == {"done": 0, "left": 2}
        assert await lengths(call, "q", "other") == [(4, 0), (2, 0)]


async def test_a_copy_leaves_the_message_where_it_is(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        body = {"positions": positions(await call.does("GET", QUEUE), 0), "to": "other"}
        assert (await call.does("POST", f"{QUEUE}/copy", body))["done"] == 1
        assert await lengths(call, "q", "other") == [(6, 0), (1, 0)]


async def test_a_requeued_message_goes_to_the_end(tmp_path: Path) -> None:
    async with filled(tmp_path, 3) as call:
        body = {"positions": positions(await call.does("GET", QUEUE), 0), "to": "q"}
        await call.does("POST", f"{QUEUE}/move", body)
        numbers = [f'{{"number": {number}}}' for number in (1, 2, 0)]
        assert bodies(await call.does("GET", QUEUE)) == numbers


async def test_a_deleted_message_is_gone_and_no_other(tmp_path: Path) -> None:
    async with filled(tmp_path, 3) as call:
        body = {"positions": positions(await call.does("GET", QUEUE), 1)}
        assert (await call.does("POST", f"{QUEUE}/delete", body))["done"] == 1
        assert bodies(await call.does("GET", QUEUE)) == ['{"number": 0}', '{"number": 2}']
        assert await lengths(call, "q") == [(2, 0)]


async def test_a_full_queue_that_refuses_gets_nothing_and_nothing_is_lost(tmp_path: Path) -> None:
    async with filled(tmp_path, 3) as call:
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await call.does("PUT", "queues/%2F/full", {"durable": True, "arguments": full})
        shown = await call.does("GET", QUEUE)
        body = {"positions": positions(shown, 0, 1, 2), "to": "full"}
        answered = await call("POST", f"{QUEUE}/move", body)
        assert answered.status == 400
        assert await lengths(call, "q", "full") == [(3, 0), (0, 0)]
        one = {"positions": positions(shown, 0), "to": "full"}
        assert (await call.does("POST", f"{QUEUE}/move", one))["done"] == 1
        assert await lengths(call, "q", "full") == [(2, 0), (1, 0)]


async def test_a_dead_letter_returns_unchanged_to_where_it_died(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await call.does("PUT", "queues/%2F/dead", {"durable": True})
        await call.does("PUT", "queues/%2F/alive", {"durable": True, "arguments": dead})
        await publish(call, "alive", "text", colour="red")
        before = (await call.does("GET", "page/messages/%2F/alive"))["messages"][0]
        taking = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"}
        await call.does("POST", "queues/%2F/alive/get", taking)
        while await lengths(call, "dead") == [(0, 0)]:
            await trio.lowlevel.checkpoint()  # small commits may overtake that of the letter
        shown = await call.does("GET", "page/messages/%2F/dead")
        assert any("x-first-death-queue" in name for name in shown["messages"][0]["properties"])
        body = {"positions": positions(shown, 0)}
        assert (await call.does("POST", "page/messages/%2F/dead/send-back", body))["done"] == 1
        after = (await call.does("GET", "page/messages/%2F/alive"))["messages"][0]
        assert (after["properties"], after["body"]) == (before["properties"], before["body"])
        assert await lengths(call, "dead", "alive") == [(0, 0), (1, 0)]


async def test_what_never_died_is_not_sent_anywhere(tmp_path: Path) -> None:
    async with filled(tmp_path, 1) as call:
        body = {"positions": positions(await call.does("GET", QUEUE), 0)}
        assert await call.does("POST", f"{QUEUE}/send-back", body) == {"done": 0, "left": 1}
        assert await lengths(call, "q") == [(1, 0)]


@pytest.mark.parametrize("given", [[], ["x"], ["1:0"] * (MOVED_MAX + 1), ["1:-1"]])
async def test_positions_are_checked_before_anything_is_done(
    tmp_path: Path, given: list[str]
) -> None:
    async with filled(tmp_path, 1) as call:
        answered = await call("POST", f"{QUEUE}/delete", {"positions": given})
        assert answered.status == 400
        assert await lengths(call, "q") == [(1, 0)]


async def test_one_queue_is_shown_with_its_cursors(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        shown = await call.does("GET", "page/queues/%2F/q")
        (of,) = shown["details"]
        assert (of["name"], of["ready"], shown["messages"]) == ("amqp", 6, 6)
        assert sum(each["entries"] for each in shown["ledgers"]) == 6
        assert shown["why"] == "Nobody consumes: 6 messages waiting."
        assert (await call("GET", "page/queues/%2F/nothing")).status == 404


async def test_the_list_has_queues_and_topics_sorted_by_any_figure(tmp_path: Path) -> None:
    async with filled(tmp_path, 2) as call:
        await call.site.core.create_topic("persistent://public/default/only-pulsar")
        await call.site.core.create_topic("persistent://some/where/else")
        for sort in sorted(SORTABLE):
            query = f"page=1&page_size=10&sort={sort}&sort_reverse=true"
            shown = await call.does("GET", f"page/topics?{query}")
            names = {each["name"]: each["type"] for each in shown["items"]}
            assert names == {
                "q": "classic", "other": "classic", "only-pulsar": "topic",
                "some/where/else": "topic",
            }  # fmt: skip
        longest = "page/topics?page=1&page_size=10&sort=messages&sort_reverse=true"
        shown = await call.does("GET", longest)
        assert shown["items"][0]["name"] == "q"
        assert shown["items"][0]["oldest_ms"] > 0
        seen = await call.does("GET", "page/topics?page=1&page_size=10", user="management")
        assert "some/where/else" not in {each["name"] for each in seen["items"]}
        assert (await call("GET", "page/topics?page=1&sort=colour")).status == 400


async def test_a_route_can_be_tried_without_a_message(tmp_path: Path) -> None:
    async with filled(tmp_path, 0) as call:
        key = {"routing_key": "order.#"}
        await call.does("POST", "bindings/%2F/e/amq.topic/q/q", key)
        tried = {"routing_key": "order.created", "headers": {}}
        assert (await call.does("POST", "page/route/%2F/amq.topic", tried))["queues"] == ["q"]
        tried = {"routing_key": "invoice"}
        assert (await call.does("POST", "page/route/%2F/amq.topic", tried))["queues"] == []
        assert (await call("POST", "page/route/%2F/nowhere", tried)).status == 404
        assert await lengths(call, "q") == [(0, 0)]


async def test_what_a_policy_would_apply_to_is_named(tmp_path: Path) -> None:
    async with filled(tmp_path, 0) as call:
        wanted = {"pattern": "^o", "apply-to": "all"}
        shown = await call.does("POST", "page/policies/%2F/preview", wanted)
        assert (shown["queues"], shown["exchanges_total"]) == (["other"], 0)
        wanted = {"pattern": "topic", "apply-to": "exchanges"}
        shown = await call.does("POST", "page/policies/%2F/preview", wanted)
        assert shown["exchanges"] == ["amq.topic"]
        for wanted in ({"pattern": "("}, {"pattern": "x", "apply-to": "people"}):
            assert (await call("POST", "page/policies/%2F/preview", wanted)).status == 400


async def test_a_message_is_published_again_unchanged(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        shown = await call.does("GET", QUEUE)
        body = {"positions": positions(shown, 1, 3)}
        done = await call.does("POST", f"{QUEUE}/republish", body)
        assert done == {"done": 2, "unrouted": 0, "refused": 0, "left": 0}
        after = await call.does("GET", QUEUE)
        assert bodies(after)[6:] == ['{"number": 1}', '{"number": 3}']
        assert after["messages"][6]["properties"] == shown["messages"][1]["properties"]
        assert await lengths(call, "q") == [(8, 0)]


async def test_a_message_is_published_again_elsewhere(tmp_path: Path) -> None:
    async with filled(tmp_path) as call:
        place = positions(await call.does("GET", QUEUE), 0)
        body = {"positions": place, "exchange": "", "routing_key": "other"}
        assert (await call.does("POST", f"{QUEUE}/republish", body))["done"] == 1
        assert await lengths(call, "q", "other") == [(6, 0), (1, 0)]
        body["routing_key"] = "nobody"
        assert (await call.does("POST", f"{QUEUE}/republish", body))["unrouted"] == 1
        full = {"x-max-length": 0, "x-overflow": "reject-publish"}
        await call.does("PUT", "queues/%2F/full", {"durable": True, "arguments": full})
        body["routing_key"] = "full"
        assert (await call.does("POST", f"{QUEUE}/republish", body))["refused"] == 1
        gone = {"positions": ["9:9"], "exchange": ""}
        assert (await call.does("POST", f"{QUEUE}/republish", gone))["left"] == 1
        body["exchange"] = "never"
        assert (await call("POST", f"{QUEUE}/republish", body)).status == 404


async def test_a_user_who_may_not_publish_there_republishes_nothing(tmp_path: Path) -> None:
    async with filled(tmp_path, 1) as call:
        body = {"positions": positions(await call.does("GET", QUEUE), 0)}
        rights = {"configure": ".*", "write": "^$", "read": ".*"}
        await call.does("PUT", "permissions/%2F/management", rights)
        refused = await call("POST", f"{QUEUE}/republish", body, user="management")
        assert refused.status == 401
        await call.does("PUT", "permissions/%2F/management", {**rights, "write": ".*", "read": "x"})
        refused = await call("POST", f"{QUEUE}/republish", body, user="management")
        assert refused.status == 401
        assert await lengths(call, "q") == [(1, 0)]
