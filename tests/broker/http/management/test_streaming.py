"""Streams of the page: each second, whatever has changed, made once for all who see the same."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from starlette.types import Message
from tests.broker.http.management.kit import Caller, managed
from tests.broker.http.management.test_sessions import MARKED, cookie_of

from arneb.http.management import watchers as watchers_module
from arneb.http.management.app import ManagementApp
from arneb.http.management.page.watching import WATCHED_MAX, Watch
from arneb.http.management.requests.calls import Refused
from arneb.http.management.streaming import ALIVE_S, events

QUEUES = "page/topics?page=1%26page_size=10"
ASKED = f"page/stream?list={QUEUES.replace('?', '%3F').replace('=', '%3D')}"


async def stream(call: Caller, cookie: str, asked: str = ASKED) -> AsyncGenerator[bytes, None]:
    """A stream that was requested."""
    answered = await call("GET", asked, user=None, cookie=cookie)
    assert answered.status == 200, answered.reply
    assert answered.reply.kind == "text/event-stream"
    assert isinstance(answered.reply.body, Watch)
    return events(answered.reply.body)


async def next_event(of: AsyncGenerator[bytes, None]) -> tuple[str, Any]:
    """The next event that has content."""
    with trio.fail_after(60):
        while True:
            text = (await anext(of)).decode()
            if text.startswith("event: "):
                name, data = text.strip().split("\n")
                return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def test_a_page_receives_data_at_once_and_again_when_something_has_changed(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        of = await stream(call, await cookie_of(call))
        name, first = await next_event(of)
        assert (name, first["status"], first["body"]["items"]) == ("list", 200, [])
        await call.does("PUT", "queues/%2F/new", {"durable": True})
        _, then = await next_event(of)
        assert [each["name"] for each in then["body"]["items"]] == ["new"]
        await of.aclose()
        assert call.site.watchers.streams == 0


async def test_while_nothing_changes_only_keep_alives_are_sent(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        of = await stream(call, await cookie_of(call))
        await next_event(of)
        began = trio.current_time()
        assert await anext(of) == b":\n\n"
        assert ALIVE_S <= trio.current_time() - began < ALIVE_S + 2
        await of.aclose()


async def test_all_who_see_the_same_share_one_answer(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        streams = [await stream(call, await cookie_of(call)) for _ in range(10)]
        for each in streams:
            await next_event(each)
        assert call.site.watchers.made_total == 1
        other = await stream(call, await cookie_of(call, "management"))
        await next_event(other)
        assert call.site.watchers.made_total == 2
        for each in (*streams, other):
            await each.aclose()


RIGHTS = {"configure": "", "write": "", "read": ""}

CHANGES: dict[str, tuple[str, str, Any]] = {
    "logout": ("DELETE", "page/session", None),
    "no permission": ("DELETE", "permissions/%2F/management", None),
    "a lesser permission": ("PUT", "permissions/%2F/management", RIGHTS),
    "a topic permission": (
        "PUT", "topic-permissions/%2F/management", {"exchange": "amq.topic", **RIGHTS},
    ),
    "no tag": ("PUT", "users/management", {"password_hash": "", "tags": ""}),
    "another password": ("PUT", "users/management", {"password": "new", "tags": "management"}),
    "no user": ("DELETE", "users/management", None),
    "no vhost": ("DELETE", "vhosts/v%2Fm", None),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
async def test_a_stream_ends_at_once_when_the_right_is_gone(tmp_path: Path, change: str) -> None:
    async with managed(tmp_path) as call:
        cookie = await cookie_of(call, "management")
        of = await stream(call, cookie)
        await next_event(of)

        async def take_away() -> None:
            await trio.testing.wait_all_tasks_blocked()
            method, path, body = CHANGES[change]
            if change == "logout":
                await call.does(method, path, user=None, cookie=cookie, **MARKED)
            else:
                await call.does(method, path, body)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_away)
            # The clock jumps while a thread commits, so a keep-alive may have been sent.
            assert [each async for each in of if each.startswith(b"event")] == []
        assert call.site.watchers.streams == 0


async def test_a_user_who_reconnects_sees_what_it_still_may(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", "queues/%2F/q", {"durable": True})
        cookie = await cookie_of(call, "management")
        await call.does("DELETE", "permissions/%2F/management")
        of = await stream(call, cookie)
        _, shown = await next_event(of)
        assert shown["body"]["items"] == []
        await of.aclose()


@pytest.mark.parametrize(
    "asked",
    [
        "page/stream",
        "page/stream?a=whoami",
        "page/stream?a=definitions",
        "page/stream?a=page/stream%3Fa=overview",
        "page/stream?a=queues",
        "page/stream?a=queues%3Fpage%3D1%26page_size%3D500",
        "page/stream?a=page/topics/%252F",
        "page/stream?a=queues/%252F/",
        "page/stream?a=queues/%252F/q/bindings",
        "page/stream?a=exchanges/%252F/e/bindings/source",
        "page/stream?a=page/messages/%252F/q%3Fsearch%3Dx",
        "page/stream?a=page/session",
        "page/stream?a-b=overview",
        "page/stream?a=" + "x" * 3000,
        "page/stream?" + "&".join(f"n{n}=overview" for n in range(WATCHED_MAX + 1)),
    ],
)
async def test_only_figures_can_be_watched_and_not_too_many(tmp_path: Path, asked: str) -> None:
    async with managed(tmp_path) as call:
        answered = await call("GET", asked, user=None, cookie=await cookie_of(call))
        assert answered.status == 400, answered.reply


@pytest.mark.parametrize("one", ["connections/x%2520-%253E", "queues/%252F/q", "channels/c"])
async def test_a_single_object_is_watched_without_paging(tmp_path: Path, one: str) -> None:
    async with managed(tmp_path) as call:
        cookie = await cookie_of(call)
        of = await stream(call, cookie, f"page/stream?one={one}")
        _, shown = await next_event(of)
        assert shown["status"] == 404
        await of.aclose()


async def test_a_watch_needs_a_session(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        assert (await call("GET", ASKED)).status == 400


async def test_when_there_are_too_many_streams_the_newest_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers_module, "STREAMS_MAX", 1)
    async with managed(tmp_path) as call:
        cookie = await cookie_of(call)
        of = await stream(call, cookie)
        await next_event(of)
        with pytest.raises(Refused) as caught:
            await anext(await stream(call, cookie))
        assert caught.value.status == 503
        assert call.site.watchers.streams == 1
        await of.aclose()
        again = await stream(call, cookie)
        assert (await anext(again)).startswith(b"retry")
        await again.aclose()


async def test_one_that_comes_too_late_is_refused_over_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers_module, "STREAMS_MAX", 0)
    sent = list[Message]()

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    async with managed(tmp_path) as call:
        cookie = (b"cookie", (await cookie_of(call)).encode())
        scope = {"type": "http", "method": "GET", "path": "/api/page/stream", "headers": [cookie],
                 "query_string": b"a=overview", "scheme": "http"}  # fmt: skip
        await ManagementApp(call.site, nothing_behind)(scope, receive, send)
    head, *bodies = sent
    assert head["status"] == 503
    assert json.loads(b"".join(each["body"] for each in bodies))["reason"].startswith("too many")


async def nothing_behind(*_: object) -> None:
    raise AssertionError("expected a path of the management API")
