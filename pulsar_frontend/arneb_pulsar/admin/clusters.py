"""Clusters, brokers and tenants: one broker is a cluster of its own."""

from typing import Any, Final

from arneb_pulsar.admin.exchange import (
    DONE,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
    text,
)
from arneb_pulsar.admin.lookup import as_reached
from arneb_pulsar.admin.router import Route
from arneb_pulsar.admin.rules import SUPER_USER, anybody, on_tenant
from arneb_pulsar.names import ENTITY
from arneb_pulsar.services.context import BrokerContext


async def list_clusters(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document([context.config.cluster])


async def get_cluster(context: BrokerContext, request: AdminRequest) -> AdminReply:
    _check_cluster(context, request)
    urls = {
        "brokerServiceUrl": as_reached(context.urls.plain, request.host),
        "brokerServiceUrlTls": as_reached(context.urls.tls, request.host),
    }
    found = {"serviceUrl": f"http://{request.host}", "authenticationType": None}
    return document(found | {name: url for name, url in urls.items() if url})


async def list_brokers(context: BrokerContext, request: AdminRequest) -> AdminReply:
    _check_cluster(context, request)
    return document([request.host])


async def list_all_brokers(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document([request.host])


async def leader(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document({"brokerId": request.host, "serviceUrl": f"http://{request.host}"})


async def health(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return text("ok")


async def version(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return text(context.server_version)


async def make_cluster(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Set-up scripts make the one that is there, and ignore that it is."""
    if request.names["cluster"] == context.config.cluster:
        raise AdminError(409, "Cluster already exists")
    raise AdminError(501, "one broker is a cluster of its own, and knows no other")


async def changeable(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """The settings that could be changed while the broker runs; all are in its file."""
    return document([])


async def changed(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """The settings that were."""
    return document({})


async def runtime(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """What Pulsar has a setting for too, by its name there."""
    config = context.config
    found: dict[str, str | int | bool] = {
        "clusterName": config.cluster,
        "maxMessageSize": config.message_bytes_max,
        "allowAutoTopicCreation": config.allow_auto_topic_creation,
        "allowAutoTopicCreationType": _topic_type(config.auto_topic_partitions),
        "defaultNumPartitions": max(1, config.auto_topic_partitions),
        "allowAutoSubscriptionCreation": config.allow_auto_subscription_creation,
        "brokerDeduplicationEnabled": config.deduplication,
        "brokerDeleteInactiveTopicsEnabled": config.delete_inactive_topics,
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": config.inactive_topic_s,
        "brokerDeleteInactiveTopicsFrequencySeconds": int(config.inactive_check_s),
        "backlogQuotaCheckIntervalInSeconds": int(config.backlog_quota_check_s),
        "schemaCompatibilityStrategy": config.schema_compatibility,
        "keepAliveIntervalSeconds": int(config.keep_alive_s),
        "maxUnackedMessagesPerConsumer": config.max_unacked_messages_per_consumer,
        "maxUnackedMessagesPerSubscription": config.max_unacked_messages_per_subscription,
        "subscriptionKeySharedUseConsistentHashing": config.key_shared_consistent_hashing,
        "authenticationEnabled": bool(config.authentication.methods),
    }
    return document({name: _as_text(value) for name, value in found.items()})


def _topic_type(partitions: int) -> str:
    return "partitioned" if partitions else "non-partitioned"


def _as_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def internal(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Where a cluster keeps its metadata: nowhere but in this broker's own directory."""
    names = (
        "zookeeperServers",
        "configurationStoreServers",
        "metadataStoreUrl",
        "configurationMetadataStoreUrl",
        "ledgersRootPath",
    )
    return document(dict.fromkeys(names, ""))


def _check_cluster(context: BrokerContext, request: AdminRequest) -> None:
    if request.names["cluster"] != context.config.cluster:
        raise AdminError(404, "Cluster does not exist")


# Tenants


async def list_tenants(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(context.namespaces.tenants)


async def get_tenant(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = _tenant(context, request)
    known = context.namespaces.tenant(name)
    roles = known.get("adminRoles", [])
    return document({"adminRoles": roles, "allowedClusters": [context.config.cluster]})


async def make_tenant(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = request.names["tenant"]
    if not ENTITY.fullmatch(name):
        raise AdminError(412, "Tenant name is not valid")
    info = _tenant_info(context, request)
    if name in context.namespaces.tenants:
        raise AdminError(409, "Tenant already exist")
    await context.namespaces.put_tenant(name, info)
    return DONE


async def change_tenant(context: BrokerContext, request: AdminRequest) -> AdminReply:
    await context.namespaces.put_tenant(_tenant(context, request), _tenant_info(context, request))
    await context.rights.look()  # administrators may be fewer
    return DONE


async def drop_tenant(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = _tenant(context, request)
    if context.namespaces.namespaces(name):
        raise AdminError(409, "The tenant still has active namespaces")
    await context.namespaces.drop_tenant(name)
    await context.rights.look()
    return DONE


def _tenant(context: BrokerContext, request: AdminRequest) -> str:
    name = request.names["tenant"]
    if name not in context.namespaces.tenants:
        raise AdminError(404, "Tenant does not exist")
    return name


def _tenant_info(context: BrokerContext, request: AdminRequest) -> dict[str, Any]:
    info = request.json() if request.body else {}
    if not isinstance(info, dict):
        raise AdminError(400, "expected a JSON object")
    clusters = info.get("allowedClusters") or [context.config.cluster]
    if clusters != [context.config.cluster]:
        raise AdminError(412, "Clusters do not exist")
    roles = info.get("adminRoles") or []
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise AdminError(412, "adminRoles: expected a list of names")
    return {"adminRoles": roles}


ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        "/admin/v2/clusters",
        anybody("it is one name, which clients are told anyway"),
        list_clusters,
    ),
    Route("GET", "/admin/v2/clusters/{cluster}", SUPER_USER, get_cluster),
    Route("PUT", "/admin/v2/clusters/{cluster}", SUPER_USER, make_cluster),
    Route("GET", "/admin/v2/brokers", SUPER_USER, list_all_brokers),
    Route("GET", "/admin/v2/brokers/health", SUPER_USER, health),
    Route("GET", "/admin/v2/brokers/ready", anybody("probes ask it"), health),
    Route(
        "GET", "/admin/v2/brokers/version", anybody("every client is told on connecting"), version
    ),
    Route("GET", "/admin/v2/brokers/leaderBroker", SUPER_USER, leader),
    Route("GET", "/admin/v2/brokers/configuration", SUPER_USER, changeable),
    Route("GET", "/admin/v2/brokers/configuration/values", SUPER_USER, changed),
    Route("GET", "/admin/v2/brokers/configuration/runtime", SUPER_USER, runtime),
    Route("GET", "/admin/v2/brokers/internal-configuration", SUPER_USER, internal),
    Route("GET", "/admin/v2/brokers/{cluster}", SUPER_USER, list_brokers),
    Route("GET", "/admin/v2/tenants", SUPER_USER, list_tenants),
    Route("GET", "/admin/v2/tenants/{tenant}", on_tenant("GET_TENANT"), get_tenant),
    Route("PUT", "/admin/v2/tenants/{tenant}", SUPER_USER, make_tenant),
    Route("POST", "/admin/v2/tenants/{tenant}", on_tenant("UPDATE_TENANT"), change_tenant),
    Route("DELETE", "/admin/v2/tenants/{tenant}", on_tenant("DELETE_TENANT"), drop_tenant),
]
