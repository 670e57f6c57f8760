"""Creation: the policies that a new namespace is given, in the form of the document that shows
them.

The rule: every policy that can be set on a namespace can be given at its creation, with the same
checks; the others are refused, not ignored. Source: Pulsar's ``Policies``,
``NamespacesBase.validatePoliciesAsync``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from arneb_pulsar.admin.calls.requests import AdminError, AdminRequest
from arneb_pulsar.admin.calls.unsupported import FILTERS, GEO_REPLICATION, OFFLOADING
from arneb_pulsar.admin.namespaces.policy_kinds import INVALID, MALFORMED, OF_NAMESPACES
from arneb_pulsar.namespaces.bundles import BUNDLES_DEFAULT, Boundaries, evenly, read_asked
from arneb_pulsar.namespaces.coercion import WrongKind, is_nothing
from arneb_pulsar.namespaces.fields import (
    read_actions,
    read_int,
    read_number,
    read_table,
    read_text,
    read_texts,
)
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import SubscriptionAuthMode, read_quotas
from arneb_pulsar.services.context import BrokerContext

FORBIDDEN: Final = 403

TABLES: Final[Mapping[str, str]] = {
    "retention_policies": "retention",
    "persistence": "persistence",
    "delayed_delivery_policies": "delayed",
    "inactive_topic_policies": "inactive",
    "autoTopicCreationOverride": "auto_topic",
    "autoSubscriptionCreationOverride": "auto_subscription",
    "properties": "properties",
}
"""The document's fields that are objects, with their names here."""

VALUES: Final[Mapping[str, str]] = {
    "message_ttl_in_seconds": "message_ttl_s",
    "subscription_expiration_time_minutes": "subscription_expiration_min",
    "deduplicationEnabled": "deduplication",
    "deduplicationSnapshotIntervalSeconds": "deduplication_snapshot_s",
    "encryption_required": "encryption_required",
    "schema_validation_enforced": "schema_validation",
    "schema_compatibility_strategy": "schema_compatibility",
    "schema_auto_update_compatibility_strategy": "schema_auto_update",
    "is_allow_auto_update_schema": "may_update_schema",
    "max_producers_per_topic": "max_producers",
    "max_consumers_per_topic": "max_consumers",
    "max_consumers_per_subscription": "max_consumers_per_subscription",
    "max_subscriptions_per_topic": "max_subscriptions",
    "max_topics_per_namespace": "max_topics",
    "max_unacked_messages_per_consumer": "max_unacked_per_consumer",
    "max_unacked_messages_per_subscription": "max_unacked_per_subscription",
    "compaction_threshold": "compaction_threshold",
    "dispatcherPauseOnAckStatePersistentEnabled": "pauses_on_ack_state",
}
"""The document's fields that are single values; empty text counts as ``null``."""

OF_CLUSTERS: Final[Mapping[str, str]] = {
    "clusterDispatchRate": "dispatch_rate",
    "topicDispatchRate": "dispatch_rate",
    "subscriptionDispatchRate": "subscription_dispatch_rate",
    "publishMaxMessageRate": "publish_rate",
    "clusterSubscribeRate": "subscribe_rate",
}
"""Rates, each by the name of its cluster."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "replicatorDispatchRate": GEO_REPLICATION,
    "offload_policies": OFFLOADING,
    "entryFilters": FILTERS,
}
"""Fields that are refused unless they are empty."""

NO_THRESHOLD: Final = -1

Kept = TypeVar("Kept")

KINDS: Final = {kind.field: kind for kind in OF_NAMESPACES}


def policies_of(context: BrokerContext, request: AdminRequest) -> Policies:
    """Return the policies of a new namespace. Raises :class:`AdminError`."""
    wanted = request.given()
    try:
        table = _table(wanted)
        _check_places(context, request.names["tenant"], table)
        _check_elsewhere(table)
        return Policies(**dict(_fields(context, table)))
    except WrongKind as error:
        raise AdminError(MALFORMED, str(error)) from error


def _fields(context: BrokerContext, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of :class:`Policies` that a document sets."""
    yield "bundles", _or_malformed(_bundles, table.get("bundles")) or _bundles_by_default(context)
    for name, field in TABLES.items():
        if (value := table.get(name)) is not None:
            yield field, _read(field, value)
    for name, field in VALUES.items():
        if not is_nothing(value := table.get(name)):
            yield field, _read(field, value)
    if types := table.get("subscription_types_enabled"):
        yield "subscription_types", _read("subscription_types", types)
    for name, field in OF_CLUSTERS.items():
        rates = _table(table.get(name))
        if (value := rates.get(context.config.cluster)) is not None:
            yield field, _read(field, value)
    if (quotas := table.get("backlog_quota_map")) is not None:
        yield "quotas", _or_malformed(read_quotas, quotas)
    if not is_nothing(mode := table.get("subscription_auth_mode")):
        yield "subscription_auth_mode", _or_malformed(SubscriptionAuthMode.parse, mode)
    if not is_nothing(group := table.get("resource_group_name")):
        if _or_malformed(read_text, group) not in context.resource_groups.all:
            raise AdminError(INVALID, "ResourceGroup does not exist")
        yield "resource_group", group
    if (rights := table.get("auth_policies")) is not None:
        roles = _table(read_table(rights).get("namespace_auth"))
        found = {role: _or_malformed(read_actions, actions) for role, actions in roles.items()}
        yield "permissions", found
        roles = _table(rights.get("subscription_auth_roles"))
        yield (
            "subscription_roles",
            {name: _or_malformed(read_texts, each) for name, each in roles.items()},
        )


