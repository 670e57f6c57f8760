"""Over HTTP each of AMQP's rights is required as on a channel: a user who lacks just that one is
refused, and a user who has it is not."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.broker.http.management.kit import Caller, managed

from arneb.http.management.requests.rules import Who
from arneb.http.management.topology import bindings, exchanges, messages, queues

USER = "management"
EVERYTHING = dict.fromkeys(("configure", "write", "read"), ".*")
ALL_BUT = "^(?!{}$)"
"""A pattern that matches every name except one."""

GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
PUBLISH = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}
KEY = {"routing_key": "k"}
BOUND_QUEUE, BOUND_EXCHANGE = "bindings/%2F/e/:x/q/:q", "bindings/%2F/e/:x/e/:y"


@dataclass(frozen=True)
class Case:
    """A call, the right that it needs, and on what; with ``topic`` a right on a routing key."""

    method: str
    path: str
    right: str
    name: str
    body: Mapping[str, Any] | None = None
    topic: bool = False

    @property
    def url(self) -> str:
        exchange = "t" if self.topic else "x"
        filled = self.path.replace(":x", exchange).replace(":q", "q").replace(":y", "y")
        return filled.replace(":key", "k")


DLX = {"arguments": {"x-dead-letter-exchange": "x"}}
ALTERNATE = {"type": "direct", "arguments": {"alternate-exchange": "x"}}

CASES = [
    Case("PUT", "queues/%2F/new", "configure", "new", {}),
    Case("PUT", "queues/%2F/new", "read", "new", DLX),
    Case("PUT", "queues/%2F/new", "write", "x", DLX),
    Case("DELETE", "queues/%2F/:q", "configure", "q"),
    Case("DELETE", "queues/%2F/:q/contents", "read", "q"),
    Case("POST", "queues/%2F/:q/get", "read", "q", GET),
    Case("PUT", "exchanges/%2F/new", "configure", "new", {"type": "direct"}),
    Case("PUT", "exchanges/%2F/new", "read", "new", ALTERNATE),
    Case("PUT", "exchanges/%2F/new", "write", "x", ALTERNATE),
    Case("DELETE", "exchanges/%2F/:x", "configure", "x"),
    Case("POST", "exchanges/%2F/:x/publish", "write", "x", PUBLISH),
    Case("POST", "exchanges/%2F/:x/publish", "write", "t", PUBLISH, topic=True),
    Case("POST", BOUND_QUEUE, "write", "q", KEY),
    Case("POST", BOUND_QUEUE, "read", "x", KEY),
    Case("POST", BOUND_QUEUE, "read", "t", KEY, topic=True),
    Case("DELETE", f"{BOUND_QUEUE}/:key", "write", "q"),
    Case("DELETE", f"{BOUND_QUEUE}/:key", "read", "x"),
    Case("DELETE", f"{BOUND_QUEUE}/:key", "read", "t", topic=True),
    Case("POST", BOUND_EXCHANGE, "write", "y", KEY),
    Case("POST", BOUND_EXCHANGE, "read", "x", KEY),
    Case("POST", BOUND_EXCHANGE, "read", "t", KEY, topic=True),
    Case("DELETE", f"{BOUND_EXCHANGE}/:key", "write", "y"),
    Case("DELETE", f"{BOUND_EXCHANGE}/:key", "read", "x"),
    Case("DELETE", f"{BOUND_EXCHANGE}/:key", "read", "t", topic=True),
]


def shape(route: tuple[str, str]) -> tuple[str, int, str]:
    """A route, identified by its parts that are not names."""
    method, path = route
    words = [each for each in path.split("/") if each[0] != ":" and each != "%2F"]
    known = {"queues", "exchanges", "bindings", "contents", "get", "publish", "e", "q"}
    return method, path.count("/"), "/".join(each for each in words if each in known)


def test_every_call_that_acts_on_queues_and_exchanges_is_tried() -> None:
    doing = {
        (route.method, route.path)
        for module in (queues, exchanges, bindings, messages)
        for route in module.ROUTES
        if route.method != "GET" and route.rule.who is not Who.ADMINISTRATOR
    }
    assert {shape(route) for route in doing} == {shape((c.method, c.path)) for c in CASES}


async def set_up(call: Caller) -> None:
    """What the calls act on, restored before each."""
    await call("DELETE", "queues/%2F/new")
    await call("DELETE", "exchanges/%2F/new")
    await call.does("PUT", "queues/%2F/q", {})
    for name, kind in (("x", "direct"), ("y", "direct"), ("t", "topic")):
        await call.does("PUT", f"exchanges/%2F/{name}", {"type": kind})
    for source in "xt":
        for destination in ("q/q", "e/y"):
            await call.does("POST", f"bindings/%2F/e/{source}/{destination}", KEY)


async def test_a_user_without_that_right_is_refused_and_a_user_with_it_is_not(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        for case in CASES:
            await set_up(call)
            lacking = dict(EVERYTHING)
            if not case.topic:
                lacking[case.right] = ALL_BUT.format(case.name)
            await call.does("PUT", f"permissions/%2F/{USER}", lacking)
            keys = {"exchange": "t", "write": ".*", "read": ".*"}
            if case.topic:
                keys[case.right] = "^z"
            await call.does("PUT", f"topic-permissions/%2F/{USER}", keys)
            refused = await call(case.method, case.url, case.body, user=USER)
            assert refused.status == 401, case
            what = "topic 'k' in exchange 't'" if case.topic else f"'{case.name}'"
            reason = refused.json["reason"]
            assert reason.startswith(("ACCESS_REFUSED - ", "Access refused.")), (case, reason)
            assert "ACCESS" not in reason or what in reason, (case, reason)
            await call.does("PUT", f"permissions/%2F/{USER}", EVERYTHING)
            keys |= {"write": ".*", "read": ".*"}
            await call.does("PUT", f"topic-permissions/%2F/{USER}", keys)
            await call.does(case.method, case.url, case.body, user=USER)
