"""Policies: what a namespace or a topic asks for, in the words of Pulsar's admin API.

The rule: pure values. Each reads one JSON document and writes the same one again; what is None
is not asked for, and then the level above decides: topic, namespace, broker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Final, Self

from arneb_core.api.settings import WITHOUT_END
from arneb_pulsar.namespaces.rates import PublishRate

MINUTE_MS: Final = 60_000
MEGABYTE: Final = 1024 * 1024

PARTITIONS_MAX: Final = 10_000
"""Of one topic; each is a topic of its own. Pulsar sets no bound."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long acknowledged messages stay; -1 = without end, 0 and 0 = not at all."""

    minutes: int
    megabytes: int

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = _table(document)
        minutes = _number(value, "retentionTimeInMinutes", 0)
        megabytes = _number(value, "retentionSizeInMB", 0)
        if minutes < WITHOUT_END or megabytes < WITHOUT_END:
            raise ValueError("Invalid retention policy: expected -1 or more")
        if (minutes == 0) != (megabytes == 0):
            raise ValueError(
                "Invalid retention policy: a single limit of 0 is invalid when the other one is "
                "not; -1 ignores a limit"
            )
        return cls(minutes, megabytes)

    @property
    def document(self) -> Any:
        return {"retentionTimeInMinutes": self.minutes, "retentionSizeInMB": self.megabytes}


class QuotaType(Enum):
    """What a backlog quota bounds."""

    SIZE = "destination_storage"
    AGE = "message_age"


class QuotaAction(Enum):
    """What happens when the backlog is over its quota."""

    HOLD = "producer_request_hold"
    EXCEPTION = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class Quota:
    """A bound on a backlog; -1 = none."""

    limit_bytes: int
    limit_s: int
    action: QuotaAction

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = _table(document)
        size = _number(value, "limitSize", _number(value, "limit", WITHOUT_END))
        seconds = _number(value, "limitTime", WITHOUT_END)
        try:
            action = QuotaAction(value.get("policy"))
        except ValueError as error:
            known = ", ".join(each.value for each in QuotaAction)
            raise ValueError(f"policy: expected one of {known}, got {error}") from error
        return cls(size, seconds, action)

    @property
    def document(self) -> Any:
        return {
            "limit": self.limit_bytes,
            "limitSize": self.limit_bytes,
            "limitTime": self.limit_s,
            "policy": self.action.value,
        }


class InactiveMode(Enum):
    """Which topics are inactive: those without subscriptions, or whose have read everything."""

    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    CAUGHT_UP = "delete_when_subscriptions_caught_up"


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    """Whether, and when, topics go that nobody uses."""

    enabled: bool
    seconds: int
    mode: InactiveMode = InactiveMode.NO_SUBSCRIPTIONS

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = _table(document)
        mode = value.get("inactiveTopicDeleteMode", InactiveMode.NO_SUBSCRIPTIONS.value)
        seconds = _number(value, "maxInactiveDurationSeconds", 60)
        if seconds < 1:
            raise ValueError("maxInactiveDurationSeconds: expected more than 0")
        return cls(_truth(value.get("deleteWhileInactive", True)), seconds, InactiveMode(mode))

    @property
    def document(self) -> Any:
        return {
            "inactiveTopicDeleteMode": self.mode.value,
            "maxInactiveDurationSeconds": self.seconds,
            "deleteWhileInactive": self.enabled,
        }


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Whether topics come to be by being used, and with how many partitions (0 = plain)."""

    allowed: bool
    partitions: int = 0

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = _table(document)
        kind = value.get("topicType", "non-partitioned")
        if kind not in ("partitioned", "non-partitioned"):
            raise ValueError(f"topicType: expected partitioned or non-partitioned, got {kind!r}")
        partitions = 0
        if kind == "partitioned":
            partitions = _number(value, "defaultNumPartitions", 1)
            if not 0 < partitions <= PARTITIONS_MAX:
                raise ValueError(f"defaultNumPartitions: expected 1 to {PARTITIONS_MAX}")
        return cls(_truth(value.get("allowAutoTopicCreation", True)), partitions)

    @property
    def document(self) -> Any:
        found: dict[str, Any] = {"allowAutoTopicCreation": self.allowed}
        if self.partitions:
            return found | {"topicType": "partitioned", "defaultNumPartitions": self.partitions}
        return found | {"topicType": "non-partitioned"}


COMPATIBILITY: Final = frozenset(
    {
        "UNDEFINED",
        "ALWAYS_INCOMPATIBLE",
        "ALWAYS_COMPATIBLE",
        "BACKWARD",
        "FORWARD",
        "FULL",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "FULL_TRANSITIVE",
    }
)
"""Pulsar's schema compatibility strategies."""

