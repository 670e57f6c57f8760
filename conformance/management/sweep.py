"""The sweep: every path of the API with every method, by every kind of user, with things that do
not exist, and with invalid bodies.

The rule: requests are generated from the table below, which has each path with something that
exists. The expected answers are RabbitMQ's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

Names = Mapping[str, str]
"""The values of a path's parameters, not URL-encoded."""


@dataclass(frozen=True, slots=True)
class Path:
    """One path of the API; its parameters begin with a colon."""

    path: str
    methods: str
    """The methods that change nothing, or that may be repeated."""
    names: Names = field(default_factory=dict)
    body: Any = None
    """A valid body for these methods."""
    fresh: str = ""
    """The parameter that gets a new value for each body, so that each request creates something
    new."""
    newer: bool = False
    """Whether it is missing from 3.10.8."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``about`` is the path that it tests."""

    about: str
    method: str
    path: str
    body: Any = None
    user: str = "guest"
    headers: Mapping[str, str] = field(default_factory=dict)


VHOST: Final = "v/s"
TAGS: Final = {
    "manager": "management", "monitor": "monitoring", "maker": "policymaker",
    "outsider": "management", "outmaker": "policymaker", "nobody": "", "sweep": "management",
}  # fmt: skip
WITH_RIGHTS: Final = ("manager", "maker", "sweep", "guest")
"""The users with rights in the vhost."""
WRONG: Final = "wrong"
"""Logs in as guest with a wrong password."""
EVERYBODY: Final = (*TAGS, WRONG, "")
"""All who are not administrators; the last one does not log in."""

_QUEUE: Final = {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}
_EXCHANGE: Final = {
    "type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {},
}  # fmt: skip
_MESSAGE: Final = {
    "properties": {"delivery_mode": 1}, "routing_key": "q/1", "payload": "x",
    "payload_encoding": "string",
}  # fmt: skip
_GET: Final = {
    "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 10,
}  # fmt: skip
_BINDING: Final = {"routing_key": "k", "arguments": {"a": 1}}
_USER: Final = {"password": "p", "tags": "management"}
_RIGHTS: Final = {"configure": "a", "write": "b", "read": "c"}
_TOPIC: Final = {"exchange": "amq.topic", "write": "a", "read": "b"}
_POLICY: Final = {
    "pattern": "^none$", "definition": {"max-length": 3}, "priority": 1, "apply-to": "queues",
}  # fmt: skip
_VALUE: Final = {"value": 10}
_SHOVEL: Final = {
    "value": {
        "src-uri": "amqp:///v%2Fs",
        "src-queue": "shovelled",
        "dest-uri": "amqp:///v%2Fs",
        "dest-queue": "swept to",
    },
}
_DEFINED: Final = {
    "queues": [{"name": "defined", "durable": True, "auto_delete": False, "arguments": {}}],
    "exchanges": [], "bindings": [], "policies": [], "parameters": [],
}  # fmt: skip

