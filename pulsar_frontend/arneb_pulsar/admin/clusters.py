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
    return DONE


async def drop_tenant(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = _tenant(context, request)
    if context.namespaces.namespaces(name):
        raise AdminError(409, "The tenant still has active namespaces")
    await context.namespaces.drop_tenant(name)
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
    ("GET", "/admin/v2/clusters", list_clusters),
    ("GET", "/admin/v2/clusters/{cluster}", get_cluster),
    ("GET", "/admin/v2/brokers", list_all_brokers),
    ("GET", "/admin/v2/brokers/health", health),
    ("GET", "/admin/v2/brokers/ready", health),
    ("GET", "/admin/v2/brokers/version", version),
    ("GET", "/admin/v2/brokers/leaderBroker", leader),
    ("GET", "/admin/v2/brokers/{cluster}", list_brokers),
    ("GET", "/admin/v2/tenants", list_tenants),
    ("GET", "/admin/v2/tenants/{tenant}", get_tenant),
    ("PUT", "/admin/v2/tenants/{tenant}", make_tenant),
    ("POST", "/admin/v2/tenants/{tenant}", change_tenant),
    ("DELETE", "/admin/v2/tenants/{tenant}", drop_tenant),
]
