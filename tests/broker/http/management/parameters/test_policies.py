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
