"""Bodies of calls that set policies: of another kind, empty, or null, as Jackson takes them."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import NULL, Admin
from tests.pulsar_frontend.conftest import OpenBroker

ROOT = "/admin/v2/namespaces/public/default/"
TABLE = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("messageTTL", {}, 400),
        ("messageTTL", "x", 400),
        ("messageTTL", True, 400),
        ("messageTTL", -1, 412),
        ("deduplication", [], 400),
        ("maxProducersPerTopic", "x", 400),
        ("maxProducersPerTopic", -1, 412),
        ("inactiveTopicPolicies", 1, 400),
        ("autoTopicCreation", [], 400),
        ("autoTopicCreation", {"allowAutoTopicCreation": True}, 412),
        ("autoSubscriptionCreation", 1, 400),
        ("retention", TABLE | {"retentionSizeInMB": 0}, 400),
    ],
)
async def test_another_kind_is_malformed_and_another_value_invalid(
    open_broker: OpenBroker, path: str, body: Any, status: int
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("POST", ROOT + path, body))[0] == status
        assert await admin("GET", ROOT + path) == (200, b"")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("retention", TABLE),
        ("publishRate", {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": 1}),
        ("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}),
        ("delayedDelivery", {"active": True, "tickTime": 1, "maxDeliveryDelayInMillis": 0}),
    ],
)
async def test_null_and_nothing_take_a_document_back(
    open_broker: OpenBroker, path: str, value: Any
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        for body in (None, NULL):
            assert (await admin("POST", ROOT + path, value))[0] == 204
            assert await admin("GET", ROOT + path) == (200, value)
            assert (await admin("POST", ROOT + path, body))[0] == 204
            assert await admin("GET", ROOT + path) == (200, b"")


async def test_null_is_0_and_nothing_is_refused_where_a_number_is_set(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("POST", ROOT + "messageTTL", 5))[0] == 204
        assert (await admin("POST", ROOT + "messageTTL"))[0] == 400
        assert await admin("GET", ROOT + "messageTTL") == (200, 5)
        assert (await admin("POST", ROOT + "messageTTL", NULL))[0] == 204
        assert await admin("GET", ROOT + "messageTTL") == (200, 0)


async def test_policies_are_those_of_the_whole_topic(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t/partitions", 2)
        for method in ("GET", "POST", "DELETE"):
            for part in ("t-partition-0", "t-partition-7"):
                status, answer = await admin(method, f"/{part}/retention", TABLE)
                assert (status, "for a partition" in answer["reason"]) == (412, True)
        assert await admin("GET", "/t/retention") == (200, b"")
