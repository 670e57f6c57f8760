"""Brokers: their list, health and settings; here there is one.

The rule: a setting that can be changed at run time has Pulsar's name; all others are in the
broker's file.
"""

from dataclasses import fields
from typing import Any, Final

from arneb_pulsar.admin.brokers.clusters import check_cluster
from arneb_pulsar.admin.calls.requests import (
    DONE,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
    text,
)
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import SUPER_USER, anybody
from arneb_pulsar.admin.namespaces.bundles import bundles_of
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.namespaces.defaults import DefaultPolicies
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.namespaces.dynamic_settings import CHANGES


async def list_brokers(context: BrokerContext, request: AdminRequest) -> AdminReply:
    check_cluster(context, request)
    return document([request.host])


async def list_all_brokers(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document([request.host])


async def leader(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document({"brokerId": request.host, "serviceUrl": f"http://{request.host}"})


async def health(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return text("ok")


async def version(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return text(context.server_version)


async def owned(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return every bundle with topics, as this broker owns them all."""
    check_cluster(context, request)
    if (broker := request.names["broker"]) != request.host:
        raise AdminError(404, f"Broker id '{broker}' not found in available brokers.")
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return document(
        {
            f"{namespace}/{bundle}": status
            for namespace, by_bundle in bundles_of(context).items()
            for bundle in by_bundle
        }
    )


async def check_backlogs(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Do nothing: backlog quotas are checked every few seconds anyway."""
    return DONE


async def changeable(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the settings that can be changed at run time."""
    return document(sorted(CHANGES))


async def changed(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the settings that were changed at run time."""
    return document(dict(context.settings.values))


async def change(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Change a setting at once and durably."""
    name = request.names["name"]
    if name not in CHANGES:
        raise AdminError(412, "Can't update non-dynamic configuration")
    try:
        await context.settings.put(name, request.names["value"])
    except ValueError as error:
        raise AdminError(412, f"Invalid dynamic-config value: {error}") from error
    return DONE


async def change_back(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Restore a setting's configured value."""
    name = request.names["name"]
    if name not in CHANGES:
        raise AdminError(412, "Can't delete non-dynamic configuration")
    await context.settings.drop(name)
    return DONE


def _by_pulsars_names(settings: PulsarConfig | DefaultPolicies) -> dict[str, Any]:
    return {
        each.metadata["also"]: getattr(settings, each.name)
        for each in fields(settings)
        if "also" in each.metadata
    }


async def runtime(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the settings that Pulsar has too, by its names."""
    config = context.config
    found = {
        "allowAutoTopicCreationType": _topic_type(config.auto_topic_partitions),
        "defaultNumPartitions": max(1, config.auto_topic_partitions),
        "keepAliveIntervalSeconds": config.keep_alive_s,
        "authenticationEnabled": bool(config.authentication.methods),
        **_by_pulsars_names(config),
        **_by_pulsars_names(config.defaults),
    }
    texts = {name: _as_text(value) for name, value in found.items()}
    return document(texts | context.settings.values)


def _topic_type(partitions: int) -> str:
    return "partitioned" if partitions else "non-partitioned"


def _as_text(value: Any) -> str:
    """Render a value as Java does."""
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


async def internal(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return where a cluster keeps its metadata: only in this broker's own directory."""
    names = (
        "zookeeperServers",
        "configurationStoreServers",
        "metadataStoreUrl",
        "configurationMetadataStoreUrl",
        "ledgersRootPath",
    )
    return document(dict.fromkeys(names, ""))


ROUTES: Final[list[Route]] = [
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
    Route("POST", "/admin/v2/brokers/configuration/{name}/{value}", SUPER_USER, change),
    Route("DELETE", "/admin/v2/brokers/configuration/{name}", SUPER_USER, change_back),
    Route("GET", "/admin/v2/brokers/backlog-quota-check", SUPER_USER, check_backlogs),
    Route("GET", "/admin/v2/brokers/{cluster}/{broker}/ownedNamespaces", SUPER_USER, owned),
    Route("GET", "/admin/v2/brokers/{cluster}", SUPER_USER, list_brokers),
]
