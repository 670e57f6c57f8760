"""Parameters of federation on both brokers: which are taken, which are refused and why, and that
definitions carry them from RabbitMQ to Arneb. Arneb federates nothing."""

from typing import Any, Final

import pytest
from conformance.management.conftest import Managed

V: Final = "%2F"
NAME: Final = "federated"
UPSTREAM: Final = "federation-upstream"
UPSTREAM_SET: Final = "federation-upstream-set"
EVERY_KEY: Final[dict[str, Any]] = {
    "exchange": "x", "queue": "q", "consumer-tag": "t", "prefetch-count": -1,
    "reconnect-delay": 0.5, "max-hops": 2, "expires": 3, "message-ttl": 4, "trust-user-id": True,
    "ack-mode": "on-confirm", "resource-cleanup-mode": "never", "ha-policy": "all",
    "bind-nowait": False, "channel-use-mode": "single",
}  # fmt: skip
VALUES: Final[list[tuple[str, Any]]] = [
    (UPSTREAM, {"uri": "amqp://x", **EVERY_KEY}),
    (UPSTREAM, {"uri": ["amqp://x", "amqps://y/v"]}),
    (UPSTREAM, {"uri": []}),
    (UPSTREAM, {}),
    (UPSTREAM, []),
    (UPSTREAM, {"uri": 5}),
    (UPSTREAM, {"uri": ["amqp://x", 5]}),
    (UPSTREAM, {"uri": "amqp://x", "colour": "blue"}),
    *((UPSTREAM, {"uri": "amqp://x", name: 7 if isinstance(value, str) else "seven"})
      for name, value in EVERY_KEY.items()),
    (UPSTREAM_SET, []),
    (UPSTREAM_SET, {}),
    (UPSTREAM_SET, [{"upstream": "one", **EVERY_KEY}, {"upstream": "two"}]),
    (UPSTREAM_SET, [{}]),
    (UPSTREAM_SET, [{"upstream": 1}]),
    (UPSTREAM_SET, [{"upstream": "one"}, {"upstream": "two", "expires": "soon"}]),
    (UPSTREAM_SET, [{"upstream": "one", "uri": "amqp://x"}]),
    ("federation", {}),
]  # fmt: skip


def kept(broker: Managed, component: str, value: Any) -> tuple[int, Any, Any]:
    """Set a parameter; the result is the status, the reason of a refusal, and what is kept."""
    path = f"parameters/{component}/{V}/{NAME}"
    broker.api.call("DELETE", path)
    answer = broker.api.call("PUT", path, {"value": value})
    shown = broker.api.call("GET", path)
    broker.api.call("DELETE", path)
    reason = answer.json["reason"] if answer.status == 400 else None
    return answer.status, reason, shown.json["value"] if shown.status == 200 else None


@pytest.mark.parametrize(("component", "value"), VALUES)
def test_parameters_of_federation(
    pair: tuple[Managed, Managed], component: str, value: Any
) -> None:
    ours, theirs = (kept(broker, component, value) for broker in pair)
    if component == "federation":  # RabbitMQ has registered this name for the plugin's own use
        assert ours[0] == theirs[0] == 400
    else:
        assert ours == theirs


def test_a_uri_must_be_one_of_a_broker(pair: tuple[Managed, Managed]) -> None:
    for broker in pair:
        status, reason, _ = kept(broker, UPSTREAM, {"uri": "http://x"})
        assert status == 400
        assert "not a valid URI" in reason


def test_definitions_carry_a_set_of_upstreams(pair: tuple[Managed, Managed]) -> None:
    ours, theirs = pair
    path = f"parameters/{UPSTREAM_SET}/{V}/{NAME}"
    members = [{"upstream": "one", "max-hops": 2}, {"upstream": "two"}]
    assert theirs.api.call("PUT", path, {"value": members}).status == 201
    exported = theirs.api.call("GET", "definitions").json
    taken = {"parameters": [each for each in exported["parameters"] if each["name"] == NAME]}
    assert ours.api.call("POST", "definitions", taken).status == 204
    assert ours.api.call("GET", path).json["value"] == members
    for broker in pair:
        assert broker.api.call("DELETE", path).status == 204
