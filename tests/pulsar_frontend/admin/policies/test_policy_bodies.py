"""Bodies of calls that set policies: of another kind, empty, or null, as Jackson takes them."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import NULL, Admin
from tests.pulsar_frontend.conftest import OpenBroker

ROOT = "/admin/v2/namespaces/public/default/"
RATE = {"subscribeThrottlingRatePerConsumer": -1}
NO_RATE = {
    "dispatchThrottlingRateInMsg": 0,
    "dispatchThrottlingRateInByte": 0,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 0,
}
PLACES = {
    "bookkeeperEnsemble": 2,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 0.0,
}
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


@pytest.mark.parametrize(
    ("method", "path", "body", "shown"),
    [
        ("PUT", "schemaCompatibilityStrategy", 4, "FORWARD"),
        ("PUT", "schemaCompatibilityStrategy", "1", "ALWAYS_INCOMPATIBLE"),
        ("PUT", "schemaAutoUpdateCompatibilityStrategy", 1, "Backward"),
        ("POST", "subscriptionTypesEnabled", [1, "Exclusive", 1], ["Exclusive", "Shared"]),
        ("POST", "subscriptionAuthMode", 1, "Prefix"),
        ("POST", "autoSubscriptionCreation", True, {"allowAutoSubscriptionCreation": True}),
        ("POST", "messageTTL", "", 0),
        ("POST", "subscribeRate", {"ratePeriodInSecond": None}, RATE | {"ratePeriodInSecond": 0}),
        ("POST", "persistence", {}, PLACES),
        ("POST", "persistence", PLACES | {"managedLedgerMaxMarkDeleteRate": "7"}, None),
        ("POST", "dispatchRate", {"relativeToPublishRate": ""}, NO_RATE),
    ],
)
async def test_numbers_stand_for_names_and_what_is_left_out_is_nothing(
    open_broker: OpenBroker, method: str, path: str, body: Any, shown: Any
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin(method, ROOT + path, body))[0] == 204
        _, found = await admin("GET", ROOT + path)
        assert found == (
            PLACES | {"managedLedgerMaxMarkDeleteRate": 7.0} if shown is None else shown
        )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("schemaCompatibilityStrategy", 9),
        ("schemaCompatibilityStrategy", True),
        ("inactiveTopicPolicies", {"inactiveTopicDeleteMode": "never"}),
        ("dispatchRate", {"ratePeriodInSecond": 1 << 31}),
        ("persistence", PLACES | {"managedLedgerMaxMarkDeleteRate": "NaN"}),
        ("persistence", PLACES | {"managedLedgerMaxMarkDeleteRate": "1e999"}),
        ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": []}),
    ],
)
async def test_what_has_no_such_value_is_refused(
    open_broker: OpenBroker, path: str, body: Any
) -> None:
    method = "PUT" if path.startswith("schema") else "POST"
    async with open_broker() as running:
        assert (await Admin(running)(method, ROOT + path, body))[0] == 400


async def test_a_number_of_partitions_is_a_number(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        for body, status in (([], 400), ({}, 400), ("x", 400), (True, 400), (0, 406), (NULL, 406)):
            assert (await admin("PUT", "/t/partitions", body))[0] == status
        assert (await admin("PUT", "/t/partitions", "2"))[0] == 204
        for body, status in ((NULL, 422), (1, 422), ({}, 400), (3, 204)):
            assert (await admin("POST", "/t/partitions", body))[0] == status


async def test_a_place_is_a_place_though_its_fields_are_nothing(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t", {})
        for body in (NULL, {"ledgerId": None}, {"ledgerId": "", "entryId": "7"}):
            assert (await admin("PUT", "/t/subscription/s", body))[0] == 204
            assert (await admin("DELETE", "/t/subscription/s"))[0] == 204
        for index in ("x", True, [], 1 << 31):
            body = {"ledgerId": 0, "partitionIndex": index}
            assert (await admin("PUT", "/t/subscription/s", body))[0] == 400


@pytest.mark.parametrize("nothing", [None, NULL, ""])
@pytest.mark.parametrize(
    ("method", "path", "value"),
    [
        ("PUT", "/t/schemaCompatibilityStrategy", "FORWARD"),
        ("POST", "/t/deduplicationEnabled", True),
        ("POST", "/t/deduplicationSnapshotInterval", 5),
        ("POST", "/t/maxUnackedMessagesOnConsumer", 5),
    ],
)
async def test_a_value_is_taken_back_by_nothing(
    open_broker: OpenBroker, method: str, path: str, value: Any, nothing: Any
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t", {})
        assert (await admin(method, path, value))[0] == 204
        assert await admin("GET", path) == (200, value)
        assert (await admin(method, path, nothing))[0] == 204
        assert (await admin("GET", path))[1] == b""


@pytest.mark.parametrize("nothing", [None, NULL])
async def test_no_body_is_null(open_broker: OpenBroker, nothing: Any) -> None:
    """Which takes back a quota, changes no rate of a subscription, and no property of a topic."""
    quota = {"limitSize": 1, "policy": "producer_exception"}
    rate = {"dispatchThrottlingRateInMsg": 10}
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t", {"k": "v"})
        await admin("PUT", "/t/subscription/s")
        await admin("POST", "/t/backlogQuota", quota)
        await admin("POST", "/t/s/dispatchRate", rate)
        await admin("PUT", "/t/subscription/s/properties", {"k": "v"})
        for method, path in (
            ("POST", "/t/backlogQuota"),
            ("POST", "/t/s/dispatchRate"),
            ("PUT", "/t/properties"),
            ("PUT", "/t/subscription/s/properties"),
        ):
            assert await admin(method, path, nothing) == (204, b"")
        assert (await admin("POST", "/t/subscription/s/analyzeBacklog", nothing))[0] == 200
        assert await admin("GET", "/t/backlogQuotaMap") == (200, {})
        assert (await admin("GET", "/t/s/dispatchRate"))[1]["dispatchThrottlingRateInMsg"] == 10
        assert await admin("GET", "/t/properties") == (200, {"k": "v"})
        assert await admin("GET", "/t/subscription/s/properties") == (200, {})
        assert (await admin("POST", ROOT + "backlogQuota", nothing))[0] == 400
        await admin("POST", ROOT + "subscriptionAuthMode", "Prefix")
        assert await admin("POST", ROOT + "subscriptionAuthMode", nothing) == (204, b"")
        assert await admin("GET", ROOT + "subscriptionAuthMode") == (200, "None")
