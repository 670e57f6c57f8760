"""The calls that are made to both brokers, in order, and what may differ.

The rule: a call is a row, and a known difference has its reason beside it.
"""

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Row:
    """One call."""

    method: str
    path: str
    body: Any = None
    user: str = "guest"
    headers: dict[str, str] = field(default_factory=dict)
    differs: str = ""
    """Why 3.13 answers with another status or error."""


V: Final = "v%2Fm"
"""The vhost ``v/m`` in a path."""

USERS: Final = ("admin", "manager", "monitor", "maker", "nobody", "")
"""Users by tag; the last one does not log in."""

_ARGS: Final = {"x-max-length": 10, "x-dead-letter-exchange": "amq.direct"}
_PUBLISH: Final = {
    "properties": {"delivery_mode": 2, "headers": {"a": 1, "b": [True, "x"], "c": {"d": 1.5}}},
    "routing_key": "q/1",
    "payload": "hällo",
    "payload_encoding": "string",
}
_POLICY: Final = {"pattern": "^none$", "definition": {"max-length": 3}}
_TOPIC: Final = {"exchange": "amq.topic", "write": "a", "read": "b"}
_DEFINED: Final = {
    "queues": [{"name": "imported", "durable": True, "auto_delete": False, "arguments": {}}]
}
_GET: Final = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
_NEWER: Final = "3.13 answers 404 where 3.10 says 400"

SETTING_UP: Final = (
    Row("PUT", f"vhosts/{V}", {}),
    Row("PUT", f"vhosts/{V}", {"description": "d", "tags": "a,b"}),
    Row("PUT", "users/manager", {"password": "p", "tags": "management"}),
    Row("PUT", "users/admin", {"password": "p", "tags": "administrator"}),
    Row("PUT", "users/monitor", {"password": "p", "tags": ["monitoring"]}),
    Row("PUT", "users/maker", {"password": "p", "tags": "policymaker"}),
    Row("PUT", "users/nobody", {"password": "p", "tags": ""}),
    *(
        Row("PUT", f"permissions/{V}/{user}", {"configure": "^c", "write": ".*", "read": ".*"})
        for user in ("manager", "maker")
    ),
    Row("PUT", f"permissions/{V}/manager", {"configure": "^c", "write": "^c", "read": ".*"}),
)

