"""Policies: the settings of a namespace or a topic, by the names of Pulsar's admin API.

The rule: pure values. Each reads one JSON document and writes the same one again; None means unset,
and then the level above decides: topic, namespace, broker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from arneb_core.api.topics.settings import WITHOUT_END
from arneb_pulsar.namespaces.bundles import Boundaries, read_boundaries, written
from arneb_pulsar.namespaces.fields import (
    limit_reader,
    read_actions,
    read_auto_update,
    read_compatibility,
    read_properties,
    read_subscription_types,
    read_table,
    read_text,
    read_texts,
    read_threshold,
    read_truth,
    read_ttl,
)
from arneb_pulsar.namespaces.rates import DispatchRate, PublishRate, SubscribeRate
from arneb_pulsar.namespaces.rules import (
    AutoTopicCreation,
    DelayedDelivery,
    InactiveTopics,
    Persistence,
    Quota,
    QuotaType,
    RetentionPolicy,
    SubscriptionAuthMode,
    read_quotas,
    write_quotas,
)

MINUTE_MS: Final = 60_000
MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Policies:
    """All policies of one namespace or one topic."""

    retention: RetentionPolicy | None = None
    message_ttl_s: int | None = None
    """0 = messages do not expire."""
    quotas: Mapping[QuotaType, Quota] = field(default_factory=dict)
    inactive: InactiveTopics | None = None
    auto_topic: AutoTopicCreation | None = None
    auto_subscription: bool | None = None
    deduplication: bool | None = None
    schema_compatibility: str | None = None
    compaction_threshold: int | None = None
    publish_rate: PublishRate | None = None
    dispatch_rate: DispatchRate | None = None
    """For all subscriptions of a topic together."""
    subscription_dispatch_rate: DispatchRate | None = None
    """For each subscription."""
    subscription_rates: Mapping[str, DispatchRate] = field(default_factory=dict)
    """For single subscriptions, by name."""
    subscribe_rate: SubscribeRate | None = None
    max_producers: int | None = None
    """In this and the other limits, 0 = no limit."""
    max_consumers: int | None = None
    max_consumers_per_subscription: int | None = None
    max_subscriptions: int | None = None
    max_topics: int | None = None
    """For a namespace."""
    max_unacked_per_consumer: int | None = None
    max_unacked_per_subscription: int | None = None
    max_message_bytes: int | None = None
    subscription_expiration_min: int | None = None
    """How long a subscription without consumers stays; 0 = for ever."""
    subscription_types: Sequence[str] | None = None
    """Those that may be used; none = all of them."""
    delayed: DelayedDelivery | None = None
    schema_validation: bool | None = None
    """Producers without a schema are refused on a topic that has one."""
    schema_auto_update: str | None = None
    """The strategy for schemas that producers bring, by the names of an older interface."""
    may_update_schema: bool | None = None
    """Producers may add new schemas."""
    encryption_required: bool | None = None
    resource_group: str | None = None
    """For a namespace: the group whose rates its topics share."""
    pauses_on_ack_state: bool | None = None
    """Whether delivery may wait until acknowledgements are on disk. Here it has no effect: they
    always are within moments."""
    persistence: Persistence | None = None
    deduplication_snapshot_s: int | None = None
    bundles: Boundaries | None = None
    permissions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What roles may do, where authorization is on."""
    subscription_roles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Roles that may use a subscription, by its name, in all topics of a namespace; without any,
    all that may consume."""
    subscription_auth_mode: SubscriptionAuthMode | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    clusters: Sequence[str] | None = None
    """Of a topic: where it is. Only what everybody knows can be said: on this cluster."""

    @classmethod
    def parse(cls, document: Any) -> Self:
        """Read the policies in a document; unknown keys are ignored. Raises :class:`ValueError`."""
        value = read_table(document)
        return cls(
            **{name: read(value[name]) for name, (read, _) in _FORMS.items() if name in value}
        )

    @property
    def document(self) -> dict[str, Any]:
        """The document that :meth:`parse` reads."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: _FORMS[name][1](value)
            for name, value in values.items()
            if value not in (None, {})
        }

    def under(self, above: "Policies") -> "Policies":
        """Return these, with those of ``above`` where these are unset. A rate that bounds nothing
        counts as unset, as in Pulsar: it does not lift one from above."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        own = {
            name: value
            for name, value in values.items()
            if value is not None and getattr(value, "limits", True)
        }
        return replace(above, **own | {"quotas": {**above.quotas, **self.quotas}})


def retention_of(policies: Policies) -> tuple[int, int]:
    """Return the milliseconds and bytes that acknowledged entries stay, in the core's terms."""
    rule = policies.retention
    if rule is None:
        return 0, 0
    ms = WITHOUT_END if rule.minutes == WITHOUT_END else rule.minutes * MINUTE_MS
    size = WITHOUT_END if rule.megabytes == WITHOUT_END else rule.megabytes * MEGABYTE
    return ms, size


