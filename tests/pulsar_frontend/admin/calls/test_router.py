"""The router: every route is found by its own path, and by no other."""

from collections.abc import Mapping
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arneb_pulsar.admin.api import ROUTER
from arneb_pulsar.admin.calls.requests import AdminError, AdminReply, AdminRequest
from arneb_pulsar.admin.calls.router import Handler, Route, Router
from arneb_pulsar.admin.calls.rules import SUPER_USER
from arneb_pulsar.services.context import BrokerContext

parts = st.text(min_size=1, max_size=8)


async def first(context: BrokerContext, request: AdminRequest) -> AdminReply:
    raise AssertionError


async def second(context: BrokerContext, request: AdminRequest) -> AdminReply:
    raise AssertionError


def route(method: str, path: str, handler: Handler) -> Route:
    return Route(method, path, SUPER_USER, handler)


def found_by(router: Router, method: str, path: str) -> tuple[Handler, Mapping[str, str]]:
    found, names = router.find(method, path)
    return found.handle, names


@example("a/b", "%2F")
@given(parts, parts)
def test_names_are_decoded_part_by_part(one: str, two: str) -> None:
    router = Router([route("GET", "/a/{x}/b/{y}", first)])
    found, names = router.find("GET", f"/a/{quote(one, safe='')}/b/{quote(two, safe='')}")
    assert found.handle is first
    assert names == {"x": one, "y": two}


@pytest.mark.parametrize(
    ("path", "sent", "meant"),
    [
        ("/persistent/{topic}", "a+b%252Bc", "a b%2Bc"),
        ("/persistent/{topic}/subscription/{subscription}", "a%2Bb%252Bc", "a b+c"),
        ("/persistent/{topic}/subscription/{subscription}/skip_all", "a%20b%2525c", "a b%c"),
        ("/persistent/{topic}/{subscription}/dispatchRate", "a+b%252Bc", "a b%2Bc"),
        ("/transactions/{topic}/{subscription}", "a+b%252Bc", "a+b%2Bc"),
        ("/permissions/subscription/{subscription}", "a+b%252Bc", "a+b%2Bc"),
        ("/permissions/{role}", "a+b%252Bc", "a+b%2Bc"),
    ],
)
def test_names_are_decoded_as_pulsars_client_in_java_encodes_them(
    path: str, sent: str, meant: str
) -> None:
    router = Router([route("GET", path, first)])
    *before, last = (part for part in path.split("/") if part.startswith("{"))
    raw = path.replace(last, sent)
    for part in before:
        raw = raw.replace(part, "t")
    assert found_by(router, "GET", raw)[1][last[1:-1]] == meant


def test_what_is_fixed_wins_but_shadows_nothing() -> None:
    router = Router(
        [
            route("GET", "/a/list", first),
            route("PUT", "/a/{x}", second),
            route("GET", "/a/{x}/c", second),
        ]
    )
    assert found_by(router, "GET", "/a/list") == (first, {})
    assert found_by(router, "PUT", "/a/list") == (second, {"x": "list"})
    assert found_by(router, "GET", "/a/list/c") == (second, {"x": "list"})
    assert router.methods("/a/list") == ["GET", "HEAD", "OPTIONS", "PUT"]


def test_a_fixed_part_is_one_of_the_names() -> None:
    router = Router([route("GET", "/{d=one}/{x}", first), route("GET", "/{d=two}/{x}", second)])
    assert found_by(router, "GET", "/one/y") == (first, {"d": "one", "x": "y"})
    assert found_by(router, "GET", "/two/y") == (second, {"d": "two", "x": "y"})
    with pytest.raises(AdminError, match="Not found"):
        router.find("GET", "/three/y")


def test_an_empty_part_is_not_passed_over() -> None:
    """But for a slash at the end: a script whose variable is empty means none of what is above."""
    router = Router([route("DELETE", "/a/{x}", first), route("DELETE", "/a/{x}/{y}/z", second)])
    assert found_by(router, "DELETE", "/a/b/") == (first, {"x": "b"})
    for path in ("/a/b//", "//a/b", "/a//", "/a/b//z", "/a//c/z", "a/b", "x/a/b", "*", ""):
        with pytest.raises(AdminError, match="Not found"):
            router.find("DELETE", path)


@given(st.sampled_from(["GET", "PUT", "BREW"]), st.lists(st.text(max_size=4), max_size=7))
def test_any_path_is_found_or_refused(method: str, path: list[str]) -> None:
    raw = "/" + "/".join(quote(part, safe="") for part in path)
    try:
        ROUTER.find(method, raw)
    except AdminError as error:
        assert error.status in (404, 405)
        assert (error.status == 405) == bool(ROUTER.methods(raw))
