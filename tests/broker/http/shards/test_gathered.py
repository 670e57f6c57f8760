"""Requests about all shards, answered from what their leaders answer."""

import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.management.requests import written
from arneb.http.shards import gathered, merging
from arneb.http.shards.gathered import Gathered
from arneb_core.api.encoding.json_text import parse_own_json

Said = tuple[int, Any]


class Leaders:
    """The leaders of two shards: what they answer, and what they were asked."""

    def __init__(self, main: Said, audit: Said) -> None:
        self.answers = {"main": main, "audit": audit}
        self.asked: list[tuple[str, str, str, bytes]] = []

    def of(self, shard: str) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message["body"], message["more_body"]
            target = f"{scope['path']}?{scope['query_string'].decode()}"
            self.asked.append((shard, scope["method"], target, body))
            status, document = self.answers[shard]
            if status == 200 and isinstance(document, list):
                document = paged(document, dict(parse_qsl(scope["query_string"].decode())))
            headers = [(b"content-type", b"application/json"), (b"x-shard", shard.encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(document).encode()})

        return answer

    def client(self) -> httpx.AsyncClient:
        async def one(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        def shard_of(namespace: str) -> str:
            return "audit" if namespace == "public/audit" else "main"

        app = Gathered(["main", "audit"], shard_of, self.of, one)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://node")


def paged(rows: list[Any], query: dict[str, str]) -> Any:
    """As a leader pages its list, which is in order."""
    if "page" not in query:
        return rows
    number, size = int(query["page"]), int(query["page_size"])
    found = [each for each in rows if query.get("name", "").lower() in each["name"]]
    return {
        "items": found[(number - 1) * size : number * size],
        "total_count": len(rows),
        "filtered_count": len(found),
        "page_count": -(-len(found) // size),
        "flow": sum(each.get("flow", 0.0) for each in rows),
    }


def queues(vhost: str, *names: str) -> list[dict[str, str]]:
    return [{"vhost": vhost, "name": each} for each in names]


async def test_a_page_is_complete_once_all_parts_have_arrived() -> None:
    leaders = Leaders((200, queues("b", "x", "y")), (200, queues("a", "x", "z")))
    async with leaders.client() as http:
        query = "page=1&page_size=3&columns=name&disable_stats=true"
        found = (await http.get(f"/api/queues?{query}")).json()
        second = (await http.get("/api/queues?page=2&page_size=3")).json()
        searched = (await http.get("/api/queues?page=1&name=X&sort=vhost&sort_reverse=true")).json()
        wrong = await http.get("/api/queues?page=0")
    assert found["items"] == [{"name": "x"}, {"name": "z"}, {"name": "x"}]
    assert (found["total_count"], found["page_count"]) == (4, 2)
    assert second["items"] == queues("b", "y")
    assert searched["items"] == [*queues("b", "x"), *queues("a", "x")]
    assert wrong.status_code == 400
    assert [each[:3] for each in leaders.asked[:2]] == [
        ("main", "GET", "/api/queues?disable_stats=true&page=1&page_size=3"),
        ("audit", "GET", "/api/queues?disable_stats=true&page=1&page_size=3"),
    ]


@pytest.mark.parametrize("status", [401, 403, 404, 503])
async def test_a_refusal_by_one_shard_is_the_answer(status: int) -> None:
    leaders = Leaders((200, queues("b", "x")), (status, {"reason": "no"}))
    async with leaders.client() as http:
        for path in ("/api/queues", "/api/overview", "/api/definitions", "/api/topics"):
            answer = await http.get(path)
            reason = "shard 'audit': no" if status == 503 else "no"
            assert (answer.status_code, answer.json()["reason"]) == (status, reason)


async def test_answers_that_are_too_large_are_refused_and_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathered, "HELD_BYTES_MAX", 100)
    leaders = Leaders((200, queues("b", "x" * 50)), (200, queues("a", "y" * 50)))
    async with leaders.client() as http:
        answer = await http.get("/api/queues")
    assert answer.status_code == 400
    assert "one virtual host after the other" in answer.json()["reason"]


async def test_a_client_is_searched_for_in_one_shard_after_the_other() -> None:
    leaders = Leaders((404, {}), (200, {"name": "c"}))
    async with leaders.client() as http:
        assert (await http.get("/api/connections/c")).json() == {"name": "c"}
        assert [each[0] for each in leaders.asked] == ["main", "audit"]
        leaders.answers["main"] = 200, {"name": "other"}
        assert (await http.get("/api/connections/c")).json() == {"name": "other"}
        assert len(leaders.asked) == 3


async def test_a_health_check_succeeds_if_it_does_everywhere() -> None:
    leaders = Leaders((200, {"status": "ok"}), (503, {"status": "failed"}))
    async with leaders.client() as http:
        assert (await http.get("/api/health/checks/alarms")).status_code == 503
        leaders.answers["audit"] = leaders.answers["main"]
        assert (await http.get("/api/health/checks/alarms")).status_code == 200
        leaders.answers["main"] = 204, {}
        assert (await http.delete("/api/connections/username/anna")).is_success
        assert [each[:2] for each in leaders.asked[-2:]] == [
            ("main", "DELETE"),
            ("audit", "DELETE"),
        ]


async def test_watermarks_are_moved_on_every_shard() -> None:
    leaders = Leaders((200, {}), (200, {}))
    async with leaders.client() as http:
        assert (await http.put("/api/alarms", json={"disk_free_min_bytes": 7})).is_success
    assert [(each[0], json.loads(each[3])) for each in leaders.asked] == [
        ("main", {"disk_free_min_bytes": 7}), ("audit", {"disk_free_min_bytes": 7}),
    ]  # fmt: skip


async def test_a_definitions_file_goes_to_each_shard_that_it_concerns() -> None:
    leaders = Leaders((201, {}), (201, {}))
    file = {"users": [{"name": "u"}], "queues": queues("audit", "q"), "vhosts": [{"name": "audit"}]}
    async with leaders.client() as http:
        assert (await http.post("/api/all-configuration", json=file)).status_code == 201
        assert [each[:3] for each in leaders.asked] == [
            ("main", "POST", "/api/definitions?"), ("audit", "POST", "/api/definitions?"),
        ]  # fmt: skip
        parts = [json.loads(each[3]) for each in leaders.asked]
        assert parts == [
            {"users": [{"name": "u"}], "queues": [], "vhosts": []},
            {"queues": queues("audit", "q"), "vhosts": [{"name": "audit"}]},
        ]
        sent = {"file": ("f.json", json.dumps({"queues": []}))}
        assert (await http.post("/api/definitions", files=sent)).status_code == 201
        assert json.loads(leaders.asked[-1][3]) == {"queues": []}
        for wrong in (b"[]", b"{"):
            assert (await http.post("/api/definitions", content=wrong)).status_code == 400
        leaders.answers["audit"] = 400, {"reason": "no such user"}
        refused = await http.post("/api/definitions", json=file)
    assert refused.status_code == 400
    reason = "shard 'audit': no such user; shard 'main' has taken in its part"
    assert refused.json()["reason"] == reason


async def test_a_definitions_file_may_be_as_long_as_without_shards() -> None:
    leaders = Leaders((201, {}), (201, {}))
    many = [{"vhost": "audit", "name": f"q{number}", "arguments": {}} for number in range(11_000)]
    async with leaders.client() as http:
        answer = await http.post("/api/definitions", json={"queues": many})
    assert answer.status_code == 201, answer.text
    assert json.loads(leaders.asked[-1][3]) == {"queues": many}


async def test_long_lists_are_read_and_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nobody gets a turn meanwhile: for 64 MiB, longer than this node's lease lasts."""
    read: list[int] = []
    pieces = 0

    def parse(body: bytes) -> Any:
        read.append(threading.get_ident())
        return parse_own_json(body)

    async def count() -> None:
        nonlocal pieces
        pieces += 1

    monkeypatch.setattr(gathered, "WHOLE_CHARACTERS_MAX", 1000)
    monkeypatch.setattr(gathered, "parse_own_json", parse)
    monkeypatch.setattr(written, "between_pieces", count)
    many = queues("a", *(f"q{number:04}" for number in range(1000)))
    leaders = Leaders((200, many), (200, queues("b", "x")))
    async with leaders.client() as http:
        found = (await http.get("/api/queues")).json()
        assert (found, pieces) == ([*many, *queues("b", "x")], 10)
        leaders.answers = {"main": (200, {"queues": many}), "audit": (200, {"queues": []})}
        assert (await http.get("/api/definitions")).json() == {"queues": many}
    assert len(read) == 2
    assert threading.get_ident() not in read
    assert pieces == 19


async def test_requests_about_one_shard_are_passed_through() -> None:
    leaders = Leaders((500, {}), (500, {}))
    async with leaders.client() as http:
        for ask in (http.get, http.put):
            found: Callable[..., Any] = ask
            assert (await found("/api/queues/v/q")).status_code == 204
        head = await http.head("/api/queues")
    assert (head.status_code, head.content) == (500, b"")


def rows(*of: tuple[str, str, int], **more: Any) -> list[dict[str, Any]]:
    return [{"vhost": vhost, "name": name, "messages": count, **more} for vhost, name, count in of]


async def test_as_many_rows_of_each_shard_are_read_as_a_page_could_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not all of them, and not one page of each: all first rows may be in one shard."""
    monkeypatch.setattr(merging, "PAGE_SIZE_MAX", 2)
    long = rows(*(("a", f"q{number}", 9 - number) for number in range(9)))
    leaders = Leaders((200, long), (200, rows(("b", "p", 3), ("", "t/n/x", 2))))
    async with leaders.client() as http:
        query = "page=2&page_size=2&sort=messages&sort_reverse=true"
        found = (await http.get(f"/api/page/topics?{query}")).json()
        by_name = (await http.get("/api/page/topics?page=1&page_size=20")).json()
    assert [(each["name"], each["shard"]) for each in found["items"]] == [
        ("q2", "main"), ("q3", "main"),
    ]  # fmt: skip
    assert (found["total_count"], found["page_count"], found["missing"]) == (11, 6, [])
    assert [each[2].partition("page=")[2] for each in leaders.asked if each[0] == "main"][:2] == [
        "1&page_size=2", "2&page_size=2",
    ]  # fmt: skip
    assert len([each for each in leaders.asked if each[0] == "main"]) == 2 + 5
    assert [each["name"] for each in by_name["items"]][-2:] == ["p", "t/n/x"]


async def test_for_a_page_after_the_last_row_only_the_first_rows_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merging, "PAGE_SIZE_MAX", 2)
    leaders = Leaders((200, queues("b", *"stuvwxyz")), (200, queues("a", "x")))
    async with leaders.client() as http:
        answer = await http.get("/api/queues?page=900000000&page_size=2")
        assert answer.status_code == 400
        page = answer.json()
        assert page["error"] == "page_out_of_range"
        assert page["reason"] == "Page out of range, page: 900000000 page size: 2, len: 9"
        assert len(leaders.asked) == 2
        last = (await http.get("/api/queues?page=5&page_size=2")).json()
    assert [each["name"] for each in last["items"]] == ["z"]


async def test_a_page_after_the_last_row_is_refused_as_a_shard_refuses_it() -> None:
    leaders = Leaders((200, queues("b", "x")), (403, {"reason": "no"}))
    async with leaders.client() as http:
        assert (await http.get("/api/queues?page=900&page_size=2")).status_code == 403


async def test_the_oldest_and_the_noisiest_are_those_of_all_shards() -> None:
    def client(name: str, flow: float) -> dict[str, Any]:
        return {"vhost": "", "name": name, "shown_name": name, "flow": flow, "noisy": True}

    main, audit = rows(("a", "new", 1), oldest_ms=50), rows(("b", "old", 1), oldest_ms=7)
    leaders = Leaders((200, [*main, *rows(("a", "none", 0))]), (200, audit))
    async with leaders.client() as http:
        found = (await http.get("/api/page/topics?page=1&sort=age&sort_reverse=true")).json()
        assert [each["name"] for each in found["items"]] == ["old", "new", "none"]
        leaders.answers = {
            "main": (200, [client("x", 400_000.0)]), "audit": (200, [client("y", 500_000.0)]),
        }  # fmt: skip
        for share, noisy in ((500_000.0, ["y"]), (400_000.0, [])):
            audit_rows: Any = [client("y", share)]
            leaders.answers["audit"] = 200, audit_rows
            found = (await http.get("/api/page/connections?page=1&sort=flow")).json()
            assert [each["shown_name"] for each in found["items"] if each["noisy"]] == noisy


async def test_clients_are_on_pages_in_the_order_of_each_shard() -> None:
    """By address, not by the names they give themselves; otherwise some would be on no page."""

    def client(name: str, shown: str) -> dict[str, Any]:
        return {"vhost": "", "name": name, "shown_name": shown, "flow": 0.0}

    main, audit = [client("1", "c"), client("3", "a")], [client("2", "b")]
    leaders = Leaders((200, main), (200, audit))
    async with leaders.client() as http:
        pages = [
            (await http.get(f"/api/page/connections?page={page}&page_size=1&sort=name")).json()
            for page in (1, 2, 3)
        ]
    assert [each["name"] for page in pages for each in page["items"]] == ["1", "2", "3"]


async def test_each_row_is_on_exactly_one_page_whatever_the_order_of_its_shard() -> None:
    """Rows of one shard stay in the order in which they arrived. The shard orders rows with equal
    figures by more than can be seen here, and each page is taken from a different set of first
    rows."""
    main = [{"vhost": "a", "name": name, "user": user} for name, user in (("1", "z"), ("2", "a"))]
    audit = [{"vhost": "b", "name": "3", "user": "x"}]
    leaders = Leaders((200, main), (200, audit))

    async def pages(path: str, query: str) -> list[str]:
        async with leaders.client() as http:
            found = [
                (await http.get(f"/api/{path}?page={page}&page_size=1{query}")).json()["items"]
                for page in (1, 2, 3)
            ]
        return [row["name"] for page in found for row in page]

    assert sorted(await pages("connections", "")) == ["1", "2", "3"]
    empty = rows(("a", "1", 0), ("a", "2", 0), ("a", "3", 0))
    leaders.answers = {"main": (200, empty), "audit": (200, [])}
    assert sorted(await pages("page/topics", "&sort=age&sort_reverse=true")) == ["1", "2", "3"]


def standing(name: str, **more: Any) -> dict[str, Any]:
    return {"node": name, "cluster": None, "alarms": [], **more}


async def test_the_page_works_without_a_shard_and_says_so() -> None:
    leaders = Leaders((200, rows(("a", "q", 1))), (503, {"reason": "nobody leads"}))
    async with leaders.client() as http:
        found = (await http.get("/api/page/topics?page=1")).json()
        assert ([each["name"] for each in found["items"]], found["missing"]) == (["q"], ["audit"])
        alarm = {"name": "memory", "text": "Publishers wait.", "advice": "", "is": 1, "limit": 0}
        leaders.answers["main"] = 200, standing("arneb@a", alarms=[alarm])
        shown = (await http.get("/api/page/node")).json()
        assert [each["name"] for each in shown["alarms"]] == ["memory main", "away audit"]
        assert shown["alarms"][0]["text"] == "Shard main: Publishers wait."
        assert "shard 'audit': nobody leads" in shown["alarms"][1]["text"]
        assert (shown["node"], shown["shards"]) == ("arneb@a", ["main"])
        # Not where lists cannot say so, and not for a shard that refuses.
        delayed = await http.get("/api/page/delayed")
        assert (delayed.status_code, delayed.json()["reason"]) == (
            503, "shard 'audit': nobody leads",
        )  # fmt: skip
        for status in (401, 403):
            leaders.answers["audit"] = status, {"reason": "no"}
            assert (await http.get("/api/page/node")).status_code == status
        leaders.answers = dict.fromkeys(leaders.answers, (503, {"reason": "nobody leads"}))
        assert (await http.get("/api/page/node")).status_code == 503


async def test_a_query_of_the_page_is_about_the_shard_that_it_names() -> None:
    leaders = Leaders((200, {"of": "main"}), (200, {"of": "audit"}))
    async with leaders.client() as http:
        for path in ("/api/page/node", "/api/page/pulsar/connections/3", "/api/page/topic/t"):
            found = (await http.get(f"{path}?shard=audit")).json()
            assert found == {"of": "audit"}
        assert len(leaders.asked) == 3
        assert (await http.get("/api/page/node?shard=x")).status_code == 400
        for path in ("connections/3", "connections/3/consumers/1", "transactions/3"):
            assert (await http.delete(f"/api/page/pulsar/{path}")).status_code == 400
        assert (await http.get("/api/queues/v/q?shard=audit")).status_code == 204
    assert len(leaders.asked) == 3


async def test_a_list_that_becomes_shorter_meanwhile_is_returned_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merging, "PAGE_SIZE_MAX", 2)
    whole = queues("b", "w", "x", "y", "z")
    leaders = Leaders((200, whole), (200, []))
    asked = leaders.of

    def of(shard: str) -> ASGIApp:
        if any(each[0] == "main" for each in leaders.asked):
            leaders.answers["main"] = 400, {"reason": "Page out of range"}
        return asked(shard)

    monkeypatch.setattr(leaders, "of", of)
    async with leaders.client() as http:
        found = (await http.get("/api/queues?page=1&page_size=4")).json()
        assert [each["name"] for each in found["items"]] == ["w", "x"]
        assert (await http.get("/api/queues?page=1&page_size=4")).status_code == 400
