"""Documents that namespaces, tenants and clusters are made with: all of it is kept, or refused."""

from dataclasses import replace
from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import NULL, Admin
from tests.pulsar_frontend.conftest import OpenBroker

NAMESPACES = "/admin/v2/namespaces/public"
MADE = f"{NAMESPACES}/made"
TOO_MANY = [f"0x{each:08x}" for each in (*range(4097), 0xFFFFFFFF)]
RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 11,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 2,
}
ALL: dict[str, Any] = {
    "replication_clusters": ["standalone"],
    "bundles": {"boundaries": ["0x00000000", "0x40000000", "0xffffffff"], "numBundles": 2},
    "message_ttl_in_seconds": 3,
    "retention_policies": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 50},
    "backlog_quota_map": {
        "message_age": {
            "limit": -1,
            "limitSize": -1,
            "limitTime": 9,
            "policy": "producer_exception",
        }
    },
    "persistence": {
        "bookkeeperEnsemble": 3,
        "bookkeeperWriteQuorum": 2,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 2.5,
    },
    "delayed_delivery_policies": {"tickTime": 1, "active": True, "maxDeliveryDelayInMillis": 20},
    "inactive_topic_policies": {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": True,
    },
    "autoTopicCreationOverride": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 3,
    },
    "topicDispatchRate": {"standalone": RATE},
    "clusterDispatchRate": {"standalone": RATE},
    "subscriptionDispatchRate": {"standalone": RATE | {"ratePeriodInSecond": 3}},
    "publishMaxMessageRate": {
        "standalone": {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 6}
    },
    "clusterSubscribeRate": {
        "standalone": {"subscribeThrottlingRatePerConsumer": 7, "ratePeriodInSecond": 8}
    },
    "auth_policies": {
        "namespace_auth": {"role": ["produce"]},
        "destination_auth": {},
        "subscription_auth_roles": {"s": ["role"]},
    },
    "deduplicationEnabled": False,
    "encryption_required": True,
    "schema_validation_enforced": True,
    "schema_compatibility_strategy": "FORWARD",
    "schema_auto_update_compatibility_strategy": "Backward",
    "is_allow_auto_update_schema": False,
    "subscription_auth_mode": "Prefix",
    "subscription_types_enabled": ["Exclusive", "Shared"],
    "subscription_expiration_time_minutes": 5,
    "max_producers_per_topic": 1,
    "max_consumers_per_topic": 2,
    "max_consumers_per_subscription": 3,
    "max_subscriptions_per_topic": 4,
    "max_topics_per_namespace": 5,
    "max_unacked_messages_per_consumer": 6,
    "max_unacked_messages_per_subscription": 7,
    "compaction_threshold": 8,
    "dispatcherPauseOnAckStatePersistentEnabled": True,
    "resource_group_name": "group",
    "properties": {"k": "v"},
}


async def test_a_namespace_is_made_with_all_that_can_be_set_of_it(open_broker: OpenBroker) -> None:
    more = {
        "autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": False},
        "deduplicationSnapshotIntervalSeconds": 9,
    }
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/admin/v2/resourcegroups/group", {})
        assert await admin("PUT", MADE, ALL | more) == (204, b"")
    async with open_broker() as running:
        admin = Admin(running)
        _, shown = await admin("GET", MADE)
        assert {name: shown[name] for name in ALL} == ALL
        for path, value in (
            ("autoSubscriptionCreation", more["autoSubscriptionCreationOverride"]),
            ("deduplicationSnapshotInterval", 9),
        ):
            assert await admin("GET", f"{MADE}/{path}") == (200, value)
        assert await admin("PUT", f"{NAMESPACES}/copy", shown) == (204, b"")
        assert await admin("GET", f"{NAMESPACES}/copy") == (200, shown)


