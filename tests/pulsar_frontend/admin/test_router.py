"""The router: every route is found by its own path, and by no other."""

from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arneb_pulsar.admin.api import ROUTER
from arneb_pulsar.admin.exchange import AdminError, AdminReply, AdminRequest
from arneb_pulsar.admin.router import Router
from arneb_pulsar.services.context import BrokerContext

parts = st.text(min_size=1, max_size=8)


async def first(context: BrokerContext, request: AdminRequest) -> AdminReply:
    raise AssertionError


async def second(context: BrokerContext, request: AdminRequest) -> AdminReply:
    raise AssertionError


@example("a/b", "%2F")
@given(parts, parts)
def test_names_are_decoded_part_by_part(one: str, two: str) -> None:
    router = Router([("GET", "/a/{x}/b/{y}", first)])
    handler, names = router.find("GET", f"/a/{quote(one, safe='')}/b/{quote(two, safe='')}")
    assert handler is first
    assert names == {"x": one, "y": two}


def test_what_is_fixed_wins_but_shadows_nothing() -> None:
    router = Router(
        [("GET", "/a/list", first), ("PUT", "/a/{x}", second), ("GET", "/a/{x}/c", second)]
    )
    assert router.find("GET", "/a/list")[0] is first
    assert router.find("PUT", "/a/list") == (second, {"x": "list"})
    assert router.find("GET", "/a/list/c") == (second, {"x": "list"})
    assert router.methods("/a/list") == ["GET", "PUT"]


def test_a_told_part_is_one_of_the_names() -> None:
    router = Router([("GET", "/{d=one}/{x}", first), ("GET", "/{d=two}/{x}", second)])
    assert router.find("GET", "/one/y") == (first, {"d": "one", "x": "y"})
    assert router.find("GET", "/two/y") == (second, {"d": "two", "x": "y"})
    with pytest.raises(AdminError, match="Not found"):
        router.find("GET", "/three/y")


@given(st.sampled_from(["GET", "PUT", "BREW"]), st.lists(st.text(max_size=4), max_size=7))
def test_any_path_is_found_or_refused(method: str, path: list[str]) -> None:
    raw = "/" + "/".join(quote(part, safe="") for part in path)
    try:
        ROUTER.find(method, raw)
    except AdminError as error:
        assert error.status in (404, 405)
        assert (error.status == 405) == bool(ROUTER.methods(raw))