PATHS: Final = (
    Path("overview", "GET"),
    Path("extensions", "GET"),
    Path("whoami", "GET"),
    Path("feature-flags", "GET"),
    Path("feature-flags/:name/enable", "PUT", {"name": "stream_queue"}),
    Path("deprecated-features", "GET", newer=True),
    Path("deprecated-features/used", "GET", newer=True),
    Path("federation-links", "GET"),
    Path("federation-links/:vhost", "GET"),
    Path("auth/attempts/:node", "GET"),
    Path("auth/attempts/:node/source", "GET"),
    Path("rebalance/queues", "POST", body={}),
    Path("nodes", "GET"),
    Path("nodes/:node", "GET"),
    Path("nodes/:node/memory", "GET"),
    Path("definitions", "GET POST", body={}),
    Path("definitions/:vhost", "GET POST", body=_DEFINED),
    Path("all-configuration", "GET POST", body={}),
    Path("connections", "GET"),
    Path("vhosts/:vhost/connections", "GET"),
    Path("connections/:connection", "GET"),
    Path("connections/:connection/channels", "GET"),
    Path("connections/username/:user", "GET", {"user": "nobody"}),
    Path("channels", "GET"),
    Path("vhosts/:vhost/channels", "GET"),
    Path("channels/:channel", "GET"),
    Path("consumers", "GET"),
    Path("consumers/:vhost", "GET"),
    Path("exchanges", "GET"),
    Path("exchanges/:vhost", "GET"),
    Path("exchanges/:vhost/:exchange", "GET PUT", body=_EXCHANGE, fresh="exchange"),
    Path("exchanges/:vhost/:exchange/publish", "POST", body=_MESSAGE),
    Path("exchanges/:vhost/:exchange/bindings/source", "GET"),
    Path("exchanges/:vhost/:exchange/bindings/destination", "GET"),
    Path("queues", "GET"),
    Path("queues/detailed", "GET", newer=True),
    Path("queues/:vhost", "GET"),
    Path("queues/:vhost/:queue", "GET PUT", body=_QUEUE, fresh="queue"),
    Path("queues/:vhost/:queue/contents", "DELETE", {"queue": "empty"}),
    Path("queues/:vhost/:queue/actions", "POST", body={"action": "sync"}),
    Path("queues/:vhost/:queue/get", "POST", body=_GET),
    Path("queues/:vhost/:queue/bindings", "GET"),
    Path("bindings", "GET"),
    Path("bindings/:vhost", "GET"),
    Path("bindings/:vhost/e/:exchange/q/:queue", "GET POST", body=_BINDING),
    Path("bindings/:vhost/e/:exchange/q/:queue/:key", "GET"),
    Path("bindings/:vhost/e/:exchange/e/:destination", "GET POST", body=_BINDING),
    Path("bindings/:vhost/e/:exchange/e/:destination/:key", "GET"),
    Path("vhosts", "GET"),
    Path("vhosts/:vhost", "GET PUT", body={"description": "d", "tags": "a,b"}, fresh="vhost"),
    Path("vhosts/:vhost/start/:node", "POST", body={}),
    Path("vhosts/:vhost/permissions", "GET"),
    Path("vhosts/:vhost/topic-permissions", "GET"),
    Path("users", "GET"),
    Path("users/without-permissions", "GET"),
    Path("users/bulk-delete", "POST", body={"users": []}),
    Path("users/:user", "GET PUT", body=_USER, fresh="user"),
    Path("users/:user/permissions", "GET"),
    Path("users/:user/topic-permissions", "GET"),
    Path("permissions", "GET"),
    Path("permissions/:vhost/:user", "GET PUT", body=_RIGHTS),
    Path("topic-permissions", "GET"),
    Path("topic-permissions/:vhost/:user", "GET PUT", body=_TOPIC),
    Path("topic-permissions/:vhost/:user/:exchange", "GET PUT", {"exchange": "amq.topic"}, _TOPIC),
    Path("policies", "GET"),
    Path("policies/:vhost", "GET"),
    Path("policies/:vhost/:name", "GET PUT", body=_POLICY, fresh="name"),
    Path("operator-policies", "GET"),
    Path("operator-policies/:vhost", "GET"),
    Path("operator-policies/:vhost/:name", "GET PUT", body=_POLICY, fresh="name"),
    Path("parameters", "GET"),
    Path("parameters/:component", "GET", {"component": "vhost-limits"}),
    Path("parameters/:component/:vhost", "GET", {"component": "vhost-limits"}),
    Path(
        "parameters/:component/:vhost/:name", "GET PUT", {"component": "shovel", "name": "sweep"},
        _SHOVEL, fresh="name",
    ),
    Path("global-parameters", "GET"),
    Path("global-parameters/:name", "GET PUT", body=_VALUE, fresh="name"),
    Path("cluster-name", "GET PUT", body={"name": "swept"}),
    Path("vhost-limits", "GET"),
    Path("vhost-limits/:vhost", "GET"),
    Path("vhost-limits/:vhost/:name", "PUT", {"name": "max-queues"}, {"value": 1000}),
    Path("user-limits", "GET"),
    Path("user-limits/:user", "GET"),
    Path("user-limits/:user/:name", "PUT", {"name": "max-connections"}, {"value": 1000}),
    Path("shovels", "GET"),
    Path("shovels/:vhost", "GET"),
    Path("shovels/vhost/:vhost/:name", "GET"),
    Path("shovels/vhost/:vhost/:name/restart", ""),
    Path("health/checks/alarms", "GET"),
    Path("health/checks/local-alarms", "GET"),
    Path("health/checks/port-listener/:port", "GET", {"port": "1"}),
    Path("health/checks/protocol-listener/:protocol", "GET", {"protocol": "amqp"}),
    Path("health/checks/virtual-hosts", "GET"),
    Path(
        "health/checks/certificate-expiration/:within/:unit", "GET",
        {"within": "1", "unit": "weeks"},
    ),
    Path("health/checks/node-is-quorum-critical", "GET"),
    Path("health/checks/node-is-mirror-sync-critical", "GET"),
    Path("aliveness-test/:vhost", "GET"),
    Path("healthchecks/node", "GET"),
    Path("healthchecks/node/:node", "GET"),
    Path("login", ""),
    Path("auth", "GET"),
)  # fmt: skip

