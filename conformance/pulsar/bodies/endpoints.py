"""Every call of Pulsar's admin API that takes a body, each with a valid one.

The rule: a path contains ``{n}``, a number that differs for each body, so that bodies do not affect
each other. Topics have a namespace of their own, because Apache Pulsar keeps their policies in a
topic beside them, to which the policies of its namespace apply. If the value that was set can be
read back, it is read at ``shown``.
"""

from dataclasses import dataclass
from typing import Any, Final

NAMESPACE: Final = "/admin/v2/namespaces/public/bodies-{n}"
TOPIC: Final = "/admin/v2/persistent/public/bodies/t-{n}"
FRESH: Final = "/admin/v2/persistent/public/bodies/"
SCHEMA: Final = "/admin/v2/schemas/public/bodies/"
SHOWN: Final = "what was set, asked for where it is set"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A call, a valid body for it, and the path at which the outcome is shown."""

    method: str
    path: str
    right: Any
    shown: str = SHOWN
    first: bool = True
    """Whether the valid body is sent before each of the others."""

    @property
    def name(self) -> str:
        """The name that identifies it in the results."""
        return f"{self.method} {self.path.removeprefix('/admin/')}"


def _policies(below: str, by_path: dict[str, tuple[str, Any]]) -> list[Endpoint]:
    return [Endpoint(method, f"{below}/{path}", right) for path, (method, right) in by_path.items()]


DISPATCH_RATE: Final = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 11,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 2,
}
BOTH: Final[dict[str, tuple[str, Any]]] = {
    "retention": ("POST", {"retentionTimeInMinutes": 60, "retentionSizeInMB": 50}),
    "messageTTL": ("POST", 5),
    "inactiveTopicPolicies": (
        "POST",
        {
            "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
            "maxInactiveDurationSeconds": 60_000,
            "deleteWhileInactive": True,
        },
    ),
    "autoSubscriptionCreation": ("POST", {"allowAutoSubscriptionCreation": True}),
    "publishRate": (
        "POST",
        {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 11},
    ),
    "dispatchRate": ("POST", DISPATCH_RATE),
    "subscriptionDispatchRate": ("POST", DISPATCH_RATE),
    "subscribeRate": (
        "POST",
        {"subscribeThrottlingRatePerConsumer": 10, "ratePeriodInSecond": 20},
    ),
    "maxConsumersPerSubscription": ("POST", 5),
    "maxSubscriptionsPerTopic": ("POST", 5),
    "subscriptionTypesEnabled": ("POST", ["Shared", "Exclusive"]),
    "delayedDelivery": (
        "POST",
        {"active": True, "tickTime": 10, "maxDeliveryDelayInMillis": 20},
    ),
    "persistence": (
        "POST",
        {
            "bookkeeperEnsemble": 3,
            "bookkeeperWriteQuorum": 2,
            "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 2.5,
        },
    ),
    "schemaValidationEnforced": ("POST", True),
    "deduplicationSnapshotInterval": ("POST", 5),
    "dispatcherPauseOnAckStatePersistent": ("POST", None),
    "schemaCompatibilityStrategy": ("PUT", "FORWARD"),
}
"""Policies that have the same path for namespaces and topics."""

OF_NAMESPACES: Final[dict[str, tuple[str, Any]]] = {
    "compactionThreshold": ("PUT", 5),
    "maxProducersPerTopic": ("POST", 5),
    "maxConsumersPerTopic": ("POST", 5),
    "maxTopicsPerNamespace": ("POST", 5_000),
    "maxUnackedMessagesPerConsumer": ("POST", 5),
    "maxUnackedMessagesPerSubscription": ("POST", 5),
    "subscriptionExpirationTime": ("POST", 5),
    "schemaAutoUpdateCompatibilityStrategy": ("PUT", "Backward"),
    "isAllowAutoUpdateSchema": ("POST", True),
    "encryptionRequired": ("POST", False),
    "autoTopicCreation": (
        "POST",
        {
            "allowAutoTopicCreation": True,
            "topicType": "partitioned",
            "defaultNumPartitions": 3,
        },
    ),
    "deduplication": ("POST", False),
    "properties": ("PUT", {"k": "v", "l": "w"}),
    "subscriptionAuthMode": ("POST", "Prefix"),
    "replication": ("POST", ["standalone"]),
}
OF_TOPICS: Final[dict[str, tuple[str, Any]]] = {
    "compactionThreshold": ("POST", 5),
    "maxProducers": ("POST", 5),
    "maxConsumers": ("POST", 5),
    "maxUnackedMessagesOnConsumer": ("POST", 5),
    "maxUnackedMessagesOnSubscription": ("POST", 5),
    "maxMessageSize": ("POST", 5),
    "deduplicationEnabled": ("POST", True),
    "properties": ("PUT", {"k": "v", "l": "w"}),
    "s/dispatchRate": ("POST", DISPATCH_RATE),
}
QUOTA: Final = {
    "limitSize": 10_000,
    "limitTime": 100,
    "policy": "consumer_backlog_eviction",
}
AVRO: Final = {"type": "STRING", "schema": "", "properties": {"k": "v"}}
ID: Final = {"ledgerId": 0, "entryId": 0, "partitionIndex": -1}

ENDPOINTS: Final = (
    *_policies(NAMESPACE, BOTH | OF_NAMESPACES),
    Endpoint("POST", NAMESPACE + "/backlogQuota", QUOTA, NAMESPACE + "/backlogQuotaMap"),
    Endpoint(
        "POST",
        NAMESPACE + "/permissions/role",
        ["produce", "consume"],
        NAMESPACE + "/permissions",
    ),
    Endpoint(
        "POST",
        NAMESPACE + "/permissions/subscription/s",
        ["role"],
        NAMESPACE + "/permissions/subscription",
    ),
    *_policies(TOPIC, BOTH | OF_TOPICS),
    Endpoint("POST", TOPIC + "/backlogQuota", QUOTA, TOPIC + "/backlogQuotaMap"),
    Endpoint("POST", TOPIC + "/permissions/role", ["produce"], TOPIC + "/permissions"),
    Endpoint(
        "PUT",
        TOPIC + "/subscription/s/properties",
        {"k": "v"},
        TOPIC + "/subscription/s/properties",
    ),
    Endpoint("PUT", TOPIC + "/subscription/made", ID, TOPIC + "/subscriptions", first=False),
    Endpoint("POST", TOPIC + "/subscription/s/resetcursor", ID, ""),
    Endpoint("POST", TOPIC + "/subscription/s/expireMessages", ID, ""),
    Endpoint("POST", TOPIC + "/subscription/s/analyzeBacklog", ID, ""),
    Endpoint("PUT", TOPIC + "/backlogSize", ID, ""),
    Endpoint("PUT", FRESH + "made-{n}", {"k": "v"}, FRESH + "made-{n}/properties", first=False),
    Endpoint("PUT", FRESH + "parts-{n}/partitions", 2, FRESH + "parts-{n}/partitions", first=False),
    Endpoint("POST", FRESH + "more-{n}/partitions", 3, FRESH + "more-{n}/partitions", first=False),
    Endpoint("POST", SCHEMA + "t-{n}/schema", AVRO, SCHEMA + "t-{n}/schema", first=False),
    Endpoint("POST", SCHEMA + "t-{n}/compatibility", AVRO, ""),
    Endpoint("POST", SCHEMA + "t-{n}/version", AVRO, ""),
    Endpoint(
        "PUT",
        "/admin/v2/clusters/bodies-{n}",
        {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:1"},
        first=False,
    ),
    Endpoint(
        "PUT",
        "/admin/v2/tenants/bodies-{n}",
        {"adminRoles": ["a"], "allowedClusters": ["standalone"]},
        first=False,
    ),
    Endpoint(
        "POST",
        "/admin/v2/tenants/changed-{n}",
        {"adminRoles": ["a"], "allowedClusters": ["standalone"]},
    ),
    Endpoint(
        "PUT",
        "/admin/v2/namespaces/public/made-{n}",
        {"bundles": {"numBundles": 4}, "replication_clusters": ["standalone"]},
        "/admin/v2/namespaces/public/made-{n}/replication",
        first=False,
    ),
    Endpoint(
        "PUT",
        "/admin/v2/resourcegroups/bodies-{n}",
        {
            "publishRateInMsgs": 10,
            "publishRateInBytes": 11,
            "dispatchRateInMsgs": 12,
            "dispatchRateInBytes": 13,
        },
        first=False,
    ),
)
"""All endpoints, except those that are always refused (501)."""
