"""Parameters of federation, which are checked and kept though nothing is federated."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.http.management.kit import managed

from arneb.http.management.parameters.federation import (
    SHARED,
    UPSTREAM,
    UPSTREAM_SET,
    federation_in,
)
from arneb.http.management.requests.calls import Refused

V = "v%2Fm"
EVERY_KEY: dict[str, Any] = {
    "exchange": "x", "queue": "q", "consumer-tag": "t", "prefetch-count": 1, "reconnect-delay": 0.5,
    "max-hops": 2, "expires": 3, "message-ttl": 4, "trust-user-id": True, "ack-mode": "on-confirm",
    "queue-type": "quorum", "resource-cleanup-mode": "never", "ha-policy": "all",
    "bind-nowait": False, "channel-use-mode": "multiple",
}  # fmt: skip


async def test_a_set_of_upstreams_is_kept_shown_and_imported(tmp_path: Path) -> None:
    members = [{"upstream": "one", "exchange": "x"}, {"upstream": "two"}]
    async with managed(tmp_path) as call:
        path = f"parameters/federation-upstream-set/{V}/both"
        await call.does("PUT", path, {"value": members})
        assert (await call.does("GET", path))["value"] == members
        exported = await call.does("GET", "definitions")
        await call.does("DELETE", path)
        await call.does("POST", "definitions", exported)
        assert (await call.does("GET", path))["value"] == members


async def test_an_upstream_without_a_uri_is_refused_and_not_kept(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        path = f"parameters/federation-upstream/{V}/u"
        answer = await call("PUT", path, {"value": {}})
        assert answer.status == 400
        assert answer.json["reason"] == 'Validation failed\n\nKey "uri" not found in u\n'
        assert (await call("GET", path)).status == 404


@pytest.mark.parametrize(
    ("component", "value"),
    [
        (UPSTREAM, {"uri": "amqp://x", **EVERY_KEY}),
        (UPSTREAM, {"uri": ["amqp://x", "amqps://y/v"]}),
        (UPSTREAM_SET, [{"upstream": "u", **EVERY_KEY}, {"upstream": "v"}]),
        (UPSTREAM_SET, []),
    ],
)
def test_every_key_is_kept_as_given(component: str, value: Any) -> None:
    assert EVERY_KEY.keys() == SHARED.keys()
    assert federation_in(component, "n", value) == value


@pytest.mark.parametrize(
    ("component", "value", "reason"),
    [
        (UPSTREAM, {"uri": 5}, "uri should be list, actually was 5"),
        (UPSTREAM, {"uri": ["amqp://x", 5]}, "uri should be list, actually was 5"),
        (UPSTREAM, {"uri": "http://x"}, "uri is not a valid URI: "),
        (UPSTREAM, {"uri": "amqp://x", "colour": 1}, 'terms [{&lt;&lt;"colour"&gt;&gt;,1}] in n'),
        (UPSTREAM, {"uri": "amqp://x", "upstream": "u"}, "Unrecognised terms"),
        (UPSTREAM, None, "n not a list null"),
        (UPSTREAM_SET, {"upstream": "u"}, "n should be list"),
        (UPSTREAM_SET, ["u"], "n not a list"),
        (UPSTREAM_SET, [{"upstream": "u"}, {}], 'Key "upstream" not found in n'),
        (UPSTREAM_SET, [{"upstream": "u", "uri": "amqp://x"}], "Unrecognised terms"),
        *(
            (UPSTREAM, {"uri": "amqp://x", name: value}, f"{name} should be ")
            for name, given in EVERY_KEY.items()
            for value in ("?" if not isinstance(given, str) or "-mode" in name else 5, None)
        ),
    ],
)
def test_what_rabbitmq_refuses_is_refused(component: str, value: Any, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        federation_in(component, "n", value)
    assert reason in str(refused.value.reason)
