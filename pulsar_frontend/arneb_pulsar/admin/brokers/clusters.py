"""Clusters and tenants: one broker is a cluster of its own.

The rule: other clusters can be recorded, as set-up scripts do, but nothing is replicated to them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from arneb_pulsar.admin.calls.requests import (
    DONE,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
)
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import SUPER_USER, anybody, on_tenant
from arneb_pulsar.admin.namespaces.creation import allowed_clusters
from arneb_pulsar.admin.topics.lookup import as_reached
from arneb_pulsar.names import ENTITY
from arneb_pulsar.namespaces.coercion import WrongKind, named
from arneb_pulsar.namespaces.fields import read_flag, read_table, read_text, read_texts
from arneb_pulsar.services.context import BrokerContext


async def list_clusters(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(sorted(clusters_of(context)))


async def get_cluster(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = cluster_of(context, request)
    found: dict[str, Any] = {}
    if name == context.config.cluster:
        urls = {
            "brokerServiceUrl": as_reached(context.urls.plain, request.host),
            "brokerServiceUrlTls": as_reached(context.urls.tls, request.host),
        }
        found = {"serviceUrl": f"http://{request.host}"}
        found |= {key: url for key, url in urls.items() if url}
        found |= NO_STORES
    return document(NO_TLS | found | dict(context.namespaces.clusters.get(name, {})))


FLAGS: Final = (
    "brokerClientTlsEnabled",
    "tlsAllowInsecureConnection",
    "brokerClientTlsEnabledWithKeyStore",
)
NO_TLS: Final = dict.fromkeys(FLAGS, False)
NO_STORES: Final = {
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""This broker is not a client of other clusters."""

URLS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "serviceUrl": ("service url", ["http://pulsar.example.com:8080"]),
    "serviceUrlTls": ("service tls url", ["https://pulsar.example.com:8443"]),
    "brokerServiceUrl": ("broker service url", ["pulsar://pulsar.example.com:6650"]),
    "brokerServiceUrlTls": ("broker service tls url", ["pulsar+ssl://pulsar.example.com:6651"]),
    "proxyServiceUrl": (
        "proxy service url",
        ["pulsar+ssl://ats-proxy.example.com:4443", "pulsar://ats-proxy.example.com:4080"],
    ),
}
"""Addresses, each with its name and with examples, one of whose schemes it must have."""

TEXTS: Final = (
    "authenticationPlugin",
    "brokerClientTlsTrustStoreType",
    "brokerClientTlsTrustStore",
    "brokerClientTlsKeyStoreType",
    "brokerClientTlsKeyStore",
    "brokerClientTrustCertsFilePath",
    "brokerClientKeyFilePath",
    "brokerClientCertificateFilePath",
    "brokerClientSslFactoryPlugin",
    "brokerClientSslFactoryPluginParams",
    "listenerName",
)
"""How its clients reach it, without secrets."""

PROXY_PROTOCOLS: Final = ("SNI",)


def clusters_of(context: BrokerContext) -> set[str]:
    """Return the known clusters: this one and the recorded ones."""
    return {context.config.cluster, *context.namespaces.clusters}


def cluster_of(context: BrokerContext, request: AdminRequest) -> str:
    """Return the cluster that a path names, which must be known. Raises :class:`AdminError`."""
    name = request.names["cluster"]
    if name not in clusters_of(context):
        raise AdminError(404, "Cluster does not exist")
    return name


def _said(request: AdminRequest) -> dict[str, Any]:
    """Parse the description of a cluster. Raises :class:`AdminError`."""
    given = request.given()
    if given is None:
        raise AdminError(400, "cluster data is required")
    try:
        table = read_table(given)
        found: dict[str, Any] = {
            name: read_text(table[name]) for name in (*URLS, *TEXTS) if table.get(name) is not None
        }
        found |= {name: read_flag(table.get(name)) for name in FLAGS}
        if (protocol := named(table.get("proxyProtocol"), PROXY_PROTOCOLS)) is not None:
            found["proxyProtocol"] = protocol
    except ValueError as error:
        raise AdminError(400, str(error)) from error
    for name, (what, examples) in URLS.items():
        address, schemes = found.get(name, ""), [each.partition("//")[0] for each in examples]
        if address.strip() and not address.startswith(tuple(f"{each}//" for each in schemes)):
            raise AdminError(400, f"Illegal {what}, example: {' or '.join(examples)}")
    return found