CALLS: Final = (
    # Queues
    Row("PUT", f"queues/{V}/q%2F1", {"durable": True, "arguments": _ARGS}),
    Row("PUT", f"queues/{V}/q%2F1", {"durable": True, "arguments": _ARGS}),
    Row("PUT", f"queues/{V}/q%2F1", {"durable": False, "arguments": _ARGS}),
    Row("PUT", f"queues/{V}/q%2F1", {"durable": "true", "arguments": {"x-max-length": 9}}),
    Row("PUT", f"queues/{V}/q2", {}),
    Row("PUT", f"queues/{V}/q3"),
    Row("PUT", f"queues/{V}/q4", b"not json"),
    Row("PUT", f"queues/{V}/q4", {"arguments": {"x-max-length": "ten"}}),
    Row("PUT", f"queues/{V}/amq.x", {}),
    Row("PUT", "queues/none/q", {}),
    Row("PUT", f"queues/{V}/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
    Row("PUT", f"queues/{V}/mine", {}, user="manager"),
    Row("PUT", f"queues/{V}/cmine", {}, user="manager"),
    Row("PUT", f"queues/{V}/monitors", {}, user="monitor"),
    Row("GET", f"queues/{V}/q%2F1"),
    Row("GET", f"queues/{V}/q%2f1/"),
    Row("GET", f"queues/{V}/none"),
    Row("GET", "queues/none/q"),
    Row("GET", f"queues/{V}"),
    Row("GET", "queues/none"),
    Row("GET", "queues"),
    Row("GET", "queues/"),
    Row("GET", "queues//"),
    Row("GET", f"queues/{V}?columns=name,arguments.x-max-length,none"),
    Row("GET", f"queues/{V}?columns=name&columns=vhost"),
    Row("GET", f"queues/{V}?sort=name&sort_reverse=true&columns=name"),
    Row("GET", f"queues/{V}?page=1&page_size=2&sort=name&columns=name"),
    Row("GET", f"queues/{V}?page=2&page_size=2&sort=name&columns=name"),
    Row("GET", f"queues/{V}?page=9&page_size=2"),
    Row("GET", f"queues/{V}?page=0"),
    Row("GET", f"queues/{V}?page=-1"),
    Row("GET", f"queues/{V}?page=1&page_size=-2"),
    Row("GET", f"queues/{V}?page=1&page_size=501"),
    Row("GET", f"queues/{V}?page=1&page_size=x"),
    Row("GET", f"queues/{V}?page=1&name=Q&columns=name&sort=name"),
    Row("GET", f"queues/{V}?page=1&name=%5Eq.$&use_regex=true&columns=name&sort=name"),
    Row("GET", f"queues/{V}?page=1&name=(&use_regex=true"),
    Row("GET", f"queues/{V}?page=1&pagination=false&columns=name&sort=name"),
    Row("GET", f"queues/{V}?lengths_age=60&lengths_incr=5&columns=name"),
    Row("GET", f"queues/{V}/q2?lengths_age=60&lengths_incr=0"),
    # Messages
    Row("POST", f"exchanges/{V}/amq.default/publish", _PUBLISH),
    Row("POST", f"exchanges/{V}/amq.default/publish", {**_PUBLISH, "routing_key": "none"}),
    Row("POST", f"exchanges/{V}//publish", _PUBLISH),
    Row("POST", f"exchanges/{V}/none/publish", _PUBLISH, differs=_NEWER),
    Row("POST", f"exchanges/{V}/amq.default/publish", {"payload": "x"}),
    Row("POST", f"exchanges/{V}/amq.default/publish", {**_PUBLISH, "payload_encoding": "rot13"}),
    Row(
        "POST",
        f"exchanges/{V}/amq.default/publish",
        {**_PUBLISH, "properties": {"delivery_mode": "two"}},
    ),
    Row(
        "POST",
        f"exchanges/{V}/amq.direct/publish",
        _PUBLISH,
        user="manager",
        differs="3.13 answers 401 where 3.10 says 400",
    ),
    Row("POST", f"queues/{V}/q%2F1/get", _GET),
    Row("POST", f"queues/{V}/q%2F1/get", {**_GET, "encoding": "base64", "truncate": 2}),
    Row("POST", f"queues/{V}/q%2F1/get", {**_GET, "encoding": "hex"}),
    Row("POST", f"queues/{V}/q%2F1/get", {"count": 1}),
    Row("POST", f"queues/{V}/q%2F1/get", {**_GET, "count": -1}),
    Row("POST", f"queues/{V}/none/get", _GET),
    Row("POST", f"queues/{V}/q%2F1/get", {**_GET, "count": "1", "ackmode": "ack_requeue_false"}),
    Row("POST", f"queues/{V}/q%2F1/get", _GET),
    Row("DELETE", f"queues/{V}/q%2F1/contents"),
    Row("DELETE", f"queues/{V}/none/contents"),
    # Exchanges
    Row("PUT", f"exchanges/{V}/x", {"type": "topic", "durable": True}),
    Row("PUT", f"exchanges/{V}/x", {"type": "topic", "durable": True}),
    Row("PUT", f"exchanges/{V}/x", {"type": "direct", "durable": True}),
    Row("PUT", f"exchanges/{V}/y", {"type": "none"}),
    Row("PUT", f"exchanges/{V}/y", {}),
    Row("PUT", f"exchanges/{V}/amq.y", {}),
    Row("PUT", f"exchanges/{V}/mine", {}, user="manager"),
    Row("GET", f"exchanges/{V}/x"),
    Row("GET", f"exchanges/{V}/amq.default"),
    Row("GET", f"exchanges/{V}/none"),
    Row("GET", f"exchanges/{V}"),
    Row("GET", f"exchanges/{V}?page=1&page_size=3&sort=name&columns=name,type"),
    # Bindings
    Row("POST", f"bindings/{V}/e/x/q/q2", {"routing_key": "a.b c/%~"}),
    Row("POST", f"bindings/{V}/e/x/q/q2", {}),
    Row("POST", f"bindings/{V}/e/x/q/q2"),
    Row("POST", f"bindings/{V}/e/x/e/y", {"routing_key": "k"}),
    Row("POST", f"bindings/{V}/e/x/q/none", {"routing_key": "k"}),
    Row("POST", f"bindings/{V}/e/none/q/q2", {"routing_key": "k"}),
    Row("GET", f"bindings/{V}/e/x/q/q2?sort=routing_key"),
    Row("GET", f"bindings/{V}/e/x/e/y"),
    Row("GET", f"bindings/{V}/e/x/e/y/k"),
    Row("GET", f"bindings/{V}/e/x/q/q2/~"),
    Row("GET", f"bindings/{V}/e/x/q/q2/none"),
    Row("DELETE", f"bindings/{V}/e/x/q/q2/~"),
    Row("DELETE", f"bindings/{V}/e/x/q/q2/~"),
    Row("GET", f"bindings/{V}"),
    Row("GET", f"queues/{V}/q2/bindings"),
    Row("GET", f"exchanges/{V}/x/bindings/source"),
    Row("GET", f"exchanges/{V}/y/bindings/destination"),
    Row("GET", f"exchanges/{V}/none/bindings/source"),
    Row("DELETE", f"exchanges/{V}/x?if-unused=true"),
    # Policies, parameters, limits
    Row("PUT", f"policies/{V}/p", {"pattern": "^none$", "definition": {"max-length": 3}}),
    Row("PUT", f"policies/{V}/p", {"pattern": "^none$", "definition": {"max-length": 4}}),
    Row("PUT", f"policies/{V}/bad", {"pattern": "(", "definition": {"max-length": 3}}),
    Row("PUT", f"policies/{V}/bad", {"pattern": "a", "definition": {}}),
    Row("PUT", f"policies/{V}/bad", {"pattern": "a", "definition": {"nope": 3}}),
    Row("PUT", f"policies/{V}/bad", {"pattern": "a", "definition": {"max-length": -1}}),
    Row("PUT", f"policies/{V}/bad", {"definition": {"max-length": 3}}),
    Row("PUT", f"policies/{V}/mine", _POLICY, user="manager"),
    Row("PUT", f"policies/{V}/mine", _POLICY, user="maker"),
    Row("GET", "policies"),
    Row("GET", f"policies/{V}"),
    Row("GET", f"policies/{V}/p"),
    Row("GET", f"policies/{V}/none"),
    Row("DELETE", f"policies/{V}/p"),
    Row("DELETE", f"policies/{V}/p"),
    Row("PUT", f"operator-policies/{V}/o", _POLICY),
    Row("PUT", f"operator-policies/{V}/bad", {**_POLICY, "definition": {"queue-mode": "lazy"}}),
    Row("PUT", f"operator-policies/{V}/o", _POLICY, user="maker"),
    Row("GET", f"operator-policies/{V}"),
    Row("GET", f"operator-policies/{V}/o"),
    Row("PUT", f"vhost-limits/{V}/max-queues", {"value": 100}),
    Row("PUT", f"vhost-limits/{V}/none", {"value": 100}),
    Row("PUT", f"vhost-limits/{V}/max-queues", {}),
    Row("GET", "vhost-limits"),
    Row("GET", f"vhost-limits/{V}"),
    Row("GET", "parameters"),
    Row("GET", f"parameters/vhost-limits/{V}"),
    Row("GET", f"parameters/operator_policy/{V}/o"),
    Row("PUT", f"parameters/nonesuch/{V}/n", {"value": {}}),
    Row("DELETE", f"operator-policies/{V}/o"),
    Row("DELETE", f"vhost-limits/{V}/max-queues"),
    Row("PUT", "user-limits/maker/max-connections", {"value": 5}),
    Row("GET", "user-limits"),
    Row("GET", "user-limits/maker"),
    Row("DELETE", "user-limits/maker/max-connections"),
    Row("PUT", "global-parameters/g", {"value": {"a": [1]}}),
    Row("GET", "global-parameters/g"),
    Row("DELETE", "global-parameters/g"),
    Row("DELETE", "global-parameters/g"),
    Row("GET", "cluster-name"),
    # Users, vhosts and permissions
    Row("GET", "users"),
    Row("GET", "users/manager"),
    Row("GET", "users/none"),
    Row("PUT", "users/x", {"password": "p"}),
    Row("PUT", "users/x", {"password": "p", "password_hash": "aaaa", "tags": ""}),
    Row("PUT", "users/x", {"password_hash": "!", "tags": ""}),
    Row("PUT", "users/x", {"tags": "a, b"}),
    Row("GET", "users/x"),
    Row("GET", "users/without-permissions"),
    Row("GET", "users/x/permissions"),
    Row("POST", "users/bulk-delete", {"users": ["x"]}),
    Row("DELETE", "users/x"),
    Row("GET", "permissions"),
    Row("GET", f"permissions/{V}/manager"),
    Row("GET", f"permissions/{V}/none"),
    Row("PUT", f"permissions/{V}/maker", {"configure": "a"}),
    Row("PUT", f"permissions/{V}/maker", {"configure": "(", "write": "", "read": ""}),
    Row("PUT", f"permissions/{V}/none", {"configure": "", "write": "", "read": ""}),
    Row("PUT", "permissions/none/maker", {"configure": "", "write": "", "read": ""}),
    Row("GET", f"vhosts/{V}/permissions"),
    Row("GET", "users/manager/permissions"),
    Row("PUT", f"topic-permissions/{V}/maker", _TOPIC),
    Row("PUT", f"topic-permissions/{V}/maker", {"exchange": "amq.topic", "write": "a"}),
    Row("GET", f"topic-permissions/{V}/maker"),
    Row("GET", "topic-permissions"),
    Row("GET", "users/maker/topic-permissions"),
    Row("GET", f"vhosts/{V}/topic-permissions"),
    Row("DELETE", f"topic-permissions/{V}/maker/amq.topic"),
    Row("GET", f"topic-permissions/{V}/maker"),
    Row("GET", f"vhosts/{V}"),
    Row("GET", "vhosts"),
    Row("GET", "vhosts/none"),
    Row("DELETE", "vhosts/none"),
    # The node
    *(
        Row("GET", path, user=user)
        for path in (
            "overview", "whoami", "nodes", "vhosts", "users", "queues", f"queues/{V}",
            f"vhosts/{V}", "connections", "channels", "consumers", "permissions", "parameters",
            "policies", "vhost-limits", "definitions", "exchanges/%2F", "global-parameters",
            "extensions",
        )
        for user in ("guest", "manager", "monitor", "maker", "nobody", "")
    ),
    Row("GET", "health/checks/alarms"),
    Row("GET", "health/checks/local-alarms"),
    Row("GET", "health/checks/virtual-hosts"),
    Row("GET", "health/checks/node-is-quorum-critical"),
    Row("GET", "health/checks/node-is-mirror-sync-critical"),
    Row("GET", "health/checks/port-listener/1"),
    Row("GET", "health/checks/protocol-listener/amqp091"),
    Row("GET", "health/checks/protocol-listener/none"),
    Row("GET", "health/checks/certificate-expiration/1/days"),
    Row("GET", "health/checks/certificate-expiration/1/eons"),
    Row("GET", f"aliveness-test/{V}"),
    Row("GET", "aliveness-test/none"),
    Row("GET", "healthchecks/node"),
    Row("GET", f"definitions/{V}"),
    Row("POST", "definitions", b"{"),
    Row("POST", "definitions", {"queues": [{"name": "q"}]}),
    Row("POST", f"definitions/{V}", _DEFINED),
    Row("PATCH", "queues"),
    Row("OPTIONS", "queues", user=""),
    Row("GET", "none"),
    *(
        Row(method, path, user=user)
        for path in ("queues/%zz", f"queues/{V}/100%", "vhosts/%2", "none/%4x")
        for method in ("GET", "PUT", "DELETE")
        for user in ("guest", "")
    ),
    *(
        Row("GET", path, user=user)
        for path in (
            "overview?columns=%zz", f"queues/{V}?name=%", "whoami?x=%4", "none?x=%",
            f"queues/{V}/none?x=%zz", "users?x=%7a",
        )
        for user in ("guest", "")
    ),
    Row("DELETE", f"queues/{V}/q2?if-empty=true"),
    Row("DELETE", f"queues/{V}/none"),
    Row("DELETE", f"vhosts/{V}"),
)  # fmt: skip