ACTIONS: Final = frozenset({"produce", "consume", "functions", "sources", "sinks", "packages"})
"""What permissions are about."""


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
    """What roles may do. Kept and shown; there is no authorization, as in Pulsar by default."""
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, document: Any) -> Self:
        """The policies in a document; keys that are not of ours are left out. Raises
        :class:`ValueError`."""
        value = _table(document)
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


def kept_s(policies: Policies) -> float:
    """How long a topic stays for what it keeps."""
    rule = policies.retention
    if rule is None:
        return 0
    return float("inf") if rule.minutes == WITHOUT_END else rule.minutes * 60


def read_ttl(document: Any) -> int:
    """Seconds that messages live."""
    if type(document) is not int or not 0 <= document < 1 << 31:
        raise ValueError(f"Invalid value for message TTL: expected 0 or more, got {document!r}")
    return document


def read_truth(document: Any) -> bool:
    """True or false."""
    return _truth(document)


def read_auto_subscription(document: Any) -> bool:
    """``{"allowAutoSubscriptionCreation": …}``."""
    return _truth(_table(document).get("allowAutoSubscriptionCreation", True))


def read_compatibility(document: Any) -> str:
    """The name of a schema compatibility strategy."""
    if not isinstance(document, str) or document not in COMPATIBILITY:
        known = ", ".join(sorted(COMPATIBILITY))
        raise ValueError(f"expected one of {known}, got {document!r:.40}")
    return document


def read_threshold(document: Any) -> int:
    """Bytes of backlog after which a topic is compacted by itself; 0 = it is not."""
    if type(document) is not int or document < 0:
        raise ValueError(f"Invalid compaction threshold: expected 0 or more, got {document!r}")
    return document


def read_properties(document: Any) -> dict[str, str]:
    """Text by name."""
    found = _table(document)
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError("properties: expected text")
    return found


def _read_quotas(document: Any) -> dict[QuotaType, Quota]:
    return {QuotaType(name): Quota.parse(value) for name, value in _table(document).items()}


def _write_quotas(quotas: Mapping[QuotaType, Quota]) -> Any:
    return {kind.value: quota.document for kind, quota in quotas.items()}


def read_actions(document: Any) -> list[str]:
    """What a role may do."""
    if not isinstance(document, list) or not ACTIONS.issuperset(map(str, document)):
        raise ValueError(f"expected some of {', '.join(sorted(ACTIONS))}, got {document!r:.40}")
    return document


def _read_permissions(document: Any) -> dict[str, Sequence[str]]:
    return {role: read_actions(actions) for role, actions in _table(document).items()}


def _same(value: Any) -> Any:
    return value


def _document(value: Any) -> Any:
    return value.document


_FORMS: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "retention": (RetentionPolicy.parse, _document),
    "message_ttl_s": (read_ttl, _same),
    "quotas": (_read_quotas, _write_quotas),
    "inactive": (InactiveTopics.parse, _document),
    "auto_topic": (AutoTopicCreation.parse, _document),
    "auto_subscription": (read_truth, _same),
    "deduplication": (read_truth, _same),
    "schema_compatibility": (read_compatibility, _same),
    "compaction_threshold": (read_threshold, _same),
    "publish_rate": (PublishRate.parse, _document),
    "permissions": (_read_permissions, dict),
    "properties": (read_properties, dict),
}
"""How each field is read from a document and written into one."""


def _table(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError(f"expected a JSON object, got {document!r:.40}")
    return document


def _number(table: Mapping[str, Any], name: str, default: int) -> int:
    value = table.get(name, default)
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{name}: expected a whole number, got {value!r:.40}")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {value!r:.40}")
    return value