def _table(value: Any) -> dict[str, Any]:
    """Return an object, which may be left out."""
    return {} if value is None else read_table(value)


def _read(field: str, value: Any) -> Any:
    """Parse a value as its own call does. Raises :class:`AdminError` with that call's status."""
    kind = KINDS[field]
    try:
        return kind.read(value)
    except WrongKind:
        raise
    except ValueError as error:
        raise AdminError(kind.invalid, str(error)) from error


def _or_malformed(read: Callable[[Any], Kept], value: Any) -> Kept:
    try:
        return read(value)
    except ValueError as error:
        raise AdminError(MALFORMED, str(error)) from error


def _bundles_by_default(context: BrokerContext) -> Boundaries | None:
    """Return the bundles of a namespace that asks for none. They are stored, so that it keeps them
    when the setting changes, unless they are those of a namespace for which none are stored."""
    count = context.config.namespace_bundles
    return None if count == BUNDLES_DEFAULT else evenly(count)


def _bundles(document: Any) -> Boundaries | None:
    """Return where the bundles that a document asks for begin; None: it asks for none."""
    if document is None:
        return None
    table = read_table(document)
    given, count = table.get("boundaries"), read_int(table, "numBundles", 0)
    if given is not None:
        read_texts(given)
    if count <= 0:
        return None
    return read_asked(given) if given else evenly(count)


def allowed_clusters(context: BrokerContext, tenant: str) -> list[str]:
    """Return where namespaces of a tenant may be; by default in this cluster."""
    allowed: list[str] = context.namespaces.tenant(tenant).get("allowedClusters", [])
    return allowed or [context.config.cluster]


def _check_places(context: BrokerContext, tenant: str, table: Mapping[str, Any]) -> None:
    """Check that the namespace is in this cluster only, and that its tenant is allowed there."""
    local, allowed = context.config.cluster, allowed_clusters(context, tenant)
    fields = ("replication_clusters", "allowed_clusters")
    asked = {name for field in fields for name in _texts(table.get(field))} or {local}
    for name in sorted(asked.difference(allowed)):
        text = f"Cluster [{name}] is not in the list of allowed clusters list for tenant"
        raise AdminError(FORBIDDEN, f"{text} [{tenant}]")
    if asked != {local}:
        raise AdminError(501, GEO_REPLICATION)


def _texts(value: Any) -> list[str]:
    """Return a list of texts, which may be left out."""
    return [] if value is None else read_texts(value)


def _check_elsewhere(table: Mapping[str, Any]) -> None:
    for name, reason in ELSEWHERE.items():
        if table.get(name) not in (None, {}):
            raise AdminError(501, reason)
    for name in ("offload_threshold", "offload_threshold_in_seconds"):
        if read_number(table, name, NO_THRESHOLD, NO_THRESHOLD) >= 0:
            raise AdminError(501, OFFLOADING)
