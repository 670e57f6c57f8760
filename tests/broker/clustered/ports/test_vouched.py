"""Sessions of the leader at a node that does not lead: who may see the state of this node."""

import json
from typing import Any

import pytest
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from arneb.clustered.ports.own_page import OwnPage
from arneb.clustered.ports.vouched import (
    REMEMBERED_MAX,
    REMEMBERED_S,
    SESSION_PATH,
    MemberLook,
    VouchedSessions,
    Vouching,
)
from arneb.http.routing.targets import MEMBER_PATH
from arneb.http.server.asgi import PROOF_WANTED, UNPROVED, VOUCHED
from arneb_core.access.records import User
from arneb_core.access.tables import Changed, Tables

LOOK = {"node": "n2", "shards": []}


class Node:
    """A node that does not lead, and the leader that it asks."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.somebody_leads = True
        self.status = 200
        self.tags = ["monitoring"]
        self.sessions = {"t1": "anna"}
        self.asked: list[Scope] = []
        self.now = 0.0
        self.vouched = VouchedSessions(
            self.leader, lambda: self.somebody_leads, self.tables, lambda: self.now
        )
        self.app = MemberLook(self.vouched, lambda: LOOK, PlainTextResponse("others", 404))

    async def leader(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope)
        headers = dict(scope["headers"])
        token = headers[b"cookie"].decode().removeprefix("arneb-session=")
        name, status = self.sessions.get(token), self.status
        if name is None and status == 200:
            status = 401
        document = {"name": name, "tags": self.tags, "is_monitor": "monitoring" in self.tags}
        await JSONResponse(document, status)(scope, receive, send)

    def user(self, name: str, *tags: str) -> None:
        self.tables.apply([Changed(self.tables.get(User, name), User(name, tags=tags))])

    def gone(self, name: str) -> None:
        self.tables.apply([Changed(self.tables.get(User, name), None)])

    async def look(
        self, token: str = "t1", path: str = MEMBER_PATH, method: str = "GET", **headers: str
    ) -> tuple[int, Any]:
        raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        cookies = [(b"cookie", f"other=1; arneb-session={token}".encode())] if token else []
        scope: Scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": b"x=1", "headers": [*cookies, *raw], "client": ("10.0.0.7", 1),
        }  # fmt: skip
        return await answered(self.app, scope)


async def answered(app: Any, scope: Scope) -> tuple[int, Any]:
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError("it has no body")

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(each.get("body", b"") for each in sent[1:])
    return sent[0]["status"], body.decode()


async def test_a_user_who_is_logged_in_at_the_leader_sees_the_state_of_this_node() -> None:
    node = Node()
    status, text = await node.look()
    assert (status, json.loads(text)) == (200, LOOK)
    [asked] = node.asked
    assert (asked["method"], asked["path"], asked["raw_path"]) == (
        "GET",
        SESSION_PATH,
        SESSION_PATH.encode(),
    )
    assert asked["query_string"] == b""
    assert asked["client"] == ("10.0.0.7", 1)
    assert (b"cookie", b"arneb-session=t1") in asked["headers"]  # and no other cookie
    assert len(asked["headers"]) == 2


async def test_the_leader_is_asked_each_time() -> None:
    node = Node()
    assert (await node.look())[0] == 200
    del node.sessions["t1"]
    assert (await node.look(x_arneb_page="1"))[0] == 401
    node.somebody_leads = False
    assert (await node.look(x_arneb_page="1"))[0] == 401
    assert len(node.asked) == 2


async def test_a_user_who_may_not_monitor_is_refused() -> None:
    node = Node()
    node.tags = ["management"]
    assert (await node.look())[0] == 403
    node.somebody_leads = False
    assert (await node.look())[0] == 403


async def test_other_requests_authenticate_as_usual_on_this_node() -> None:
    node = Node()
    assert await node.look("") == (404, "others")
    assert await node.look("t2") == (404, "others")
    assert await node.look(authorization="Basic x") == (404, "others")
    assert await node.look(path="/metrics") == (404, "others")
    assert await node.look(method="POST") == (404, "others")
    status, text = await node.look("t2", x_arneb_page="1")
    assert (status, json.loads(text)["reason"]) == (401, "Not_Authorized")


async def test_while_no_node_leads_a_user_known_from_the_leader_may_continue() -> None:
    node = Node()
    node.user("anna", "administrator")
    assert (await node.look())[0] == 200
    node.somebody_leads = False
    assert (await node.look())[0] == 200
    assert (await node.look("t2", x_arneb_page="1"))[0] == 401
    node.now = REMEMBERED_S
    assert (await node.look())[0] == 200
    node.now = REMEMBERED_S + 1
    assert (await node.look(x_arneb_page="1"))[0] == 401
    assert len(node.asked) == 1


@pytest.mark.parametrize("status", [503, 500])
async def test_a_leader_that_does_not_answer_counts_as_none(status: int) -> None:
    node = Node()
    assert (await node.look())[0] == 200
    node.status = status
    assert (await node.look())[0] == 200


async def test_the_current_tags_in_the_directory_count() -> None:
    node = Node()
    node.user("anna", "monitoring")
    assert (await node.look())[0] == 200
    node.somebody_leads = False
    node.user("anna", "management")
    assert (await node.look())[0] == 403
    node.gone("anna")
    assert (await node.look(x_arneb_page="1"))[0] == 401


async def test_a_user_known_only_to_another_server_keeps_the_leaders_verdict() -> None:
    node = Node()
    assert (await node.look())[0] == 200
    node.somebody_leads = False
    assert (await node.look())[0] == 200


async def test_no_more_sessions_are_remembered_than_a_leader_has() -> None:
    node = Node()
    node.sessions = {f"t{number}": "anna" for number in range(REMEMBERED_MAX + 1)}
    for token in node.sessions:
        assert (await node.look(token))[0] == 200
    node.somebody_leads = False
    assert (await node.look("t0", x_arneb_page="1"))[0] == 401
    assert (await node.look("t1"))[0] == 200


async def test_while_no_node_leads_the_page_can_be_opened() -> None:
    leads = True
    app = OwnPage(PlainTextResponse("the leader's"), lambda: leads)

    async def get(path: str) -> str:
        scope: Scope = {"type": "http", "method": "GET", "path": path, "headers": []}
        text: str = (await answered(app, scope))[1]
        return text

    assert await get("/") == "the leader's"
    leads = False
    assert 'id="page"' in await get("/")
    assert (await get("/page/js/main.js")).startswith("/** ")
    assert await get("/api/overview") == "the leader's"
    assert await get("/page/nothing.js") == "the leader's"


@pytest.mark.parametrize("proof", [None, "", "YW5uYTp4"])
async def test_another_leader_receives_the_name_of_the_user_or_the_credentials(
    proof: str | None,
) -> None:
    """A name is enough for users in the catalogue. A user of another server presents the
    credentials again, or is unknown there."""
    asked: list[Scope] = []

    async def first(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["extensions"] == {VOUCHED: PROOF_WANTED}
        document = {"name": "anna", **({} if proof is None else {"proof": proof})}
        await JSONResponse(document, 200)(scope, receive, send)

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope)

    async def nothing() -> Message:
        raise AssertionError("it is not read")

    async def take(_: Message) -> None:
        raise AssertionError("it says nothing")

    scope = {
        "type": "http", "method": "GET", "path": "/api/queues/audit", "query_string": b"",
        "headers": [(b"cookie", b"arneb-session=t1")],
    }  # fmt: skip
    await Vouching(first, lambda _: True, inside)(scope, nothing, take)
    [found] = asked
    headers = dict(found["headers"])
    assert headers.get(b"authorization") == (f"Basic {proof}".encode() if proof else None)
    vouched = {None: {VOUCHED: "anna"}, "": {VOUCHED: UNPROVED}}.get(proof, {})
    assert found.get("extensions", {}) == vouched