def _read_permissions(document: Any) -> dict[str, Sequence[str]]:
    return {role: read_actions(actions) for role, actions in read_table(document).items()}


def _read_subscription_roles(document: Any) -> dict[str, Sequence[str]]:
    return {name: read_texts(roles) for name, roles in read_table(document).items()}


def _read_subscription_rates(document: Any) -> dict[str, DispatchRate]:
    return {name: DispatchRate.parse(rate) for name, rate in read_table(document).items()}


def _write_subscription_rates(rates: Mapping[str, DispatchRate]) -> Any:
    return {name: rate.document for name, rate in rates.items()}


def _same(value: Any) -> Any:
    return value


def _document(value: Any) -> Any:
    return value.document


_FORMS: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "retention": (RetentionPolicy.parse, _document),
    "message_ttl_s": (read_ttl, _same),
    "quotas": (read_quotas, write_quotas),
    "inactive": (InactiveTopics.parse, _document),
    "auto_topic": (AutoTopicCreation.parse, _document),
    "auto_subscription": (read_truth, _same),
    "deduplication": (read_truth, _same),
    "schema_compatibility": (read_compatibility, _same),
    "compaction_threshold": (read_threshold, _same),
    "publish_rate": (PublishRate.parse, _document),
    "dispatch_rate": (DispatchRate.parse, _document),
    "subscription_dispatch_rate": (DispatchRate.parse, _document),
    "subscription_rates": (_read_subscription_rates, _write_subscription_rates),
    "subscribe_rate": (SubscribeRate.parse, _document),
    "max_producers": (limit_reader("max_producers"), _same),
    "max_consumers": (limit_reader("max_consumers"), _same),
    "max_consumers_per_subscription": (limit_reader("max_consumers_per_subscription"), _same),
    "max_subscriptions": (limit_reader("max_subscriptions"), _same),
    "max_topics": (limit_reader("max_topics"), _same),
    "max_unacked_per_consumer": (limit_reader("max_unacked_per_consumer"), _same),
    "max_unacked_per_subscription": (limit_reader("max_unacked_per_subscription"), _same),
    "max_message_bytes": (limit_reader("max_message_bytes"), _same),
    "subscription_expiration_min": (limit_reader("subscription_expiration_min"), _same),
    "subscription_types": (read_subscription_types, list),
    "delayed": (DelayedDelivery.parse, _document),
    "schema_validation": (read_truth, _same),
    "schema_auto_update": (read_auto_update, _same),
    "may_update_schema": (read_truth, _same),
    "encryption_required": (read_truth, _same),
    "resource_group": (read_text, _same),
    "pauses_on_ack_state": (read_truth, _same),
    "persistence": (Persistence.parse, _document),
    "deduplication_snapshot_s": (limit_reader("deduplication_snapshot_s"), _same),
    "bundles": (read_boundaries, written),
    "permissions": (_read_permissions, dict),
    "subscription_roles": (_read_subscription_roles, dict),
    "subscription_auth_mode": (SubscriptionAuthMode.parse, _document),
    "properties": (read_properties, dict),
    "clusters": (read_texts, list),
}
"""How each field is read from a document and written into one."""
