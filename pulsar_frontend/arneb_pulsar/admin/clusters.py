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
from arneb_pulsar.server.door import Door


async def list_clusters(door: Door, request: AdminRequest) -> AdminReply:
    return document([door.config.cluster])


async def get_cluster(door: Door, request: AdminRequest) -> AdminReply:
    _check_cluster(door, request)
    urls = {
        "brokerServiceUrl": as_reached(door.service_url, request.host),
        "brokerServiceUrlTls": as_reached(door.tls_service_url, request.host),
    }
    found = {"serviceUrl": f"http://{request.host}", "authenticationType": None}
    return document(found | {name: url for name, url in urls.items() if url})


async def list_brokers(door: Door, request: AdminRequest) -> AdminReply:
    _check_cluster(door, request)
    return document([request.host])


async def list_all_brokers(door: Door, request: AdminRequest) -> AdminReply:
    return document([request.host])


async def leader(door: Door, request: AdminRequest) -> AdminReply:
    return document({"brokerId": request.host, "serviceUrl": f"http://{request.host}"})


async def health(door: Door, request: AdminRequest) -> AdminReply:
    return text("ok")


async def version(door: Door, request: AdminRequest) -> AdminReply:
    return text(door.server_version)


def _check_cluster(door: Door, request: AdminRequest) -> None:
    if request.names["cluster"] != door.config.cluster:
        raise AdminError(404, "Cluster does not exist")


# Tenants


async def list_tenants(door: Door, request: AdminRequest) -> AdminReply:
    return document(door.registry.tenants)


async def get_tenant(door: Door, request: AdminRequest) -> AdminReply:
    name = _tenant(door, request)
    known = door.registry.tenant(name)
    roles = known.get("adminRoles", [])
    return document({"adminRoles": roles, "allowedClusters": [door.config.cluster]})


async def make_tenant(door: Door, request: AdminRequest) -> AdminReply:
    name = request.names["tenant"]
    if not ENTITY.fullmatch(name):
        raise AdminError(412, "Tenant name is not valid")
    info = _tenant_info(door, request)
    if name in door.registry.tenants:
        raise AdminError(409, "Tenant already exist")
    await door.registry.put_tenant(name, info)
    return DONE


async def change_tenant(door: Door, request: AdminRequest) -> AdminReply:
    await door.registry.put_tenant(_tenant(door, request), _tenant_info(door, request))
    return DONE


async def drop_tenant(door: Door, request: AdminRequest) -> AdminReply:
    name = _tenant(door, request)
    if door.registry.namespaces(name):
        raise AdminError(409, "The tenant still has active namespaces")
    await door.registry.drop_tenant(name)
    return DONE


def _tenant(door: Door, request: AdminRequest) -> str:
    name = request.names["tenant"]
    if name not in door.registry.tenants:
        raise AdminError(404, "Tenant does not exist")
    return name


def _tenant_info(door: Door, request: AdminRequest) -> dict[str, Any]:
    info = request.json() if request.body else {}
    if not isinstance(info, dict):
        raise AdminError(400, "expected a JSON object")
    clusters = info.get("allowedClusters") or [door.config.cluster]
    if clusters != [door.config.cluster]:
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
