"""Requests about all shards, by what their leaders answer."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http import gathered
from arneb.http.gathered import Gathered

Said = tuple[int, Any]


class Leaders:
    """Those of two shards: what they answer, and what they were asked."""

    def __init__(self, main: Said, audit: Said) -> None:
        self.said = {"main": main, "audit": audit}
        self.asked: list[tuple[str, str, str, bytes]] = []

    def of(self, shard: str) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            body = (await receive())["body"]
            target = f"{scope['path']}?{scope['query_string'].decode()}"
            self.asked.append((shard, scope["method"], target, body))
            status, said = self.said[shard]
            headers = [(b"content-type", b"application/json"), (b"x-shard", shard.encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(said).encode()})

        return answer

    def client(self) -> httpx.AsyncClient:
        async def one(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        def shard_of(namespace: str) -> str:
            return "audit" if namespace == "public/audit" else "main"

        app = Gathered(["main", "audit"], shard_of, self.of, one)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://node")


def queues(vhost: str, *names: str) -> list[dict[str, str]]:
    return [{"vhost": vhost, "name": each} for each in names]


async def test_a_page_is_cut_when_all_parts_are_there() -> None:
    leaders = Leaders((200, queues("b", "x", "y")), (200, queues("a", "z", "x")))
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
        ("main", "GET", "/api/queues?disable_stats=true"),
        ("audit", "GET", "/api/queues?disable_stats=true"),
    ]


@pytest.mark.parametrize("status", [401, 403, 404, 503])
async def test_what_one_shard_refuses_is_the_answer(status: int) -> None:
    leaders = Leaders((200, queues("b", "x")), (status, {"reason": "no"}))
    async with leaders.client() as http:
        for path in ("/api/queues", "/api/overview", "/api/definitions", "/api/topics"):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()) == (status, {"reason": "no"})


async def test_too_much_is_refused_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "HELD_BYTES_MAX", 100)
    leaders = Leaders((200, queues("b", "x" * 50)), (200, queues("a", "y" * 50)))
    async with leaders.client() as http:
        answer = await http.get("/api/queues")
    assert answer.status_code == 400
    assert "one virtual host after the other" in answer.json()["reason"]


async def test_a_client_is_looked_for_in_one_shard_after_the_other() -> None:
    leaders = Leaders((404, {}), (200, {"name": "c"}))
    async with leaders.client() as http:
        assert (await http.get("/api/connections/c")).json() == {"name": "c"}
        assert [each[0] for each in leaders.asked] == ["main", "audit"]
        leaders.said["main"] = 200, {"name": "other"}
        assert (await http.get("/api/connections/c")).json() == {"name": "other"}
        assert len(leaders.asked) == 3


async def test_what_is_checked_is_well_if_it_is_everywhere() -> None:
    leaders = Leaders((200, {"status": "ok"}), (503, {"status": "failed"}))
    async with leaders.client() as http:
        assert (await http.get("/api/health/checks/alarms")).status_code == 503
        leaders.said["audit"] = leaders.said["main"]
        assert (await http.get("/api/health/checks/alarms")).status_code == 200
        leaders.said["main"] = 204, {}
        assert (await http.delete("/api/connections/username/anna")).is_success
        assert [each[:2] for each in leaders.asked[-2:]] == [
            ("main", "DELETE"),
            ("audit", "DELETE"),
        ]


async def test_watermarks_are_moved_at_each() -> None:
    leaders = Leaders((200, {}), (200, {}))
    async with leaders.client() as http:
        assert (await http.put("/api/alarms", json={"disk_free_min_bytes": 7})).is_success
    assert [(each[0], json.loads(each[3])) for each in leaders.asked] == [
        ("main", {"disk_free_min_bytes": 7}), ("audit", {"disk_free_min_bytes": 7}),
    ]  # fmt: skip


async def test_a_file_goes_to_each_shard_that_it_says_something_of() -> None:
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
        leaders.said["audit"] = 400, {"reason": "no such user"}
        refused = await http.post("/api/definitions", json=file)
    assert refused.status_code == 400
    said = "shard 'audit': no such user; shard 'main' has taken in its part"
    assert refused.json()["reason"] == said


async def test_what_is_one_shards_is_not_looked_at() -> None:
    leaders = Leaders((500, {}), (500, {}))
    async with leaders.client() as http:
        for ask in (http.get, http.put):
            found: Callable[..., Any] = ask
            assert (await found("/api/queues/v/q")).status_code == 204
        head = await http.head("/api/queues")
    assert (head.status_code, head.content) == (500, b"")
