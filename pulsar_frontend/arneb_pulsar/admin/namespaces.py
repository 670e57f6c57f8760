"""Namespaces: made, listed, removed, and asked for their topics."""

from typing import Any, Final

from arneb_pulsar.admin.exchange import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.router import Route
from arneb_pulsar.names import (
    NON_PERSISTENT,
    PERSISTENT,
    InvalidTopicName,
    parse_namespace,
    parse_topic,
)
from arneb_pulsar.server.door import Door
from arneb_pulsar.session.effects import ListTopics
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

MODES: Final = {
    "PERSISTENT": CommandGetTopicsOfNamespace.PERSISTENT,
    "NON_PERSISTENT": CommandGetTopicsOfNamespace.NON_PERSISTENT,
    "ALL": CommandGetTopicsOfNamespace.ALL,
}


def namespace_of(door: Door, request: AdminRequest) -> str:
    """The namespace that a path names, which must be there. Raises :class:`AdminError`."""
    name = new_namespace(request)
    if not door.registry.has_namespace(name):
        raise AdminError(404, "Namespace does not exist")
    return name


def new_namespace(request: AdminRequest) -> str:
    """The namespace that a path names. Raises :class:`AdminError`."""
    try:
        return parse_namespace(f"{request.names['tenant']}/{request.names['namespace']}")
    except InvalidTopicName as error:
        raise AdminError(412, f"Namespace name is not valid: {error}") from error


async def list_namespaces(door: Door, request: AdminRequest) -> AdminReply:
    tenant = request.names["tenant"]
    if tenant not in door.registry.tenants:
        raise AdminError(404, "Tenant does not exist")
    return document(door.registry.namespaces(tenant))


async def get_namespace(door: Door, request: AdminRequest) -> AdminReply:
    return document(policies_document(door, namespace_of(door, request)))


async def make_namespace(door: Door, request: AdminRequest) -> AdminReply:
    name = new_namespace(request)
    if request.names["tenant"] not in door.registry.tenants:
        raise AdminError(404, "Tenant does not exist")
    if door.registry.has_namespace(name):
        raise AdminError(409, "Namespace already exists")
    await door.registry.make_namespace(name)
    return DONE


async def drop_namespace(door: Door, request: AdminRequest) -> AdminReply:
    name = namespace_of(door, request)
    topics = door.topics(ListTopics(0, name, CommandGetTopicsOfNamespace.ALL, ""))
    partitioned = [
        each
        for domain in (PERSISTENT, NON_PERSISTENT)
        for each in door.registry.partitioned_in(domain, name)
    ]
    if (topics or partitioned) and not request.flag("force"):
        raise AdminError(409, "Cannot delete non empty namespace")
    if name in door.config.namespaces:
        raise AdminError(409, "Cannot delete a namespace that is configured")
    for each in partitioned:
        await door.drop_partitioned(parse_topic(each))
    for each in topics:
        if each in door.core.topics:
            await door.drop(parse_topic(each))
    await door.registry.drop_namespace(name)
    return DONE


async def list_topics(door: Door, request: AdminRequest) -> AdminReply:
    name = namespace_of(door, request)
    mode = request.query.get("mode", "PERSISTENT")
    if mode not in MODES:
        raise AdminError(400, f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    return document(list(door.topics(ListTopics(0, name, MODES[mode], ""))))


async def unload(door: Door, request: AdminRequest) -> AdminReply:
    """Every client looks its topics up again; there is nowhere else to go."""
    name = namespace_of(door, request)
    for each in door.topics(ListTopics(0, name, CommandGetTopicsOfNamespace.ALL, "")):
        door.disconnect(door.core.topic(each))
    return DONE


async def get_bundles(door: Door, request: AdminRequest) -> AdminReply:
    namespace_of(door, request)
    return document(ONE_BUNDLE)


BOUNDARIES: Final = ["0x00000000", "0xffffffff"]
ONE_BUNDLE: Final = {"boundaries": BOUNDARIES, "numBundles": 1}


def policies_document(door: Door, namespace: str) -> dict[str, Any]:
    """Everything that a namespace asks for, as Pulsar shows it."""
    own = door.registry.namespace_policies(namespace)
    quotas = {kind.value: quota.document for kind, quota in own.quotas.items()}
    found: dict[str, Any] = {
        "replication_clusters": [door.config.cluster],
        "bundles": ONE_BUNDLE,
        "backlog_quota_map": quotas,
        "message_ttl_in_seconds": own.message_ttl_s,
        "retention_policies": None if own.retention is None else own.retention.document,
        "deduplicationEnabled": own.deduplication,
        "schema_compatibility_strategy": own.schema_compatibility or "UNDEFINED",
        "properties": dict(own.properties),
        "auth_policies": {"namespace_auth": dict(own.permissions)},
    }
    if own.auto_topic is not None:
        found["autoTopicCreationOverride"] = own.auto_topic.document
    if own.inactive is not None:
        found["inactive_topic_policies"] = own.inactive.document
    return found


PATH: Final = "/admin/v2/namespaces/{tenant}/{namespace}"

ROUTES: Final[list[Route]] = [
    ("GET", "/admin/v2/namespaces/{tenant}", list_namespaces),
    ("GET", PATH, get_namespace),
    ("PUT", PATH, make_namespace),
    ("DELETE", PATH, drop_namespace),
    ("GET", PATH + "/topics", list_topics),
    ("PUT", PATH + "/unload", unload),
    ("GET", PATH + "/bundles", get_bundles),
]
