"""Clusters and brokers: one of each, and what tools ask about them."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker

ROOT = "/admin/v2/"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("configuration/values", {}), ("ready", b"ok"), ("health", b"ok")],
)
async def test_what_could_be_changed(open_broker: OpenBroker, path: str, expected: Any) -> None:
    async with open_broker() as running:
        assert await Admin(running)("GET", f"{ROOT}brokers/{path}") == (200, expected)


async def test_settings_are_told_by_their_names_in_pulsar(open_broker: OpenBroker) -> None:
    async with open_broker(message_bytes_max=2048, deduplication=True) as running:
        admin = Admin(running)
        status, found = await admin("GET", f"{ROOT}brokers/configuration/runtime")
        assert status == 200
        assert all(isinstance(value, str) for value in found.values())
        assert found["maxMessageSize"] == "2048"
        assert found["brokerDeduplicationEnabled"] == "true"
        status, found = await admin("GET", f"{ROOT}brokers/internal-configuration")
        assert (status, found["metadataStoreUrl"]) == (200, "")
