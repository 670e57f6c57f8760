"""Properties of topics: given when they are made, added to, and taken back by name."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/t", {"k": "v"}),
        ("/t/partitions", {"partitions": "2", "properties": {"k": "v"}}),
    ],
)
async def test_what_a_topic_is_made_with_is_kept(
    open_broker: OpenBroker, path: str, body: dict[str, Any]
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", path, body))[0] == 204
        assert await admin("GET", "/t/properties") == (200, {"k": "v"})
        assert (await admin("PUT", "/t/properties", {"more": "w"}))[0] == 204
        assert await admin("GET", "/t/properties") == (200, {"k": "v", "more": "w"})
        assert (await admin("DELETE", "/t/properties", key="k"))[0] == 204
        assert await admin("GET", "/t/properties") == (200, {"more": "w"})
        assert (await admin("DELETE", "/t/properties"))[0] == 204
        assert (await admin("GET", "/t/properties"))[1] in ({}, b"")


async def test_numbers_are_text_as_they_are_written(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", "/t", {"k": 1, "l": True, "m": "w"}))[0] == 204
        assert await admin("GET", "/t/properties") == (200, {"k": "1", "l": "true", "m": "w"})


async def test_partitions_and_properties_are_kept_together(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t/partitions", {"partitions": 1, "properties": {"k": "v"}})
        assert (await admin("POST", "/t/partitions", 3))[0] == 204
        expected = {"partitions": 3, "deleted": False, "properties": {"k": "v"}}
        assert await admin("GET", "/t/partitions") == (200, expected)


@pytest.mark.parametrize("body", [3, [], {"k": []}, {"k": None}])
async def test_what_is_no_text_by_name_is_refused(open_broker: OpenBroker, body: Any) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", "/t", body))[0] == 400
        assert not running.core.topics
        await admin("PUT", "/t")
        assert (await admin("PUT", "/t/properties", body))[0] == 400
        assert (await admin("GET", "/gone/properties"))[0] == 404


async def test_properties_of_a_namespace_are_added_to(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        path = "/admin/v2/namespaces/public/default/properties"
        assert (await admin("PUT", path, {"a": "1"}))[0] == 204
        assert (await admin("PUT", path, {"b": "2"}))[0] == 204
        assert await admin("GET", path) == (200, {"a": "1", "b": "2"})
