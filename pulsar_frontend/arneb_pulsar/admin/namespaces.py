"""Namespaces: made, listed, removed, and asked for their topics."""

from typing import Any, Final

from arneb_pulsar.admin.exchange import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.paths import namespace_in
from arneb_pulsar.admin.router import Route
from arneb_pulsar.admin.rules import SUPER_USER, on_namespace, on_policy, on_tenant
from arneb_pulsar.authorization.operations import NamespaceOperation
from arneb_pulsar.names import DOMAINS, NON_PERSISTENT, PERSISTENT, parse_topic
from arneb_pulsar.namespaces.rules import SubscriptionAuthMode
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.topic_lifecycle import disconnect, drop, drop_partitioned

MODES: Final = {
    "PERSISTENT": (PERSISTENT,),
    "NON_PERSISTENT": (NON_PERSISTENT,),
    "ALL": DOMAINS,
}


def namespace_of(context: BrokerContext, request: AdminRequest) -> str:
    """The namespace that a path names, which must be there. Raises :class:`AdminError`."""
    name = namespace_in(request)
    if not context.namespaces.has_namespace(name):
        raise AdminError(404, "Namespace does not exist")
    return name


async def list_namespaces(context: BrokerContext, request: AdminRequest) -> AdminReply:
    tenant = request.names["tenant"]
    if tenant not in context.namespaces.tenants:
        raise AdminError(404, "Tenant does not exist")
    return document(context.namespaces.namespaces(tenant))


async def get_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(policies_document(context, namespace_of(context, request)))


async def make_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = namespace_in(request)
    if request.names["tenant"] not in context.namespaces.tenants:
        raise AdminError(404, "Tenant does not exist")
    if context.namespaces.has_namespace(name):
        raise AdminError(409, "Namespace already exists")
    await context.namespaces.make_namespace(name)
    return DONE


async def drop_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = namespace_of(context, request)
    topics = context.topics.named(name)
    partitioned = [
        each for domain in DOMAINS for each in context.namespaces.partitioned_in(domain, name)
    ]
    if (topics or partitioned) and not request.flag("force"):
        raise AdminError(409, "Cannot delete non empty namespace")
    if name in context.config.namespaces:
        raise AdminError(409, "Cannot delete a namespace that is configured")
    for each in partitioned:
        await drop_partitioned(context, parse_topic(each))
    for each in topics:
        if each in context.core.topics:
            await drop(context, parse_topic(each))
    await context.namespaces.drop_namespace(name)
    await context.rights.look()  # what was granted is gone
    return DONE


async def list_topics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = namespace_of(context, request)
    mode = request.query.get("mode", "PERSISTENT")
    if mode not in MODES:
        raise AdminError(400, f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    return document(context.topics.named(name, MODES[mode]))


async def unload(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Every client looks its topics up again; there is nowhere else to go."""
    name = namespace_of(context, request)
    for each in context.topics.named(name):
        disconnect(context, context.core.topic(each))
    return DONE


async def get_bundles(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace_of(context, request)
    return document(ONE_BUNDLE)


BOUNDARIES: Final = ["0x00000000", "0xffffffff"]
ONE_BUNDLE: Final = {"boundaries": BOUNDARIES, "numBundles": 1}


def policies_document(context: BrokerContext, namespace: str) -> dict[str, Any]:
    """Everything that a namespace asks for, as Pulsar shows it."""
    own = context.namespaces.namespace_policies(namespace)
    quotas = {kind.value: quota.document for kind, quota in own.quotas.items()}
    found: dict[str, Any] = {
        "replication_clusters": [context.config.cluster],
        "bundles": ONE_BUNDLE,
        "backlog_quota_map": quotas,
        "message_ttl_in_seconds": own.message_ttl_s,
        "retention_policies": None if own.retention is None else own.retention.document,
        "deduplicationEnabled": own.deduplication,
        "schema_compatibility_strategy": own.schema_compatibility or "UNDEFINED",
        "properties": dict(own.properties),
        "auth_policies": {
            "namespace_auth": dict(own.permissions),
            "destination_auth": context.namespaces.topic_permissions(namespace),
            "subscription_auth_roles": dict(own.subscription_roles),
        },
        "subscription_auth_mode": (own.subscription_auth_mode or SubscriptionAuthMode.NONE).value,
    }
    if own.auto_topic is not None:
        found["autoTopicCreationOverride"] = own.auto_topic.document
    if own.inactive is not None:
        found["inactive_topic_policies"] = own.inactive.document
    return found


PATH: Final = "/admin/v2/namespaces/{tenant}/{namespace}"

ROUTES: Final[list[Route]] = [
    Route("GET", "/admin/v2/namespaces/{tenant}", on_tenant("LIST_NAMESPACES"), list_namespaces),
    Route("GET", PATH, on_policy("ALL", writes=False, of_topic=False), get_namespace),
    Route("PUT", PATH, on_tenant("CREATE_NAMESPACE"), make_namespace),
    Route("DELETE", PATH, on_tenant("DELETE_NAMESPACE"), drop_namespace),
    Route("GET", PATH + "/topics", on_namespace(NamespaceOperation.GET_TOPICS), list_topics),
    Route("PUT", PATH + "/unload", SUPER_USER, unload),
    Route("GET", PATH + "/bundles", on_namespace(NamespaceOperation.GET_BUNDLE), get_bundles),
]
