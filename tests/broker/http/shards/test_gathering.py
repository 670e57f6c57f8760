"""One answer made from those of several shards, and one file divided among them."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.http.management.router import ROOT
from arneb.http.management.table import ROUTER
from arneb.http.routing.routed import EVERYTHING_ELSE
from arneb.http.routing.targets import management_target
from arneb.http.shards.gathering import (
    OF_VHOSTS,
    Kind,
    added,
    alarms,
    cut,
    definitions,
    in_all,
    joined,
    kind_of,
    order_of,
    totals,
)

FIRSTS = {
    "auth", "login", "whoami", "users", "users/:user", "users/bulk-delete", "user-limits",
    "user-limits/:user", "user-limits/:user/:name", "global-parameters", "global-parameters/:name",
    "cluster-name", "extensions", "feature-flags", "feature-flags/:name/enable",
    "deprecated-features", "deprecated-features/used", "rebalance/queues",
}  # fmt: skip
"""Settings that belong to no vhost: users, global settings, and the software itself."""

OF_A_NODE = {
    "nodes", "nodes/:node", "nodes/:node/memory", "auth/attempts/:node",
    "auth/attempts/:node/source", "health/checks/port-listener/:port",
    "health/checks/protocol-listener/:protocol",
    "health/checks/certificate-expiration/:within/:unit", "health/checks/node-is-quorum-critical",
    "health/checks/node-is-mirror-sync-critical", "page/member",
}  # fmt: skip
"""Answers about the node that leads the first shard, like those of a node without shards."""

OF_SESSIONS = {"page/session", "page/stream"}
"""The first shard's leader knows who has logged in at the page; it asks all the others for what is
watched."""


def test_every_path_is_about_a_vhost_or_known_to_be_about_something_else() -> None:
    for route in ROUTER.routes:
        segments = route.path.strip("/").split("/")
        path = ROOT + "/".join(quote(each.strip(":"), safe="") for each in segments)
        one = management_target(path, "of {}".format).namespace != EVERYTHING_ELSE
        known = one or route.path in FIRSTS | OF_A_NODE | OF_SESSIONS
        assert known or ":topic" in segments or kind_of(route.method, path) is not Kind.ONE, route
        assert not (one and kind_of(route.method, path) is not Kind.ONE), route


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/api/queues", Kind.LIST),
        ("HEAD", "/api/queues/", Kind.LIST),
        ("GET", "/api/queues/%2F", Kind.ONE),
        ("PUT", "/api/queues/%2F/q", Kind.ONE),
        ("GET", "/api/users", Kind.ONE),
        ("GET", "/api/users/anna/permissions", Kind.LIST),
        ("GET", "/api/users/without-permissions", Kind.IN_ALL),
        ("GET", "/api/connections/a%20-%3E%20b", Kind.FOUND),
        ("DELETE", "/api/connections/a%20-%3E%20b", Kind.FOUND),
        ("DELETE", "/api/connections/username/anna", Kind.EACH),
        ("GET", "/api/overview", Kind.TOTALS),
        ("POST", "/api/definitions", Kind.FILE),
        ("POST", "/api/definitions/v", Kind.ONE),
        ("GET", "/metrics", Kind.ONE),
        ("GET", "/api/page/topics", Kind.PAGE_ROWS),
        ("GET", "/api/page/topics/v", Kind.ONE),
        ("DELETE", "/api/page/pulsar/connections/3/consumers/1", Kind.NUMBERED),
        ("DELETE", "/api/page/pulsar/transactions/3", Kind.NUMBERED),
    ],
)
def test_requests_about_all_shards_are_known_by_their_path(
    method: str, path: str, kind: Kind
) -> None:
    assert kind_of(method, path) is kind


def test_numbers_are_added_at_any_depth() -> None:
    first = {"messages": 2, "messages_details": {"rate": 0.5, "samples": samples((10, 1), (5, 1))}}
    second = {"messages": 3, "messages_details": {"rate": 1.0, "samples": samples((10, 4))}, "x": 1}
    assert added([first, second]) == {
        "messages": 5,
        "messages_details": {"rate": 1.5, "samples": samples((10, 5))},
        "x": 1,
    }


def samples(*pairs: tuple[int, int]) -> list[dict[str, int]]:
    return [{"timestamp": at, "sample": value} for at, value in pairs]


def test_other_fields_of_an_overview_are_the_first_shards() -> None:
    first = {"object_totals": {"queues": 1}, "cluster_name": "a", "message_stats": {}}
    second = {"object_totals": {"queues": 2}, "cluster_name": "b", "message_stats": {"ack": 1}}
    assert totals([("main", first), ("audit", second)]) == {
        "object_totals": {"queues": 3}, "cluster_name": "a", "message_stats": {"ack": 1},
    }  # fmt: skip


def test_lists_in_objects_are_joined_and_users_without_permissions_are_so_in_all_shards() -> None:
    parts = [("main", {"topics": [1]}), ("audit", {"topics": [2]})]
    assert joined(parts) == {"topics": [1, 2]}
    assert in_all([("main", ["a", "b"]), ("audit", ["b", "c"])]) == ["b"]


def test_a_resource_that_is_short_anywhere_is_an_alarm_with_the_levels_there() -> None:
    well = {
        "memory_alarm": False, "memory_used_bytes": 1, "disk_alarm": False, "disk_free_bytes": 9,
        "log_trim_alarm": "",
    }  # fmt: skip
    short = {**well, "disk_alarm": True, "disk_free_bytes": 0, "log_trim_alarm": "too few"}
    expected = {**short, "log_trim_alarm": "shard 'audit': too few"}
    assert alarms([("main", well), ("audit", short)]) == expected
    expected = {**short, "log_trim_alarm": "shard 'main': too few"}
    assert alarms([("main", short), ("audit", well)]) == expected
    assert alarms([("main", well), ("audit", well)]) == well


def test_lists_are_in_the_order_of_their_names() -> None:
    rows = [{"vhost": "b", "name": "a"}, {"vhost": "a", "name": "z"}, {"vhost": "a", "name": "b"}]
    assert [each["name"] for each in sorted(rows, key=order_of)] == ["b", "z", "a"]
    consumer = {"queue": {"vhost": "v", "name": "q"}, "consumer_tag": "c"}
    assert order_of(consumer)[0] == "v"


NAMES = st.sampled_from(["/", "books/a", "books/b", "shop"])
ENTRIES = st.lists(st.fixed_dictionaries({"vhost": NAMES, "name": st.text(max_size=2)}))


def shard_of(namespace: str) -> str:
    return "audit" if namespace.startswith("books/") else "main"


@given(st.dictionaries(st.sampled_from([each for each in OF_VHOSTS if each != "vhosts"]), ENTRIES))
def test_a_file_that_was_divided_is_the_same_when_joined_again(document: dict[str, Any]) -> None:
    divided = {
        "users": [{"name": "anna"}],
        "vhosts": [{"name": "books/a"}, {"name": "/"}],
        **document,
    }
    parts = cut(divided, ["main", "audit"], shard_of)
    assert next(iter(parts)) == "main"
    assert all("users" not in part for shard, part in parts.items() if shard != "main")
    for shard, part in parts.items():
        for name, rows in part.items():
            if name in document:
                assert all(shard_of(namespace(row["vhost"])) == shard for row in rows)
    whole = definitions(list(parts.items()))
    for name, rows in divided.items():
        assert sorted(map(repr, whole[name])) == sorted(map(repr, rows))


def namespace(vhost: str) -> str:
    return {"/": "public/default", "shop": "public/shop"}.get(vhost, vhost)


@pytest.mark.parametrize("rows", [[1], ["x"], [{}], [{"vhost": 3}], [None], 7])
def test_what_has_no_vhost_is_left_to_the_first_shard_to_refuse(rows: Any) -> None:
    assert cut({"queues": rows}, ["main", "audit"], shard_of) == {"main": {"queues": rows}}
