"""Policies: what a namespace or a topic asks for, in the words of Pulsar's admin API.

The rule: pure values. Each reads one JSON document and writes the same one again; what is None
is not asked for, and then the level above decides: topic, namespace, broker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from arneb_core.api.settings import WITHOUT_END
from arneb_pulsar.namespaces.fields import (
    read_actions,
    read_compatibility,
    read_properties,
    read_roles,
    read_table,
    read_threshold,
    read_truth,
    read_ttl,
)
from arneb_pulsar.namespaces.rates import PublishRate
from arneb_pulsar.namespaces.rules import (
    AutoTopicCreation,
    InactiveTopics,
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
    """Everything that one namespace or one topic asks for."""

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
    permissions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What roles may do, where authorization is on."""
    subscription_roles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Who may use a subscription, by its name, in all topics of a namespace; without any, all who
    may consume."""
    subscription_auth_mode: SubscriptionAuthMode | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, document: Any) -> Self:
        """The policies in a document; keys that are not of ours are left out. Raises
        :class:`ValueError`."""
        value = read_table(document)
        return cls(
            **{name: read(value[name]) for name, (read, _) in _FORMS.items() if name in value}
        )

    @property
    def document(self) -> dict[str, Any]:
        """What :meth:`parse` reads."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: _FORMS[name][1](value)
            for name, value in values.items()
            if value not in (None, {})
        }

    def under(self, above: "Policies") -> "Policies":
        """These, and what ``above`` says where they say nothing."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {name: value for name, value in own.items() if value is not None}
        return replace(above, **said | {"quotas": {**above.quotas, **self.quotas}})


def retention_of(policies: Policies) -> tuple[int, int]:
    """Milliseconds and bytes that acknowledged entries stay, in the core's words."""
    rule = policies.retention
    if rule is None:
        return 0, 0
    ms = WITHOUT_END if rule.minutes == WITHOUT_END else rule.minutes * MINUTE_MS
    size = WITHOUT_END if rule.megabytes == WITHOUT_END else rule.megabytes * MEGABYTE
    return ms, size


def _read_permissions(document: Any) -> dict[str, Sequence[str]]:
    return {role: read_actions(actions) for role, actions in read_table(document).items()}


def _read_subscription_roles(document: Any) -> dict[str, Sequence[str]]:
    return {name: read_roles(roles) for name, roles in read_table(document).items()}


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
    "permissions": (_read_permissions, dict),
    "subscription_roles": (_read_subscription_roles, dict),
    "subscription_auth_mode": (SubscriptionAuthMode.parse, _document),
    "properties": (read_properties, dict),
}
"""How each field is read from a document and written into one."""