async def test_what_is_nothing_sets_nothing(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", f"{NAMESPACES}/plain")
        expected = await admin("GET", f"{NAMESPACES}/plain")
        nothing = dict.fromkeys(ALL) | {"message_ttl_in_seconds": "", "unknown": 1}
        less = {"bundles": {"numBundles": -1}, "offload_threshold": -1, "entryFilters": None}
        for number, body in enumerate((NULL, {}, nothing, less)):
            assert await admin("PUT", f"{MADE}{number}", body) == (204, b"")
            assert await admin("GET", f"{MADE}{number}") == expected


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 400),
        ("", 400),
        ({"bundles": 4}, 400),
        ({"bundles": {"numBundles": "x"}}, 400),
        ({"bundles": {"numBundles": 1 << 20}}, 400),
        ({"bundles": {"numBundles": 2, "boundaries": ["0x1", "0xffffffff"]}}, 400),
        ({"bundles": {"boundaries": 3}}, 400),
        ({"bundles": {"numBundles": 2, "boundaries": TOO_MANY}}, 400),
        ({"replication_clusters": "standalone"}, 400),
        ({"replication_clusters": ["elsewhere"]}, 403),
        ({"message_ttl_in_seconds": []}, 400),
        ({"message_ttl_in_seconds": -1}, 412),
        ({"retention_policies": ""}, 400),
        ({"topicDispatchRate": {"standalone": 1}}, 400),
        ({"resource_group_name": "none"}, 412),
        ({"auth_policies": {"namespace_auth": {"role": ["fly"]}}}, 400),
        ({"replicatorDispatchRate": {"elsewhere": RATE}}, 501),
        ({"offload_policies": {"managedLedgerOffloadDriver": "s3"}}, 501),
        ({"offload_threshold": 0}, 501),
        ({"entryFilters": {"entryFilterNames": "f"}}, 501),
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_is_made(
    open_broker: OpenBroker, body: Any, status: int
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", MADE, body))[0] == status
        assert (await admin("GET", MADE))[0] == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 400),
        ({"adminRoles": "role"}, 400),
        ({"adminRoles": [[]]}, 400),
        ({"allowedClusters": 1}, 400),
        ({"allowedClusters": ["elsewhere"]}, 412),
        (None, 412),
        ({}, 412),
        ({"allowedClusters": None}, 412),
        ({"allowedClusters": []}, 412),
        ({"allowedClusters": ["standalone", " "]}, 412),
        ({"adminRoles": ["role", 1, True], "allowedClusters": ["standalone"]}, 204),
    ],
)
async def test_a_tenant_has_names_of_roles_and_of_clusters(
    open_broker: OpenBroker, body: Any, status: int
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", "/admin/v2/tenants/made", body))[0] == status
        if status == 204:
            shown = {"adminRoles": ["1", "role", "true"], "allowedClusters": ["standalone"]}
            assert await admin("GET", "/admin/v2/tenants/made") == (200, shown)


async def test_a_tenant_may_be_in_other_clusters_and_its_namespaces_here_only_if_it_may_be_here(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        address = {"serviceUrl": "http://127.0.0.1:1"}
        await admin("PUT", "/admin/v2/clusters/other", address)
        for name, clusters in (("there", ["other"]), ("both", ["other", "standalone"])):
            body = {"adminRoles": [], "allowedClusters": clusters}
            assert (await admin("PUT", f"/admin/v2/tenants/{name}", body))[0] == 204
            assert await admin("GET", f"/admin/v2/tenants/{name}") == (200, body)
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("GET", "/admin/v2/tenants/there"))[1]["allowedClusters"] == ["other"]
        status, refused = await admin("PUT", "/admin/v2/namespaces/there/ns", {})
        assert (status, refused["reason"]) == (
            403,
            "Cluster [standalone] is not in the list of allowed clusters list for tenant [there]",
        )
        for tenant, where, expected in (
            ("there", ["other"], 501),
            ("both", ["standalone"], 204),
            ("both", ["standalone", "other"], 501),
            ("both", ["elsewhere"], 403),
        ):
            path, body = (
                f"/admin/v2/namespaces/{tenant}/ns-{expected}",
                {"replication_clusters": where},
            )
            assert (await admin("PUT", path, body))[0] == expected
        here = {"allowedClusters": ["standalone"]}
        assert (await admin("POST", "/admin/v2/tenants/there", here))[0] == 204
        assert (await admin("PUT", "/admin/v2/namespaces/there/ns", {}))[0] == 204


async def test_a_namespace_keeps_the_bundles_that_the_settings_gave_it(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(namespace_bundles=2) as running:
        admin = Admin(running)
        path = "/admin/v2/namespaces/public"
        await admin("PUT", f"{path}/two")
        await admin("PUT", f"{path}/none", {"bundles": {"numBundles": 0}})
        await admin("PUT", f"{path}/three", {"bundles": {"numBundles": 3}})

        async def counts() -> list[int]:
            names = ("two", "none", "three", "default")
            return [
                (await admin("GET", f"{path}/{name}/bundles"))[1]["numBundles"] for name in names
            ]

        assert await counts() == [2, 2, 3, 4]
        context = running.context
        changed = replace(context, config=replace(context.config, namespace_bundles=1))
        admin = Admin(replace(running, context=changed))
        assert await counts() == [2, 2, 3, 4]
        await admin("PUT", f"{path}/one")
        assert (await admin("GET", f"{path}/one/bundles"))[1]["boundaries"] == [
            "0x00000000",
            "0xffffffff",
        ]
