"""Policies over HTTP: what RabbitMQ would refuse is refused."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.http.management.kit import managed

V = "v%2Fm"
BODY: dict[str, Any] = {"pattern": ".*", "definition": {"max-length": 5}}


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
@pytest.mark.parametrize("priority", [-3, 10, 1.5, 1 << 70])
async def test_a_priority_is_any_number(tmp_path: Path, kind: str, priority: float) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", f"{kind}/{V}/p", {**BODY, "priority": priority})
        assert (await call.does("GET", f"{kind}/{V}/p"))["priority"] == priority
    async with managed(tmp_path) as call:
        assert (await call.does("GET", f"{kind}/{V}/p"))["priority"] == priority


@pytest.mark.parametrize("priority", ["1", "1.5", "x", None, True, []])
async def test_what_is_no_number_is_no_priority(tmp_path: Path, priority: Any) -> None:
    body = {**BODY, "priority": priority}
    imported = {"policies": [{**body, "name": "p"}]}
    async with managed(tmp_path) as call:
        for answered in (
            await call("PUT", f"policies/{V}/p", body),
            await call("POST", f"definitions/{V}", imported),
        ):
            assert answered.status == 400
            assert "priority should be a number" in answered.json["reason"]
        assert await call.does("GET", "policies") == []


MIRRORED: dict[str, Any] = {"ha-mode": "exactly", "ha-params": 2}


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
@pytest.mark.parametrize(
    "definition",
    [
        {"ha-mode": "all"},
        {"ha-mode": "all", "ha-sync-mode": "automatic"},
        MIRRORED,
        {"ha-mode": "nodes", "ha-params": ["rabbit@a", "rabbit@b"], "ha-sync-mode": "manual"},
    ],
)
async def test_mirrors_are_taken_as_rabbitmq_takes_them(
    tmp_path: Path, kind: str, definition: dict[str, Any]
) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", f"{kind}/{V}/p", {**BODY, "definition": definition})
        assert (await call.does("GET", f"{kind}/{V}/p"))["definition"] == definition


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"ha-mode": "nonsense"}, "&lt;&lt;\"nonsense\"&gt;&gt; is not a valid ha-mode value"),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
        ({"ha-mode": "exactly", "ha-params": True}, "takes an integer, true given"),
        ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
        ({"ha-mode": "nodes", "ha-params": ["a", 1]}, "takes a list of strings, [1] was not"),
        ({"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        ({"ha-params": 2}, "ha-mode must be specified to specify ha-params"),
        ({"ha-promote-on-shutdown": "always"}, "ha-mode must be specified"),
        ({**MIRRORED, "ha-sync-mode": "x"}, 'ha-sync-mode must be "manual" or "automatic"'),
        ({**MIRRORED, "ha-sync-batch-size": 0}, "takes an integer greater than 0, 0 given"),
        ({**MIRRORED, "ha-promote-on-shutdown": 1}, "ha-promote-on-shutdown must be"),
        ({**MIRRORED, "ha-promote-on-failure": "x"}, "ha-promote-on-failure must be"),
        ({"queue-master-locator": "x"}, "is not a valid queue-master-locator value"),
        ({"federation-upstream-pattern": "("}, "could not compile pattern"),
        (
            {"federation-upstream": "a", "federation-upstream-set": "b"},
            "cannot specify federation-upstream, federation-upstream-set or",
        ),
    ],
)  # fmt: skip
async def test_mirrors_and_upstreams_are_refused_as_rabbitmq_refuses_them(
    tmp_path: Path, definition: dict[str, Any], reason: str
) -> None:
    body = {**BODY, "definition": definition}
    async with managed(tmp_path) as call:
        for answered in (
            await call("PUT", f"policies/{V}/p", body),
            await call("POST", f"definitions/{V}", {"policies": [{**body, "name": "p"}]}),
        ):
            assert answered.status == 400
            assert reason in answered.json["reason"]
        assert await call.does("GET", "policies") == []
