"""Policies that the core keeps: set, asked for and taken back, how long messages live and stay."""

from functools import partial
from typing import Any

import pytest
import trio
from tests.counting import calls_of
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import connected

from arneb_core.api.topics.topic import Topic

pytestmark = pytest.mark.real_time


NAMESPACE = "/admin/v2/namespaces/public/default"


def topic_of(running: Running, local: str = "t") -> Topic:
    return running.core.topics[f"persistent://public/default/{local}"]


async def test_policies_are_set_asked_for_and_taken_back(open_broker: OpenBroker) -> None:
    values: dict[str, tuple[str, Any]] = {
        "retention": ("POST", {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}),
        "messageTTL": ("POST", 30),
        "compactionThreshold": ("PUT", 100),
        "deduplication": ("POST", True),
        "schemaCompatibilityStrategy": ("PUT", "FORWARD"),
        "autoSubscriptionCreation": ("POST", {"allowAutoSubscriptionCreation": False}),
        "autoTopicCreation": (
            "POST",
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2},
        ),
        "inactiveTopicPolicies": (
            "POST",
            {
                "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
                "maxInactiveDurationSeconds": 5,
                "deleteWhileInactive": True,
            },
        ),
        "publishRate": (
            "POST",
            {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1},
        ),
        "properties": ("PUT", {"a": "b"}),
    }
    async with open_broker() as running:
        admin = Admin(running)
        for name, (method, value) in values.items():
            assert await admin(method, f"{NAMESPACE}/{name}", value) == (204, b"")
            status, document = await admin(method, f"{NAMESPACE}/{name}", ["wrong"])
            assert (status, bool(document["reason"])) == (400, True)
    async with open_broker() as running:
        admin = Admin(running)
        for name, (_, value) in values.items():
            assert await admin("GET", f"{NAMESPACE}/{name}") == (200, value)
            assert (await admin("DELETE", f"{NAMESPACE}/{name}"))[0] == 204
        assert await admin("GET", f"{NAMESPACE}/retention") == (200, b"")
        assert await admin("GET", f"{NAMESPACE}/schemaCompatibilityStrategy") == (200, "UNDEFINED")
        assert (await admin("GET", "/t/retention"))[0] == 404
        await admin("PUT", "/t")
        await admin("POST", f"{NAMESPACE}/messageTTL", 30)
        assert await admin("GET", "/t/messageTTL") == (200, b"")
        assert await admin("GET", "/t/messageTTL", applied="true") == (200, 30)
        assert (await admin("POST", "/t/messageTTL", messageTTL="7"))[0] == 204
        assert await admin("GET", "/t/messageTTL", applied="true") == (200, 7)


async def test_permissions_are_kept_by_role(open_broker: OpenBroker) -> None:
    """Those of a namespace are shown with its topics, and those of a topic with it alone."""
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        for place in ("/t", NAMESPACE):
            assert await admin("GET", f"{place}/permissions") == (200, {})
            made = await admin("POST", f"{place}/permissions/anonymous", ["produce", "consume"])
            assert made == (204, b"")
            assert (await admin("POST", f"{place}/permissions/b", ["consume"]))[0] == 204
            assert (await admin("POST", f"{place}/permissions/b", ["fly"]))[0] == 400
            assert (await admin("POST", f"{place}/permissions/b", "consume"))[0] == 400
            assert (await admin("DELETE", f"{place}/permissions/b"))[0] == 204
    async with open_broker() as running:
        for place in (NAMESPACE, "/t"):
            found = await Admin(running)("GET", f"{place}/permissions")
            assert found == (200, {"anonymous": ["produce", "consume"]})
        await Admin(running)("POST", "/t/permissions/b", ["functions"])
        await Admin(running)("POST", f"{NAMESPACE}/permissions/b", ["consume"])
        found = await Admin(running)("GET", "/t/permissions")
        assert found[1]["b"] == ["consume", "functions"]
        assert (await Admin(running)("GET", f"{NAMESPACE}/permissions"))[1]["b"] == ["consume"]


async def test_messages_live_as_long_as_the_nearest_policy_says(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t/subscription/s")
        topic = topic_of(running)
        limits = lambda name: topic.subscriptions[name].machine.state.limits.message_ttl_ms  # type: ignore[attr-defined]  # noqa: E731
        assert limits("s") is None
        await admin("POST", f"{NAMESPACE}/messageTTL", 9)
        assert limits("s") == 9000
        await admin("POST", "/t/messageTTL", 5)
        assert limits("s") == 5000
        await client.subscribe("t", subscription="late")
        assert limits("late") == 5000
        await topic.subscribe("amqp")
        await admin("POST", "/t/messageTTL", 6)
        assert limits("amqp") is None
    async with open_broker() as running:
        topic = topic_of(running)
        assert limits("s") == 6000
        admin = Admin(running)
        await admin("DELETE", "/t/messageTTL")
        assert limits("s") == 9000
        await admin("DELETE", f"{NAMESPACE}/messageTTL")
        assert limits("s") is None


async def test_retention_is_kept_by_the_core(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        value = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5}
        await admin("POST", f"{NAMESPACE}/retention", value)
        await admin("PUT", "/later")
        await admin("POST", "/t/retention", value | {"retentionSizeInMB": -1})
    async with open_broker() as running:
        later, topic = topic_of(running, "later"), topic_of(running)
        assert (later.retention.ms, later.retention.bytes) == (600_000, 5 << 20)  # type: ignore[attr-defined]
        assert (topic.retention.ms, topic.retention.bytes) == (600_000, -1)  # type: ignore[attr-defined]
        await Admin(running)("DELETE", "/t/retention")
        assert topic.retention.bytes == 5 << 20  # type: ignore[attr-defined]


async def test_policies_set_at_the_same_time_are_all_set(open_broker: OpenBroker) -> None:
    async with open_broker() as running, trio.open_nursery() as nursery:
        admin = Admin(running)
        await admin("PUT", "/t")
        calls = [
            ("/t/messageTTL", 5),
            ("/t/compactionThreshold", 6),
            ("/t/deduplicationEnabled", False),
            (f"{NAMESPACE}/messageTTL", 7),
            (f"{NAMESPACE}/deduplication", False),
        ]
        done: list[int] = []

        async def call(path: str, value: object) -> None:
            done.append((await admin("POST", path, value))[0])

        for path, value in calls:
            nursery.start_soon(call, path, value)
        nursery.start_soon(call, "/t/terminate", None)
        while len(done) < 6:
            await trio.lowlevel.checkpoint()
        for path, value in calls:
            assert await admin("GET", path) == (200, value)
        assert topic_of(running).id in running.context.namespaces.ended
        assert running.context.namespaces.record("persistent://public/default/t").terminated


async def test_another_subscription_costs_the_same_however_many_there_are(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        counts, policies = [], running.context.topic_policies
        for local, subscriptions in (("few", 2), ("many", 200)):
            await Admin(running)("PUT", f"/{local}")
            topic = topic_of(running, local)
            made = [await topic.subscribe(f"s-{number}") for number in range(subscriptions)]
            counts.append(calls_of(partial(policies.apply, topic, made[-1])))
        assert counts[0] == counts[1]
