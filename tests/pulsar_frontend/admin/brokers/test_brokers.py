"""Brokers and clusters: settings that change while one runs, and what is refused with a reason."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.namespaces.defaults import DefaultPolicies
from arneb_pulsar.services.namespaces.dynamic_settings import CHANGES
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

SETTINGS = "/admin/v2/brokers/configuration"


async def test_a_setting_holds_at_once_and_after_a_restart_and_no_longer_than_it_is_set(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        assert await admin("GET", SETTINGS) == (200, sorted(CHANGES))
        assert await admin("POST", f"{SETTINGS}/allowAutoTopicCreation/false") == (204, b"")
        assert isinstance(await client.producer("t", 1), pb.CommandError)
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        assert isinstance(await client.producer("t", 1), pb.CommandError)
        assert await admin("GET", f"{SETTINGS}/values") == (
            200,
            {"allowAutoTopicCreation": "false"},
        )
        runtime = (await admin("GET", f"{SETTINGS}/runtime"))[1]
        assert runtime["allowAutoTopicCreation"] == "false"
        assert await admin("DELETE", f"{SETTINGS}/allowAutoTopicCreation") == (204, b"")
        assert isinstance(await client.producer("t", 2), pb.CommandProducerSuccess)
        assert await admin("GET", f"{SETTINGS}/values") == (200, {})


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("allowAutoTopicCreation", "false", "x"),
        ("allowAutoTopicCreationType", "partitioned", "x"),
        ("defaultNumPartitions", "3", "0"),
        ("allowAutoSubscriptionCreation", "false", ""),
        ("brokerDeleteInactiveTopicsEnabled", "false", "2"),
        ("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", "5", "0"),
        ("maxTopicsPerNamespace", "4", "-1"),
        ("maxPublishRatePerTopicInMessages", "5", "x"),
        ("maxPublishRatePerTopicInBytes", "5", "x"),
        ("dispatchThrottlingRatePerTopicInMsg", "5", "x"),
        ("dispatchThrottlingRatePerTopicInByte", "5", "x"),
        ("dispatchThrottlingRatePerSubscriptionInMsg", "5", "x"),
        ("dispatchThrottlingRatePerSubscriptionInByte", "5", "x"),
        ("subscribeThrottlingRatePerConsumer", "5", "x"),
        ("subscribeRatePeriodPerConsumerInSecond", "5", "0"),
        ("brokerDeleteInactiveTopicsMode", "delete_when_subscriptions_caught_up", "never"),
        ("isAllowAutoUpdateSchemaEnabled", "false", "x"),
        ("subscriptionTypesEnabled", "Shared,Failover", "Nope"),
    ],
)
async def test_every_setting_has_values_that_it_can_have(
    open_broker: OpenBroker, name: str, good: str, bad: str
) -> None:
    async with open_broker() as running:
        admin, registry = Admin(running), running.context.namespaces
        before = registry.defaults
        if bad:
            assert (await admin("POST", f"{SETTINGS}/{name}/{bad}"))[0] == 412
        assert registry.defaults == before
        assert (await admin("POST", f"{SETTINGS}/{name}/{good}"))[0] == 204
        # How many partitions is said of those that have any.
        assert (registry.defaults != before) is (name != "defaultNumPartitions")
        assert (await admin("DELETE", f"{SETTINGS}/{name}"))[0] == 204
        assert registry.defaults == before


async def test_other_settings_are_in_the_file(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("POST", f"{SETTINGS}/keepAliveIntervalSeconds/7"))[0] == 412
        assert (await admin("DELETE", f"{SETTINGS}/nope"))[0] == 412


async def test_clusters_are_written_down_and_nothing_is_replicated(
    open_broker: OpenBroker,
) -> None:
    urls = {"serviceUrl": "http://x:8080", "brokerServiceUrl": "pulsar://x:6650"}
    there, here = "/admin/v2/clusters/there", "/admin/v2/clusters/standalone"
    replication = "/admin/v2/namespaces/public/default/replication"
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("POST", replication, ["there"]))[0] == 403
        assert (await admin("PUT", there, urls))[0] == 200
        assert (await admin("PUT", there, urls))[0] == 409
        assert (await admin("PUT", here, urls))[0] == 409
        assert (await admin("PUT", "/admin/v2/clusters/a b", urls))[0] == 412
        assert (await admin("PUT", "/admin/v2/clusters/bad", {"serviceUrl": 1}))[0] == 400
    async with open_broker() as running:
        admin = Admin(running)
        assert await admin("GET", "/admin/v2/clusters") == (200, ["standalone", "there"])
        shown = (await admin("GET", there))[1]
        assert {name: shown[name] for name in urls} == urls
        assert (await admin("POST", there, {"serviceUrl": "http://y:8080"}))[0] == 200
        assert (await admin("GET", there))[1]["serviceUrl"] == "http://y:8080"
        assert await admin("GET", replication) == (200, ["standalone"])
        assert (await admin("POST", replication, ["standalone"]))[0] == 200
        status, reason = await admin("POST", replication, ["standalone", "there"])
        assert (status, "alone" in reason["reason"]) == (501, True)
        await admin("PUT", "/t")
        assert await admin("GET", "/t/replication") == (200, b"")
        assert (await admin("POST", "/t/replication", ["standalone"]))[0] == 204
        assert (await admin("POST", "/t/replication", ["there"]))[0] == 412
        assert (await admin("POST", "/nothing/replication", ["standalone"]))[0] == 404
        assert (await admin("DELETE", there))[0] == 204
        assert (await admin("DELETE", there))[0] == 404
        assert (await admin("DELETE", here))[0] == 412
    async with open_broker() as running:
        admin = Admin(running)
        assert await admin("GET", "/t/replication") == (200, ["standalone"])
        assert (await admin("DELETE", "/t/replication"))[0] == 204
        assert await admin("GET", "/t/replication") == (200, b"")
        assert await admin("GET", "/t/replication", applied="true") == (200, ["standalone"])


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/admin/v3/functions/public/default/f", "docs/guide/spark.md"),
        ("/admin/v3/sinks/builtinsinks", "docs/guide/spark.md"),
        ("/admin/v3/sources/public/default", "docs/guide/spark.md"),
        ("/admin/v3/packages/function/public/default", "docs/guide/spark.md"),
        ("/admin/v2/worker/cluster", "docs/guide/spark.md"),
        ("/admin/v2/resource-quotas", "one broker"),
        ("/admin/v2/namespaces/public/default/offloadPolicies", "docs/guide/lake.md"),
        ("/admin/v2/persistent/public/default/t/offload", "docs/guide/lake.md"),
        ("/admin/v2/persistent/public/default/t/shadowTopics", "Geo-replication"),
        ("/admin/v2/namespaces/public/default/replicatorDispatchRate", "Geo-replication"),
        ("/admin/v2/clusters/standalone/failureDomains", "one broker"),
        ("/admin/v2/broker-stats/mbeans", "Java"),
    ],
)
async def test_what_is_not_done_here_is_refused_with_a_reason(
    open_broker: OpenBroker, path: str, words: str
) -> None:
    async with open_broker() as running:
        for method in ("POST", "PUT", "DELETE"):
            status, answer = await Admin(running)(method, path, {})
            assert (status, words in answer["reason"]) == (501, True)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("replicatorDispatchRate", (200, b"")),
        ("antiAffinity", (204, b"")),
        ("persistence/bookieAffinity", (204, b"")),
        ("offloadPolicies", (200, b"")),
        ("offloadThreshold", (200, -1)),
        ("offloadThresholdInSeconds", (200, -1)),
        ("offloadDeletionLagMs", (200, b"")),
        ("entryFilters", (200, b"")),
        ("t/offloadPolicies", (200, b"")),
        ("t/replicatorDispatchRate", (200, b"")),
        ("t/entryFilters", (200, b"")),
        ("t/shadowTopics", (200, b"")),
        ("t/entryFilters?applied", (200, {"entryFilterNames": ""})),
    ],
)
async def test_what_cannot_be_set_here_is_not_set(
    open_broker: OpenBroker, path: str, answer: tuple[int, Any]
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        of_topic = path.startswith("t/")
        root = "" if of_topic else "/admin/v2/namespaces/public/default"
        path, _, applied = path.partition("?")
        query = {applied: "true"} if applied else {}
        assert await admin("GET", f"{root}/{path}", **query) == answer
        gone = f"/gone{path.removeprefix('t')}" if of_topic else f"{root}x/{path}"
        assert (await admin("GET", gone))[0] == 404


async def test_no_subscription_is_replicated(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        await admin("PUT", "/p/partitions", 2)
        for topic, names in (("t", ["t"]), ("p", ["p-partition-0", "p-partition-1"])):
            path = f"/{topic}/subscription/s"
            asked = f"{path}/replicatedSubscriptionStatus"
            status, answer = await admin("GET", asked)
            assert (status, "Subscription s not found" in answer["reason"]) == (404, True)
            assert (await admin("PUT", path, "latest"))[0] == 204
            expected = {f"persistent://public/default/{name}": False for name in names}
            assert await admin("GET", asked) == (200, expected)
        assert (await admin("GET", "/gone/subscription/s/replicatedSubscriptionStatus"))[0] == 404


async def test_other_paths_are_not_found(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        for path in ("/admin/v3/functionsx", "/admin/v2/offloadPolicies", "/lookup/v2/a/offload"):
            assert (await Admin(running)("GET", path))[0] == 404


async def test_the_whole_broker_is_summed(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.producer("t", 1)
        await client.subscribe("t")
        await admin("PUT", "/u")
        report = (await admin("GET", "/admin/v2/broker-stats/load-report"))[1]
        assert (report["numTopics"], report["numProducers"], report["numConsumers"]) == (2, 1, 1)
        shown = (await admin("GET", "/admin/v2/broker-stats/topics"))[1]["public/default"]
        names = {name for bundle in shown.values() for name in bundle["persistent"]}
        assert names == {f"persistent://public/default/{each}" for each in "tu"}
        first = (await admin("GET", "/admin/v2/broker-stats/metrics"))[1][0]
        assert first["dimensions"] == {"namespace": "public/default"}
        assert first["metrics"]["brk_no_of_consumers"] == 1
        owned = await admin("GET", "/admin/v2/brokers/standalone/here:8080/ownedNamespaces")
        assert set(owned[1]) == set(report["bundles"])
        assert (await admin("GET", "/admin/v2/brokers/standalone/x/ownedNamespaces"))[0] == 404
        assert (await admin("GET", "/admin/v2/brokers/backlog-quota-check"))[0] == 204


async def test_what_a_broker_is_set_to_is_shown_by_pulsars_names(open_broker: OpenBroker) -> None:
    defaults = DefaultPolicies(message_ttl_s=7, subscription_types=("Shared", "Failover"))
    async with open_broker(defaults=defaults, max_producers_per_topic=3) as running:
        shown = (await Admin(running)("GET", f"{SETTINGS}/runtime"))[1]
        expected = {
            "ttlDurationDefaultInSeconds": "7",
            "subscriptionTypesEnabled": "[Shared, Failover]",
            "maxProducersPerTopic": "3",
            "statsUpdateFrequencyInSecs": "60",
            "isSchemaValidationEnforced": "false",
            "maxMessageSize": str(5 * 1024 * 1024),
        }
        assert {name: shown[name] for name in expected} == expected


async def test_the_coordinators_namespace_is_there_to_be_looked_up(open_broker: OpenBroker) -> None:
    root, name = "/admin/v2/persistent/pulsar/system", "transaction_coordinator_assign"
    async with open_broker() as running:
        admin = Admin(running)
        assert "pulsar" in (await admin("GET", "/admin/v2/tenants"))[1]
        assert await admin("GET", "/admin/v2/namespaces/pulsar") == (200, ["pulsar/system"])
        assert (await admin("GET", "/admin/v2/namespaces/pulsar/system"))[0] == 200
        expected = (200, {"partitions": 1, "deleted": False})
        assert await admin("GET", f"{root}/{name}/partitions") == expected
        part = f"/lookup/v2/topic/persistent/pulsar/system/{name}-partition-0"
        assert (await admin("GET", part))[0] == 503, (
            "the path must exist, although no Pulsar client is served here"
        )
        assert await admin("GET", f"{root}/partitioned") == (200, [])
        assert await admin("GET", f"{root}/partitioned", includeSystemTopic="true") == (
            200,
            [f"persistent://pulsar/system/{name}"],
        )
        assert (await admin("DELETE", "/admin/v2/namespaces/pulsar/system", force="true"))[0] == 409


async def test_a_head_is_answered_as_a_get(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("HEAD", "/admin/v2/tenants"))[0] == 200
        assert (await admin("HEAD", "/t/stats"))[0] == 404