NAMES: Final = {
    "vhost": VHOST, "exchange": "x/1", "queue": "q/1", "destination": "amq.fanout", "key": "k",
    "user": "sweep", "name": "sweep",
}  # fmt: skip

SETTING_UP: Final = (
    Request("", "PUT", "vhosts/:vhost", {}),
    *(Request("", "PUT", f"users/{u}", {"password": "p", "tags": t}) for u, t in TAGS.items()),
    *(
        Request("", "PUT", f"permissions/:vhost/{user}", dict.fromkeys(_RIGHTS, ".*"))
        for user in WITH_RIGHTS
    ),
    Request("", "PUT", "queues/:vhost/:queue", _QUEUE),
    Request("", "PUT", "queues/:vhost/empty", {}),
    Request("", "PUT", "exchanges/:vhost/:exchange", _EXCHANGE),
    Request("", "POST", "bindings/:vhost/e/:exchange/q/:queue", {"routing_key": "k"}),
    Request("", "POST", "bindings/:vhost/e/:exchange/e/:destination", {"routing_key": "k"}),
    Request("", "PUT", "policies/:vhost/:name", _POLICY),
    Request("", "PUT", "operator-policies/:vhost/:name", _POLICY),
    Request("", "PUT", "global-parameters/:name", _VALUE),
    Request("", "PUT", "topic-permissions/:vhost/:user", _TOPIC),
    Request("", "PUT", "vhost-limits/:vhost/max-queues", {"value": 1000}),
    Request("", "PUT", "user-limits/:user/max-connections", {"value": 1000}),
    Request("", "PUT", "parameters/shovel/:vhost/:name", _SHOVEL),
)
"""Requests that create what exists when the sweep begins; their paths have parameters."""

VALUES: Final = (None, [], {}, 1, -1, 1.5, True, "x", [1])
"""The values that each key of a body is tried with."""

BODIES: Final = (b"", b"{", b"null", b"undefined", b"[]", b'"x"', b"1", b"{}", b"\xff", b'{"a":1}x')


def filled(path: str, names: Names) -> str:
    """The path with its parameters filled in, each of them URL-encoded."""
    return "/".join(
        quote(names[each[1:]], safe="") if each.startswith(":") else each
        for each in path.split("/")
    )


def names_of(path: Path, of_broker: Names) -> dict[str, str]:
    return {**NAMES, **of_broker, **path.names}


def setting_up() -> Iterator[Request]:
    """The requests that create what the sweep works on."""
    for each in SETTING_UP:
        yield replace(each, path=filled(each.path, NAMES))


