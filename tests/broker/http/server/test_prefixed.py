"""Everything served at ``/`` is served below a prefix, too."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from arneb.http.server.prefixed import Prefixed
from arneb.settings.config import HttpTable, load_config
from arneb.settings.http_limits import PATH_PREFIX_CHARACTERS_MAX, check_prefix
from arneb.settings.rabbitmq.conf import translate


async def asked(path: str, prefix: str = "/a/b", kind: str = "http") -> dict[str, Any] | Message:
    """The requests that reach the application inside, or the answer given in its place."""
    seen: list[Scope] = []
    sent: list[Message] = []

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    scope = {"type": kind, "path": path, "raw_path": path.encode()}
    await Prefixed(inside, prefix)(scope, receive, send)
    return dict(seen[0]) if seen else sent[0]


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/a/b/", "/"),
        ("/a/b/api/queues/%2F/q", "/api/queues/%2F/q"),
        ("/a/b/a/b/", "/a/b/"),
        ("/", "/"),
        ("/api/overview", "/api/overview"),
        ("/a/bc", "/a/bc"),
        ("/a", "/a"),
    ],
)
async def test_a_path_below_the_prefix_is_the_one_without_it(path: str, inside: str) -> None:
    scope = await asked(path)
    assert (scope["path"], scope["raw_path"]) == (inside, inside.encode())


async def test_the_prefix_itself_leads_to_the_folder() -> None:
    answer = await asked("/a/b")
    assert answer["status"] == 308
    assert (b"location", b"b/") in answer["headers"]


async def test_other_scopes_are_passed_on_unchanged() -> None:
    assert (await asked("/a/b/x", kind="websocket"))["path"] == "/a/b/x"


@given(st.text(alphabet='/a.~-_ %;\n"\\é', max_size=8))
def test_a_prefix_must_be_a_plain_path(text: str) -> None:
    try:
        check_prefix(text)
    except ValueError as error:
        assert "expected a path such as /arneb" in str(error)
    else:
        assert not text or (text.startswith("/") and not text.endswith("/") and "//" not in text)
        assert not set(text) - set("/a.~-_")


def test_a_prefix_that_is_too_long_is_refused() -> None:
    HttpTable(path_prefix="/" + "a" * (PATH_PREFIX_CHARACTERS_MAX - 1))
    with pytest.raises(ValueError, match="path_prefix"):
        HttpTable(path_prefix="/" + "a" * PATH_PREFIX_CHARACTERS_MAX)


@pytest.mark.parametrize(("given_", "read"), [("/rabbit", "/rabbit"), ("/", ""), ("/r/", "/r")])
def test_rabbitmqs_prefix_is_ours(given_: str, read: str) -> None:
    text = f"management.path_prefix = {given_}\n"
    found = translate(text, "rabbitmq.conf", lambda: 1 << 30)
    assert found.table["http"]["path_prefix"] == read


def test_there_is_none_by_default() -> None:
    assert load_config(None).http.path_prefix == ""
