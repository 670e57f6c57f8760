"""Requests of RabbitMQ's own suite for its management API that the sweep does not make: columns,
ranges of samples, what a client accepts, users with permissions, priorities of policies. On both
brokers the status is the same, and so are the reason of a refusal and the fields of a document.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from conformance.management.client import Answer
from conformance.management.conftest import Managed

V: Final = "queried"
ALL: Final = {"configure": ".*", "write": ".*", "read": ".*"}
POLICY: Final = {"pattern": "^none$", "definition": {"max-length": 5}}
MADE: Final[tuple[tuple[str, Any], ...]] = (
    (f"vhosts/{V}", {"description": "d"}),
    (f"permissions/{V}/guest", ALL),
    (f"queues/{V}/q", {"durable": True, "arguments": {"x-max-length": 5}}),
    (f"exchanges/{V}/x", {"type": "topic"}),
    (f"policies/{V}/p", POLICY),
    ("global-parameters/queried", {"value": {"a": 1}}),
)

Both = tuple[Managed, Managed]


@pytest.fixture(scope="module")
def both(pair: Both) -> Iterator[Both]:
    """The brokers, with a vhost of its own in each."""
    for each in pair:
        for path, body in MADE:
            assert each.api.call("PUT", path, body).status in (201, 204), (each, path)
    yield pair
    for each in pair:
        each.api.call("DELETE", f"vhosts/{V}")
        each.api.call("DELETE", "global-parameters/queried")


def answers(both: Both, method: str, path: str, body: Any = None, **headers: str) -> list[Answer]:
    return [each.api.call(method, path, body, headers) for each in both]


def agree(ours: Answer, theirs: Answer) -> None:
    assert ours.status == theirs.status, (ours, theirs)
    if theirs.status >= 400 and theirs.body:
        assert ours.json["reason"] == theirs.json["reason"]


def fields(document: Any) -> Any:
    """The names of its fields. Erlang's empty list of fields is an empty list in JSON."""
    if isinstance(document, list):
        found = {json_names for each in document if (json_names := fields(each))}
        return tuple(sorted(found))
    return tuple(sorted(document)) if isinstance(document, dict) else document


@pytest.mark.parametrize("columns", ["name", "name,vhost", "", "nope", "name.x", ",,name"])
@pytest.mark.parametrize(
    "path",
    ["overview", "whoami", "nodes", "vhosts", f"vhosts/{V}", f"queues/{V}", f"queues/{V}/q",
     f"exchanges/{V}", f"exchanges/{V}/x", f"bindings/{V}", f"policies/{V}", f"policies/{V}/p",
     "users", "users/guest", "permissions", f"permissions/{V}/guest", "global-parameters",
     "global-parameters/queried", f"definitions/{V}", "cluster-name"],
)  # fmt: skip
def test_columns_of_any_document(both: Both, path: str, columns: str) -> None:
    ours, theirs = answers(both, "GET", f"{path}?columns={columns}")
    agree(ours, theirs)
    assert fields(ours.json) == fields(theirs.json)


@pytest.mark.parametrize(
    "query", ["age=60&incr=1", "age=6000&incr=1", "age=60&incr=0", "age=-5&incr=1", "age=x&incr=1",
              "age=60"]
)  # fmt: skip
@pytest.mark.parametrize("kind", ["lengths", "msg_rates", "data_rates", "node_stats"])
@pytest.mark.parametrize(
    "path",
    ["channels", "connections", "exchanges", f"exchanges/{V}/x", "nodes", "overview",
     f"queues/{V}", f"queues/{V}/q", "vhosts", f"vhosts/{V}", f"vhosts/{V}/channels",
     f"vhosts/{V}/connections"],
)  # fmt: skip
def test_ranges_of_samples(both: Both, path: str, kind: str, query: str) -> None:
    named = query.replace("age", f"{kind}_age").replace("incr", f"{kind}_incr")
    agree(*answers(both, "GET", f"{path}?{named}"))


@pytest.mark.parametrize(
    "accept",
    ["application/json", "APPLICATION/JSON", "application/*", "*/*;q=0", "application/json;q=0",
     "application/bert, application/json", "text/html, application/json;q=0.5", "text/html",
     "text/*", "*/json", "", ",", "application/json; charset=utf-8", "application/*;version=1",
     "application/json;q=0.5;ext=1", "nonsense", "*", "a/b/c", "application/json;q=2"],
)  # fmt: skip
def test_what_a_client_accepts(both: Both, accept: str) -> None:
    user = {"password": "p", "tags": ""}
    for method, path, body in (
        ("GET", "overview", None), ("GET", "users/nobody-of-that-name", None),
        ("PUT", "users/accepting", user), ("DELETE", "users/accepting", None),
        ("OPTIONS", "overview", None), ("GET", "operator-policies", None),
    ):  # fmt: skip
        agree(*answers(both, method, path, body, accept=accept))


def test_a_new_user_has_the_permissions_and_limits_in_the_body(both: Both) -> None:
    body = {"password": "p", "tags": "management", "permissions": {"/": ALL, V: ALL}}
    changed = {**body, "permissions": {}, "limits": {"max-channels": 5}}
    try:
        for each in (body, changed, {**changed, "limits": {"max-connections": 2}}):
            agree(*answers(both, "PUT", "users/permitted", each))
            for path in ("users/permitted/permissions", "user-limits/permitted"):
                ours, theirs = answers(both, "GET", path)
                assert ours.json == theirs.json
    finally:
        answers(both, "DELETE", "users/permitted")


@pytest.mark.parametrize("priority", [10, 1.5, -3, 1 << 70, "1", "1.5", "x", None, True])
@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_priorities_of_policies(both: Both, kind: str, priority: Any) -> None:
    path = f"{kind}/{V}/of-priority"
    ours, theirs = answers(both, "PUT", path, {**POLICY, "priority": priority})
    try:
        agree(ours, theirs)
        ours, theirs = answers(both, "GET", path)
        agree(ours, theirs)
        assert ours.json.get("priority") == theirs.json.get("priority")
    finally:
        answers(both, "DELETE", path)


@pytest.mark.parametrize("value", ["x", 1.5, None, -1])
def test_limits_that_are_no_numbers(both: Both, value: Any) -> None:
    for path in (f"vhost-limits/{V}/max-queues", "user-limits/guest/max-channels"):
        agree(*answers(both, "PUT", path, {"value": value}))
        answers(both, "DELETE", path)


def test_the_cluster_has_an_id(both: Both) -> None:
    ours, theirs = answers(both, "GET", "global-parameters/internal_cluster_id")
    agree(ours, theirs)
    assert len(ours.json["value"]) == len(theirs.json["value"])
    for answer in answers(both, "GET", "definitions"):
        names = [each["name"] for each in answer.json["global_parameters"]]
        assert "internal_cluster_id" in names
