"""Granting waits for the users of another shard, and nothing else does."""

import httpx
import pytest
import trio
from starlette.types import Receive, Scope, Send

from arneb.http.routing.caught_up import CaughtUp, UsersUnknown


class Users:
    """The users that are waited for."""

    def __init__(self) -> None:
        self.asked = 0
        self.hangs = False
        self.refuses = False

    async def catch_up(self) -> None:
        self.asked += 1
        if self.refuses:
            raise UsersUnknown("shard main stopped here")
        if self.hangs:
            await trio.sleep_forever()


def client_of(users: Users) -> httpx.AsyncClient:
    async def done(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": str(users.asked).encode()})

    app = CaughtUp(done, users.catch_up)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://node")


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("PUT", "/api/permissions/v/anna", 1),
        ("DELETE", "/api/permissions/v/anna", 1),
        ("PUT", "/api/topic-permissions/v/anna", 1),
        ("POST", "/api/definitions/v", 1),
        ("GET", "/api/permissions/v/anna", 0),
        ("PUT", "/api/queues/v/q", 0),
        ("POST", "/api/exchanges/v/x/publish", 0),
    ],
)
async def test_only_grants_wait_for_users(method: str, path: str, asked: int) -> None:
    users = Users()
    async with client_of(users) as http:
        answer = await http.request(method, path)
    assert (answer.status_code, users.asked) == (204, asked)
    assert answer.text == str(asked)  # before it was handled


async def test_users_that_cannot_be_reached_are_waited_for_within_a_bound() -> None:
    users = Users()
    users.hangs = True
    async with client_of(users) as http:
        answer = await http.put("/api/permissions/v/anna")
    assert answer.status_code == 503
    assert "users" in answer.json()["reason"]


async def test_users_that_are_no_longer_followed_here_are_not_waited_for() -> None:
    users = Users()
    users.refuses = True
    async with client_of(users) as http:
        answer = await http.put("/api/permissions/v/anna")
    assert (answer.status_code, answer.json()["reason"]) == (503, "shard main stopped here")
