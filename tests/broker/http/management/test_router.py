"""Paths: names may contain anything, and one slash at the end means nothing."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.http.management.requests.calls import Refused
from arneb.http.management.router import allowed
from arneb.http.management.table import ROUTER

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(names, names, st.booleans())
def test_any_name_can_be_part_of_a_path(vhost: str, queue: str, slash: bool) -> None:
    raw = f"/api/queues/{quote(vhost, safe='')}/{quote(queue, safe='')}{'/' * slash}"
    methods, params = ROUTER.find(raw)
    assert dict(params) == {"vhost": vhost, "queue": queue}
    assert set(methods) == {"GET", "PUT", "DELETE"}


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("exchanges/v//publish", {"vhost": "v", "exchange": ""}),
        ("exchanges/v//bindings/source", {"vhost": "v", "exchange": ""}),
        ("bindings/v/e//q/q", {"vhost": "v", "exchange": "", "queue": "q"}),
    ],
)
def test_the_default_exchange_may_be_written_by_its_empty_name(
    path: str, params: dict[str, str]
) -> None:
    _, found = ROUTER.find(f"/api/{path}")
    assert dict(found) == params


@pytest.mark.parametrize(
    "path",
    ["/api/queues//", "/api/", "/api/none", "/api/queues/%ff", "/api/queues/a/b/c/d",
     "/api/queues/v//get", "/api/exchanges//x/publish", "/api/bindings/v/e/x/q//key"],
)  # fmt: skip
def test_malformed_paths_are_not_found(path: str) -> None:
    with pytest.raises(Refused) as refused:
        ROUTER.find(path)
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("users/without-permissions", {}),
        ("users/other", {"user": "other"}),
        ("queues/detailed", {}),
        ("connections/username/u", {"user": "u"}),
        ("connections/c/channels", {"connection": "c"}),
        ("bindings/v/e/x/q/q/~", {"vhost": "v", "exchange": "x", "queue": "q", "key": "~"}),
    ],
)
def test_fixed_parts_come_before_names(path: str, params: dict[str, str]) -> None:
    _, found = ROUTER.find(f"/api/{path}")
    assert dict(found) == params


def test_allow_lists_the_existing_methods() -> None:
    methods, _ = ROUTER.find("/api/queues")
    assert allowed(methods) == "HEAD, GET, OPTIONS"
