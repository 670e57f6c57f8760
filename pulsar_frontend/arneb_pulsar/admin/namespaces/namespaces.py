"""Namespaces: created, listed and removed, and the list of their topics."""

from typing import Any, Final

from arneb_pulsar.admin.calls.paths import namespace_in
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_namespace, on_policy, on_tenant
from arneb_pulsar.admin.namespaces.creation import policies_of
from arneb_pulsar.authorization.operations import NamespaceOperation
from arneb_pulsar.names import (
    DOMAINS,
    ENTITY,
    NON_PERSISTENT,
    PERSISTENT,
    SYSTEM_NAMESPACE,
    parse_topic,
)
from arneb_pulsar.namespaces.bundles import (
    BUNDLES_DEFAULT,
    Boundaries,
    evenly,
    written,
)
from arneb_pulsar.namespaces.rules import SubscriptionAuthMode
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.topic_lifecycle import drop, drop_partitioned

MODES: Final = {
    "PERSISTENT": (PERSISTENT,),
    "NON_PERSISTENT": (NON_PERSISTENT,),
    "ALL": DOMAINS,
}


NOT_HERE: Final[dict[str, Any]] = {
    "allowed_clusters": [],
    "replicatorDispatchRate": {},
    "latency_stats_sample_rate": {},
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "deleted": False,
    "migrated": False,
}
"""Policies of a namespace that cannot be set here, as Pulsar shows them when unset."""


def namespace_of(
    context: BrokerContext, request: AdminRequest, otherwise: str = "Namespace does not exist"
) -> str:
    """Return the namespace that a path names, which must exist. Raises :class:`AdminError`."""
    name = namespace_in(request)
    if not context.namespaces.has_namespace(name):
        raise AdminError(404, otherwise)
    return name


async def list_namespaces(context: BrokerContext, request: AdminRequest) -> AdminReply:
    tenant = request.names["tenant"]
    if not ENTITY.fullmatch(tenant):
        raise AdminError(412, "Tenant name is not valid")
    if tenant not in context.namespaces.tenants:
        raise AdminError(404, "Tenant not found")
    return document(context.namespaces.namespaces(tenant))


async def get_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(policies_document(context, namespace_of(context, request)))


async def make_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = namespace_in(request)
    if request.names["tenant"] not in context.namespaces.tenants:
        raise AdminError(404, "Tenant does not exist")
    if context.namespaces.has_namespace(name):
        raise AdminError(409, "Namespace already exists")
    policies = policies_of(context, request)
    await context.namespaces.change_namespace(name, lambda _: policies)
    return DONE


async def drop_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = namespace_of(context, request, f"Namespace {namespace_in(request)} does not exist.")
    topics = context.topics.named(name)
    partitioned = [
        each for domain in DOMAINS for each in context.namespaces.partitioned_in(domain, name)
    ]
    if (topics or partitioned) and not request.flag("force"):
        raise AdminError(409, "Cannot delete non empty namespace")
    if name in context.config.namespaces or name == SYSTEM_NAMESPACE:
        raise AdminError(409, "Cannot delete a namespace that is configured")
    for each in partitioned:
        await drop_partitioned(context, parse_topic(each))
    for each in topics:
        if each in context.core.topics:
            await drop(context, parse_topic(each))
    await context.namespaces.drop_namespace(name)
    await context.rights.look()  # its grants are gone
    return DONE


async def list_topics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = namespace_of(context, request)
    mode = request.query.get("mode") or "PERSISTENT"
    if mode not in MODES:
        raise AdminError(400, f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    topics = context.topics
    listed = topics.named if request.flag("includeSystemTopic") else topics.listed
    return document(listed(name, MODES[mode]))


def boundaries_of(context: BrokerContext, namespace: str) -> Boundaries:
    """Return where the bundles of a namespace begin."""
    own = context.namespaces.namespace_policies(namespace).bundles
    return evenly(BUNDLES_DEFAULT) if own is None else own


def bundles_document(context: BrokerContext, namespace: str) -> dict[str, Any]:
    """Return the bundles of a namespace."""
    boundaries = boundaries_of(context, namespace)
    return {"boundaries": written(boundaries), "numBundles": len(boundaries) - 1}


def policies_document(context: BrokerContext, namespace: str) -> dict[str, Any]:
    """Return all policies of a namespace, as Pulsar shows them."""
    own = context.namespaces.namespace_policies(namespace)
    quotas = {kind.value: quota.document for kind, quota in own.quotas.items()}
    found: dict[str, Any] = {
        "replication_clusters": [context.config.cluster],
        **NOT_HERE,
        "bundles": bundles_document(context, namespace),
        "backlog_quota_map": quotas,
        "schema_compatibility_strategy": own.schema_compatibility or "UNDEFINED",
        "properties": dict(own.properties),
        "auth_policies": {
            "namespace_auth": dict(own.permissions),
            "destination_auth": context.namespaces.topic_permissions(namespace),
            "subscription_auth_roles": dict(own.subscription_roles),
        },
        "subscription_auth_mode": (own.subscription_auth_mode or SubscriptionAuthMode.NONE).value,
    }
    shown: dict[str, Any] = {
        "message_ttl_in_seconds": own.message_ttl_s,
        "retention_policies": None if own.retention is None else own.retention.document,
        "deduplicationEnabled": own.deduplication,
        "encryption_required": own.encryption_required or False,
        "schema_validation_enforced": own.schema_validation or False,
        "is_allow_auto_update_schema": own.may_update_schema is not False,
        "subscription_types_enabled": list(own.subscription_types or ()),
        "max_producers_per_topic": own.max_producers,
        "max_consumers_per_topic": own.max_consumers,
        "max_consumers_per_subscription": own.max_consumers_per_subscription,
        "max_subscriptions_per_topic": own.max_subscriptions,
        "max_topics_per_namespace": own.max_topics,
        "max_unacked_messages_per_consumer": own.max_unacked_per_consumer,
        "max_unacked_messages_per_subscription": own.max_unacked_per_subscription,
        "subscription_expiration_time_minutes": own.subscription_expiration_min,
        "compaction_threshold": own.compaction_threshold,
        "dispatcherPauseOnAckStatePersistentEnabled": own.pauses_on_ack_state,
        "resource_group_name": own.resource_group,
        "schema_auto_update_compatibility_strategy": own.schema_auto_update,
        "persistence": None if own.persistence is None else own.persistence.document,
        "delayed_delivery_policies": None if own.delayed is None else own.delayed.document,
    }
    found |= {name: value for name, value in shown.items() if value is not None}
    cluster = context.config.cluster
    for name, rate in (
        ("topicDispatchRate", own.dispatch_rate),
        ("clusterDispatchRate", own.dispatch_rate),
        ("subscriptionDispatchRate", own.subscription_dispatch_rate),
        ("publishMaxMessageRate", own.publish_rate),
        ("clusterSubscribeRate", own.subscribe_rate),
    ):
        found[name] = {} if rate is None else {cluster: rate.document}
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
]
