"""What a client is told of a request that makes no sense: by its address, or by a value in its
body."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.http.management.kit import managed

V = "v%2Fm"


@pytest.mark.parametrize("path", [f"queues/{V}/%zz", "queues/%2", "queues/%", "none/100%", "%"])
@pytest.mark.parametrize(("method", "user"), [("GET", "admin"), ("PUT", "admin"), ("GET", None)])
async def test_a_percent_sign_that_begins_nothing_is_refused_whoever_asks(
    tmp_path: Path, path: str, method: str, user: str | None
) -> None:
    async with managed(tmp_path) as call:
        answered = await call(method, path, {}, user=user)
        assert (answered.status, answered.reply.body) == (400, None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "overview?columns=%zz", 400),
        ("GET", f"queues/{V}?%", 400),
        ("GET", f"queues/{V}/none?x=%zz", 404),
        ("PUT", f"queues/{V}/q?x=%zz", 201),
        ("GET", "overview?columns=%7a", 200),
    ],
)
async def test_a_query_counts_when_something_is_shown(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with managed(tmp_path) as call:
        assert (await call(method, path, {})).status == status


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (f"queues/{V}/q", {"durable": None}, "expected true or false as durable, got null"),
        (f"queues/{V}/q", {"arguments": True}, "expected an object as arguments, got true"),
        (f"exchanges/{V}/x", {"type": ["é"]}, 'expected a text as type, got ["é"]'),
        (f"exchanges/{V}/x", {"type": None}, "unknown exchange type 'null'"),
    ],
)
async def test_a_wrong_value_is_shown_as_the_client_wrote_it(
    tmp_path: Path, path: str, body: dict[str, Any], words: str
) -> None:
    async with managed(tmp_path) as call:
        answered = await call("PUT", path, body)
        assert (answered.status, answered.json["reason"]) == (400, words)
