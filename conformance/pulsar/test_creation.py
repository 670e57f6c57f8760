"""The values with which namespaces, tenants, schemas and resource groups are created: kept, or
refused."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from conformance.pulsar.admin import PERSISTENT, Admin, Refused
from conformance.pulsar.conftest import Named

SEEN_WITHIN_S = 30.0

RETENTION = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 50}
DELAYED = {"active": False, "tickTime": 10, "maxDeliveryDelayInMillis": 20}
RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 11,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 2,
}
POLICIES: dict[str, tuple[Any, str, Any]] = {
    "message_ttl_in_seconds": ("3", "messageTTL", 3),
    "retention_policies": (RETENTION, "retention", RETENTION),
    "delayed_delivery_policies": (DELAYED, "delayedDelivery", DELAYED),
    "max_producers_per_topic": (4, "maxProducersPerTopic", 4),
    "deduplicationEnabled": (True, "deduplication", True),
    "encryption_required": (True, "encryptionRequired", True),
    "topicDispatchRate": ({"standalone": RATE}, "dispatchRate", RATE),
    "subscription_types_enabled": (["Shared"], "subscriptionTypesEnabled", ["Shared"]),
    "subscription_auth_mode": ("Prefix", "subscriptionAuthMode", "Prefix"),
    "schema_compatibility_strategy": ("FORWARD", "schemaCompatibilityStrategy", "FORWARD"),
    "compaction_threshold": (8, "compactionThreshold", 8),
    "properties": ({"k": "v"}, "properties", {"k": "v"}),
    "auth_policies": (
        {"namespace_auth": {"role": ["produce"]}},
        "permissions",
        {"role": ["produce"]},
    ),
}
"""Fields of the document: the given value, and the path and value under which it is shown."""


@pytest.fixture
def path(admin: Admin, name: Named) -> Iterator[str]:
    """The path of a namespace that does not exist yet."""
    made = f"/admin/v2/namespaces/public/{name('ns')}"
    yield made
    if admin.get_if_there(made):
        admin.delete(made, force="true")


def status(admin: Admin, method: str, path: str, body: Any) -> int:
    """The status of the answer to a call."""
    try:
        admin.call(method, path, body)
    except Refused as refused:
        return refused.status
    return 200


def test_a_namespace_is_made_with_policies(admin: Admin, path: str) -> None:
    admin.put(path, {field: given for field, (given, _, _) in POLICIES.items()})
    for field, (_, at, shown) in POLICIES.items():
        assert (field, admin.get(f"{path}/{at}")) == (field, shown)


def test_what_is_shown_of_a_namespace_makes_another(admin: Admin, path: str, name: Named) -> None:
    admin.put(path, {"retention_policies": RETENTION, "bundles": {"numBundles": 2}})
    other = f"/admin/v2/namespaces/public/{name('copy')}"
    admin.put(other, admin.get(path))
    assert admin.get(other) == admin.get(path)
    admin.delete(other)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([], 400),
        ({"bundles": 4}, 400),
        ({"bundles": {"numBundles": "x"}}, 400),
        ({"bundles": {"numBundles": 0}}, 200),
        ({"bundles": {"numBundles": 2, "boundaries": ["0x1", "0xffffffff"]}}, 400),
        ({"replication_clusters": "standalone"}, 400),
        ({"replication_clusters": ["elsewhere"]}, 403),
        ({"message_ttl_in_seconds": []}, 400),
        ({"message_ttl_in_seconds": -1}, 412),
        ({"message_ttl_in_seconds": ""}, 200),
        ({"retention_policies": 1}, 400),
        ({"topicDispatchRate": {"standalone": 1}}, 400),
        ({"unknown": 1}, 200),
    ],
)
def test_a_namespace_is_not_made_with_what_cannot_be(
    admin: Admin, path: str, body: Any, expected: int
) -> None:
    assert status(admin, "PUT", path, body) == expected
    assert (admin.get_if_there(path) is not None) is (expected == 200)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([], 400),
        ({"allowedClusters": "standalone"}, 400),
        ({"allowedClusters": ["standalone"], "adminRoles": "role"}, 400),
        ({"allowedClusters": ["standalone"], "adminRoles": [[]]}, 400),
        ({"allowedClusters": ["standalone"], "adminRoles": ["role", 1, True]}, 200),
        ({"allowedClusters": ["elsewhere"]}, 412),
        ({"allowedClusters": ["standalone", "elsewhere"]}, 412),
    ],
)
def test_a_tenant_has_names_of_roles_and_of_clusters(
    admin: Admin, name: Named, body: Any, expected: int
) -> None:
    path = f"/admin/v2/tenants/{name('tenant')}"
    assert status(admin, "PUT", path, body) == expected
    if expected == 200:
        assert sorted(admin.get(path)["adminRoles"]) == ["1", "role", "true"]
        admin.delete(path)


def test_a_tenant_of_another_cluster_has_no_namespace_here(admin: Admin, name: Named) -> None:
    cluster, path = name("c"), f"/admin/v2/tenants/{(tenant := name('tenant'))}"
    admin.put(f"/admin/v2/clusters/{cluster}", {"serviceUrl": "http://127.0.0.1:1"})
    admin.put(path, {"adminRoles": [], "allowedClusters": [cluster]})
    assert admin.get(path)["allowedClusters"] == [cluster]
    assert status(admin, "PUT", f"/admin/v2/namespaces/{tenant}/ns", {}) == 403
    admin.post(path, {"adminRoles": [], "allowedClusters": [cluster, "standalone"]})
    assert sorted(admin.get(path)["allowedClusters"]) == sorted([cluster, "standalone"])
    assert status(admin, "PUT", f"/admin/v2/namespaces/{tenant}/ns", {}) == 200
    admin.delete(f"/admin/v2/namespaces/{tenant}/ns")
    admin.delete(path)
    admin.delete(f"/admin/v2/clusters/{cluster}")


def test_what_is_said_of_a_cluster_is_shown(admin: Admin, name: Named) -> None:
    path = f"/admin/v2/clusters/{name('c')}"
    cluster_data = {"proxyServiceUrl": "pulsar+ssl://127.0.0.1:1", "proxyProtocol": "SNI"}
    cluster_data |= {"listenerName": "outside", "brokerClientKeyFilePath": "key.pem"}
    admin.put(path, cluster_data | {"brokerClientTlsEnabled": True})
    shown = admin.get(path)
    assert {key: shown.get(key) for key in cluster_data} == cluster_data
    assert shown["brokerClientTlsEnabled"] is True
    assert status(admin, "POST", path, {"proxyServiceUrl": "http://127.0.0.1:1"}) == 400
    admin.delete(path)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, 400),
        ([], 400),
        ({"serviceUrl": "x"}, 400),
        ({"serviceUrl": 7}, 400),
        ({"serviceUrlTls": "http://127.0.0.1:1"}, 400),
        ({"brokerServiceUrl": "PULSAR://127.0.0.1:1"}, 400),
        ({"serviceUrl": "", "brokerServiceUrl": "pulsar://127.0.0.1:1"}, 200),
    ],
)
def test_a_cluster_has_addresses(admin: Admin, name: Named, body: Any, expected: int) -> None:
    path = f"/admin/v2/clusters/{name('c')}"
    assert status(admin, "PUT", path, body) == expected
    if expected == 200:
        assert {key: it for key, it in admin.get(path).items() if it is not False} == body
        admin.delete(path)


@pytest.mark.parametrize(
    "body",
    [
        [],
        "STRING",
        {"type": [], "schema": ""},
        {"type": "STRING", "schema": {}},
        {"type": "STRING", "schema": "", "properties": 3},
        {"type": "STRING", "schema": "", "properties": {"k": []}},
    ],
)
def test_a_schema_of_another_kind_is_malformed(admin: Admin, name: Named, body: Any) -> None:
    topic = name("t")
    admin.put(PERSISTENT + topic)
    for what in ("schema", "compatibility", "version"):
        path = f"/admin/v2/schemas/public/default/{topic}/{what}"
        assert status(admin, "POST", path, body) == 400


def test_what_is_no_schema_has_no_version(admin: Admin, name: Named) -> None:
    topic = name("t")
    admin.put(PERSISTENT + topic)
    for body in ({"type": "STRING", "schema": "x"}, {"type": "INT32", "schema": 7}):
        path = f"/admin/v2/schemas/public/default/{topic}/version"
        assert admin.post(path, body) == {"version": -1}


def test_a_call_without_a_body_says_nothing(admin: Admin, name: Named) -> None:
    topic = name("t")
    admin.put(topic, {"k": "v"})
    admin.put(f"{topic}/subscription/s", "earliest")
    admin.put(f"{topic}/subscription/s/properties", {"k": "v"})
    for path in (f"{topic}/properties", f"{topic}/subscription/s/properties"):
        admin.put(path)
    assert admin.get(f"{topic}/properties") == {"k": "v"}
    assert admin.get(f"{topic}/subscription/s/properties") == {}
    assert admin.post(f"{topic}/subscription/s/analyzeBacklog")["entries"] == 0


@pytest.mark.parametrize(
    ("method", "path", "value"),
    [
        ("PUT", "schemaCompatibilityStrategy", "FORWARD"),
        ("POST", "deduplicationEnabled", True),
        ("POST", "deduplicationSnapshotInterval", 5),
        ("POST", "maxUnackedMessagesOnConsumer", 5),
    ],
)
def test_a_value_of_a_topic_is_taken_back_by_nothing(
    admin: Admin, name: Named, method: str, path: str, value: Any
) -> None:
    topic = name("t")
    admin.put(topic, {})
    for nothing in (None, ""):
        admin.call(method, f"{topic}/{path}", value)
        assert comes_to_be(admin, f"{topic}/{path}", value)
        admin.call(method, f"{topic}/{path}", nothing)
        assert comes_to_be(admin, f"{topic}/{path}", None)


def comes_to_be(admin: Admin, path: str, expected: Any) -> bool:
    """Whether the expected value is shown in the end: Apache Pulsar publishes a topic's policies
    through another topic."""
    end = time.monotonic() + SEEN_WITHIN_S
    while (found := admin.get(path)) != expected and time.monotonic() < end:
        time.sleep(0.1)
    return bool(found == expected)


def test_a_rate_of_a_group_that_is_nothing_is_none(admin: Admin, name: Named) -> None:
    path = f"/admin/v2/resourcegroups/{name('group')}"
    admin.put(
        path, {"publishRateInMsgs": "7", "publishRateInBytes": "", "dispatchRateInMsgs": None}
    )
    found = admin.get(path)
    rates = ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes")
    assert [found[rate] for rate in rates] == [7, -1, -1, -1]
    admin.put(path, {"publishRateInMsgs": ""})
    assert admin.get(path)["publishRateInMsgs"] == 7
    for wrong in ({}, [], True, "x"):
        assert status(admin, "PUT", path, {"publishRateInMsgs": wrong}) == 400
    admin.delete(path)
