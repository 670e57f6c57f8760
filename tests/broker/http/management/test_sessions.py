"""Sessions of the page: begun by a password, ended at once by anything that takes the right
away."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from starlette.types import Message, Receive, Scope, Send
from tests.broker.http.management.kit import ADMIN, Caller, managed

from arneb.clustered.ports.vouched import Vouching
from arneb.http.management import sessions as module
from arneb.http.management.app import ManagementApp
from arneb.http.management.login import MARK, REALM
from arneb.http.management.sessions import COOKIE, FOREIGN_S, IDLE_S, Sessions, cookie_for, token_in
from arneb.http.server.asgi import PROOF_WANTED, VOUCHED
from arneb_core.access.internal import InternalVerdicts
from arneb_core.access.principals import Principal

MARKED = {MARK: "1"}


@asynccontextmanager
async def logged_in(path: Path, user: str = "admin") -> AsyncIterator[tuple[Caller, str]]:
    """A site, and the cookie of a user who has logged in at its page."""
    async with managed(path) as call:
        yield call, await cookie_of(call, user)


async def cookie_of(call: Caller, user: str = "admin") -> str:
    proof = {"username": user, "password": "p"}
    answered = await call("POST", "page/session", proof, user=None, **MARKED)
    assert answered.status == 200, answered.reply
    return str(answered.reply.headers["set-cookie"]).partition(";")[0]


async def test_a_login_begins_a_session_that_admits_its_user(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (call, cookie):
        shown = await call.does("GET", "page/session", user=None, cookie=cookie)
        assert (shown["name"], shown["is_administrator"]) == ("admin", True)
        await call.does("GET", "overview", user=None, cookie=cookie)


async def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites() -> None:
    plain, secure = cookie_for("t", secure=False), cookie_for("t", secure=True)
    for flag in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert f"; {flag}" in plain
        assert f"; {flag}" in secure
    assert "; Secure" in secure
    assert "; Secure" not in plain
    assert "Max-Age=0" in cookie_for("", secure=False)


async def test_behind_a_tls_proxy_the_cookie_is_sent_by_tls_only(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        proof = {"username": "admin", "password": "p"}
        headers = {**MARKED, "x-forwarded-proto": "https"}
        answered = await call("POST", "page/session", proof, user=None, **headers)
        assert "; Secure" in answered.reply.headers["set-cookie"]


async def test_what_a_form_of_another_site_could_send_changes_nothing(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (call, cookie):
        refused = await call("PUT", "queues/%2F/q", {}, user=None, cookie=cookie)
        assert refused.status == 403
        assert await call.does("GET", "queues") == []
        done = await call("PUT", "queues/%2F/q", {}, user=None, cookie=cookie, **MARKED)
        assert done.status == 201
        proof = {"username": "admin", "password": "p"}
        assert (await call("POST", "page/session", proof, user=None)).status == 403


async def test_the_browser_does_not_ask_for_a_password(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        by_page = await call("GET", "overview", user=None, **MARKED)
        by_tool = await call("GET", "overview", user=None)
        assert (by_page.status, by_tool.status) == (401, 401)
        assert "www-authenticate" not in by_page.reply.headers
        assert by_tool.reply.headers["www-authenticate"] == REALM


@pytest.mark.parametrize("proof", ["Basic YWRtaW46d3Jvbmc=", "Basic !", "Bearer x", "Digest x"])
async def test_a_failed_login_is_answered_with_the_challenge_of_http(
    tmp_path: Path, proof: str
) -> None:
    async with managed(tmp_path) as call:
        by_tool = await call("GET", "overview", user=None, authorization=proof)
        assert (by_tool.status, by_tool.json["reason"]) == (401, "Not_Authorized")
        assert by_tool.reply.headers["www-authenticate"] == REALM
        by_form = await call("POST", "login", user=None)
        assert by_form.status == 401
        assert by_form.reply.headers["www-authenticate"] == REALM
        by_page = await call("GET", "overview", user=None, authorization=proof, **MARKED)
        assert (by_page.status, by_page.json["reason"]) == (401, "Not_Authorized")
        assert "www-authenticate" not in by_page.reply.headers


async def test_a_logout_ends_the_session_for_good(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (call, cookie):
        (session,) = [call.site.sessions.find(cookie)]
        assert session is not None
        moved = session.moved
        await call.does("DELETE", "page/session", user=None, cookie=cookie, **MARKED)
        assert moved.is_set()
        assert (await call("GET", "overview", user=None, cookie=cookie)).status == 401


@pytest.mark.parametrize("change", ["password", "deleted"])
async def test_a_session_ends_with_the_user_or_the_password(tmp_path: Path, change: str) -> None:
    async with logged_in(tmp_path, "monitoring") as (call, cookie):
        session = call.site.sessions.find(cookie)
        assert session is not None
        moved = session.moved
        if change == "deleted":
            await call.does("DELETE", "users/monitoring")
        else:
            body = {"password": "other", "tags": "monitoring"}
            await call.does("PUT", "users/monitoring", body)
        assert moved.is_set()
        assert (await call("GET", "overview", user=None, cookie=cookie)).status == 401


async def test_a_changed_tag_applies_at_once_to_an_open_session(tmp_path: Path) -> None:
    async with logged_in(tmp_path, "monitoring") as (call, cookie):
        await call.does("GET", "nodes", user=None, cookie=cookie)
        session = call.site.sessions.find(cookie)
        assert session is not None
        moved, user = session.moved, session.user
        assert user is not None
        async with call.site.catalogue.changing() as edit:
            edit.put_user("monitoring", user.password, ("management",))
        assert moved.is_set()
        assert (await call("GET", "nodes", user=None, cookie=cookie)).status == 401
        await call.does("GET", "overview", user=None, cookie=cookie)


async def test_streams_end_when_a_permission_is_removed(tmp_path: Path) -> None:
    async with logged_in(tmp_path, "management") as (call, cookie):
        other = await cookie_of(call, "monitoring")
        mine, theirs = call.site.sessions.find(cookie), call.site.sessions.find(other)
        assert mine is not None
        assert theirs is not None
        before, untouched = mine.moved, theirs.moved
        await call.does("DELETE", "permissions/%2F/management")
        assert before.is_set()
        assert not untouched.is_set()


async def test_an_unused_session_ends_and_a_used_one_does_not(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        now = [0.0]
        sessions = Sessions(call.site.catalogue, lambda: now[0])
        principal = call.site.sessions
        cookie = await cookie_of(call)
        found = principal.find(cookie)
        assert found is not None
        session = sessions.open(found.principal)
        kept = f"{COOKIE}={session.token}"
        for _ in range(3):
            now[0] += IDLE_S - 1
            assert sessions.find(kept) is session
        now[0] += IDLE_S + 1
        assert sessions.find(kept) is None
        assert len(sessions) == 0


async def test_users_of_another_server_must_log_in_again_after_an_hour(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        now = [0.0]
        sessions = Sessions(call.site.catalogue, lambda: now[0])
        found = call.site.sessions.find(await cookie_of(call))
        assert found is not None
        stranger = type(found.principal)("stranger", found.principal.verdicts)
        kept = f"{COOKIE}={sessions.open(stranger).token}"
        now[0] = FOREIGN_S
        assert sessions.find(kept) is not None
        now[0] = FOREIGN_S + 1
        assert sessions.find(kept) is None


async def test_when_there_are_too_many_sessions_the_longest_unused_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    async with managed(tmp_path) as call:
        first, second = await cookie_of(call), await cookie_of(call)
        assert call.site.sessions.find(first) is not None
        third = await cookie_of(call)
        assert call.site.sessions.find(second) is None
        assert call.site.sessions.find(first) is not None
        assert call.site.sessions.find(third) is not None


@pytest.mark.parametrize(
    "cookies", ["", "x", f"{COOKIE}=", "a=b; c=d", f"{COOKIE}=nobody's", "=;;="]
)
async def test_other_cookies_belong_to_no_session(tmp_path: Path, cookies: str) -> None:
    async with managed(tmp_path) as call:
        assert call.site.sessions.find(cookies) is None
        assert "\n" not in token_in(cookies)


async def test_a_wrong_password_begins_nothing(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        with trio.fail_after(60):
            proof = {"username": "admin", "password": "q"}
            answered = await call("POST", "page/session", proof, user=None, **MARKED)
        assert answered.status == 401
        assert len(call.site.sessions) == 0


async def test_a_session_is_for_the_folder_where_the_page_is(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        proof = {"username": "admin", "password": "p", "path": "/arneb/"}
        answered = await call("POST", "page/session", proof, user=None, **MARKED)
        cookie = answered.reply.headers["set-cookie"]
        assert "; Path=/arneb/;" in cookie
        token = cookie.partition(";")[0]
        gone = await call("DELETE", "page/session", user=None, cookie=token, **MARKED)
        assert "; Path=/arneb/;" in gone.reply.headers["set-cookie"]


@pytest.mark.parametrize(
    "path",
    ["arneb/", "/arneb", "/a b/", "/a;Secure/", "//x/", "/a%2Fb/", "/x\n/", "/" + "a/" * 101],
)
async def test_a_folder_that_could_be_more_than_a_path_is_refused(
    tmp_path: Path, path: str
) -> None:
    async with managed(tmp_path) as call:
        proof = {"username": "admin", "password": "p", "path": path}
        assert (await call("POST", "page/session", proof, user=None, **MARKED)).status == 400


@pytest.mark.parametrize(
    ("scheme", "secret", "vouched", "shown"),
    [
        ("https", "token", PROOF_WANTED, "anna:token"),
        ("http", "token", PROOF_WANTED, ""),  # nodes might send it to each other without encryption
        ("https", None, PROOF_WANTED, None),
        ("https", "token", "anna", None),
    ],
)
async def test_credentials_are_passed_only_to_nodes_that_ask_by_tls(
    tmp_path: Path, scheme: str, secret: str | None, vouched: str, shown: str | None
) -> None:
    async with managed(tmp_path) as call:
        verdicts = InternalVerdicts(call.site.catalogue.tables, ADMIN)
        principal = Principal("anna", verdicts, frozenset({"administrator"}), secret)
        session = call.site.sessions.open(principal)
        messages: list[Any] = []

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def take(message: Message) -> None:
            messages.append(message)

        cookie = f"arneb-session={session.token}".encode()
        scope = {
            "type": "http", "method": "GET", "path": "/api/page/session", "query_string": b"",
            "headers": [(b"cookie", cookie)], "scheme": scheme, "client": ("127.0.0.1", 1),
            "extensions": {VOUCHED: vouched},
        }  # fmt: skip
        await ManagementApp(call.site, nothing_behind)(scope, nothing, take)
    body = json.loads(b"".join(each.get("body", b"") for each in messages[1:]))
    found = body.get("proof")
    assert (found and b64decode(found).decode()) == shown


async def nothing_behind(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("it is the management API's")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_users_of_another_server_are_not_users_of_the_same_name_at_other_leaders(
    tmp_path: Path, scheme: str
) -> None:
    """A name known by another server or from a token is not that of a user in the catalogue, who
    may have more rights."""
    async with managed(tmp_path / "first") as first, managed(tmp_path / "other") as other:
        verdicts = InternalVerdicts(first.site.catalogue.tables, "nobody")
        foreign = Principal(ADMIN, verdicts, frozenset({"management"}), "token")
        cookie = f"arneb-session={first.site.sessions.open(foreign).token}".encode()
        messages: list[Message] = []

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def take(message: Message) -> None:
            messages.append(message)

        scope = {
            "type": "http", "method": "GET", "path": "/api/users", "query_string": b"",
            "headers": [(b"cookie", cookie)], "scheme": scheme, "client": ("127.0.0.1", 1),
        }  # fmt: skip
        leaders = [ManagementApp(each.site, nothing_behind) for each in (first, other)]
        await Vouching(leaders[0], lambda _: True, leaders[1])(scope, nothing, take)
    assert messages[0]["status"] == (403 if scheme == "http" else 401)