async def make_cluster(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Record where a cluster is. Set-up scripts also do this for the broker's own cluster, and
    ignore the error that it exists."""
    name = request.names["cluster"]
    if not ENTITY.fullmatch(name):
        raise AdminError(412, "Cluster name is not valid")
    if name in clusters_of(context):
        raise AdminError(409, "Cluster already exists")
    await context.namespaces.put_cluster(name, _said(request))
    return AdminReply(200)


async def change_cluster(context: BrokerContext, request: AdminRequest) -> AdminReply:
    await context.namespaces.put_cluster(cluster_of(context, request), _said(request))
    return AdminReply(200)


async def drop_cluster(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = cluster_of(context, request)
    if name == context.config.cluster:
        raise AdminError(412, "Cluster not empty")
    await context.namespaces.put_cluster(name, None)
    return DONE


def check_cluster(context: BrokerContext, request: AdminRequest) -> None:
    """Raise :class:`AdminError` for a cluster that is not this broker's."""
    if request.names["cluster"] != context.config.cluster:
        raise AdminError(404, "Cluster does not exist")


# Tenants


async def list_tenants(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(context.namespaces.tenants)


async def get_tenant(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = _tenant(context, request)
    roles = context.namespaces.tenant(name).get("adminRoles", [])
    return document({"adminRoles": roles, "allowedClusters": allowed_clusters(context, name)})


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
    info = _tenant_info(context, request)
    await context.namespaces.put_tenant(_tenant(context, request), info)
    await context.rights.look()  # there may be fewer administrators
    return DONE


async def drop_tenant(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = _tenant(context, request, "Tenant doesn't exist")
    if context.namespaces.namespaces(name):
        raise AdminError(409, "The tenant still has active namespaces")
    await context.namespaces.drop_tenant(name)
    await context.rights.look()
    return DONE


def _tenant(
    context: BrokerContext, request: AdminRequest, otherwise: str = "Tenant does not exist"
) -> str:
    name = request.names["tenant"]
    if name not in context.namespaces.tenants:
        raise AdminError(404, otherwise)
    return name


def _tenant_info(context: BrokerContext, request: AdminRequest) -> dict[str, Any]:
    if (wanted := request.given()) is None:
        raise AdminError(412, "TenantInfo is null")
    try:
        info = read_table(wanted)
        clusters, roles = (
            None if (given := info.get(field)) is None else read_texts(given)
            for field in ("allowedClusters", "adminRoles")
        )
    except WrongKind as error:
        raise AdminError(400, str(error)) from error
    if clusters is None:
        raise AdminError(412, "Clusters cannot be null")
    if not clusters or not all(each.strip() for each in clusters):
        raise AdminError(412, "Clusters cannot be empty or blank")
    if not clusters_of(context).issuperset(clusters):
        raise AdminError(412, "Clusters do not exist")
    return {"adminRoles": roles or [], "allowedClusters": list(dict.fromkeys(clusters))}


CLUSTER: Final = "/admin/v2/clusters/{cluster}"

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        "/admin/v2/clusters",
        anybody("it is one name, which clients are told anyway"),
        list_clusters,
    ),
    Route("GET", CLUSTER, SUPER_USER, get_cluster),
    Route("PUT", CLUSTER, SUPER_USER, make_cluster),
    Route("POST", CLUSTER, SUPER_USER, change_cluster),
    Route("DELETE", CLUSTER, SUPER_USER, drop_cluster),
    Route("GET", "/admin/v2/tenants", SUPER_USER, list_tenants),
    Route("GET", "/admin/v2/tenants/{tenant}", on_tenant("GET_TENANT"), get_tenant),
    Route("PUT", "/admin/v2/tenants/{tenant}", SUPER_USER, make_tenant),
    Route("POST", "/admin/v2/tenants/{tenant}", on_tenant("UPDATE_TENANT"), change_tenant),
    Route("DELETE", "/admin/v2/tenants/{tenant}", on_tenant("DELETE_TENANT"), drop_tenant),
]