def by_methods(of_broker: Names) -> Iterator[Request]:
    """All methods that change nothing, whether or not a path allows them; also paths written in
    other forms."""
    for path in PATHS:
        place = filled(path.path, names_of(path, of_broker))
        for method in ("PUT", "POST", "DELETE", "PATCH", "OPTIONS", "GET", "HEAD"):
            if (method, path.path) not in CHANGES:
                body = path.body if method in ("PUT", "POST") else None
                yield Request(path.path, method, place, body)
        if "GET" in path.methods:
            yield Request(path.path, "GET", f"{place}/")
            yield Request(path.path, "GET", place.replace("%2F", "%2f"))
            yield Request("", "GET", f"{place}//")
            yield Request("", "GET", f"{place}/none/none/none/none/none")


CHANGES: Final = frozenset(
    {
        ("DELETE", "connections/:connection"), ("DELETE", "connections/username/:user"),
        ("DELETE", "exchanges/:vhost/:exchange"), ("DELETE", "queues/:vhost/:queue"),
        ("DELETE", "bindings/:vhost/e/:exchange/q/:queue/:key"),
        ("DELETE", "bindings/:vhost/e/:exchange/e/:destination/:key"),
        ("DELETE", "vhosts/:vhost"), ("DELETE", "users/:user"),
        ("DELETE", "permissions/:vhost/:user"), ("DELETE", "topic-permissions/:vhost/:user"),
        ("DELETE", "topic-permissions/:vhost/:user/:exchange"),
        ("DELETE", "policies/:vhost/:name"), ("DELETE", "operator-policies/:vhost/:name"),
        ("DELETE", "parameters/:component/:vhost/:name"), ("DELETE", "global-parameters/:name"),
        ("DELETE", "vhost-limits/:vhost/:name"), ("DELETE", "user-limits/:user/:name"),
        ("DELETE", "shovels/vhost/:vhost/:name"), ("DELETE", "shovels/vhost/:vhost/:name/restart"),
        ("POST", "login"), ("DELETE", "auth/attempts/:node"),
        ("DELETE", "auth/attempts/:node/source"),
    }
)  # fmt: skip
"""Methods that change what the other requests work on."""


def of_missing(of_broker: Names) -> Iterator[Request]:
    """Something that does not exist, in each parameter of a path in turn."""
    for path in PATHS:
        names = names_of(path, of_broker)
        methods = {*path.methods.split(), *(m for m, p in CHANGES if p == path.path)}
        for each in path.path.split("/"):
            if each.startswith(":") and each != f":{path.fresh}" and each != ":node":
                for method in sorted(methods):
                    missing = filled(path.path, {**names, each[1:]: "none"})
                    yield Request(path.path, method, missing, path.body)


def by_everybody(of_broker: Names) -> Iterator[Request]:
    """All requests that change nothing, and those about things that do not exist, by each user
    without full rights."""
    for path in PATHS:
        names = names_of(path, of_broker)
        place = filled(path.path, names)
        for user in EVERYBODY:
            for method in path.methods.split():
                yield Request(path.path, method, place, path.body, user)
            for method, changed in sorted(CHANGES):
                if changed == path.path:
                    missing = filled(path.path, {**names, path.path.rpartition(":")[2]: "none"})
                    yield Request(path.path, method, missing, None, user)


def of_bodies(of_broker: Names) -> Iterator[Request]:
    """Valid and invalid bodies of all kinds."""
    number = 0
    for path in PATHS:
        names = names_of(path, of_broker)
        for method in {"PUT", "POST"} & set(path.methods.split()):
            bodies = list[Any](BODIES)
            if isinstance(path.body, dict):
                bodies += [path.body, {**path.body, "more": 1}]
                for key in path.body:
                    bodies.append({k: v for k, v in path.body.items() if k != key})
                    bodies += [{**path.body, key: value} for value in VALUES]
            for body in bodies:
                number += 1
                fresh = {path.fresh: f"swept-{number}"} if path.fresh else {}
                place = filled(path.path, {**names, **fresh})
                yield Request(path.path, method, place, body)
            for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
                yield Request(
                    path.path, method, filled(path.path, names), path.body,
                    headers={"content-type": kind},
                )  # fmt: skip
