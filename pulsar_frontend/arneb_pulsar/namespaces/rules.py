"""Rules: the policies that are more than one value, each as Pulsar's admin API writes it.

The rule: pure values. Each reads one JSON document and writes the same one again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Self

from arneb_core.api.topics.settings import WITHOUT_END
from arneb_pulsar.namespaces.coercion import WrongKind, is_nothing, named, real_number
from arneb_pulsar.namespaces.fields import read_flag, read_int, read_number, read_table

PARTITIONS_MAX: Final = 10_000
"""Partitions of one topic; each is a topic of its own. Pulsar sets no bound."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long acknowledged messages stay; -1 = without end, 0 and 0 = not at all."""

    minutes: int
    megabytes: int

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = read_table(document)
        minutes = read_number(value, "retentionTimeInMinutes", 0)
        megabytes = read_number(value, "retentionSizeInMB", 0)
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
    """What happens when the backlog exceeds its quota."""

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
        value = read_table(document)
        size = read_number(value, "limit", WITHOUT_END, WITHOUT_END)
        size = read_number(value, "limitSize", size, WITHOUT_END)
        seconds = read_number(value, "limitTime", WITHOUT_END, WITHOUT_END)
        names = [each.value for each in QuotaAction]
        if (action := named(value.get("policy"), names)) is None:
            text = f"policy: expected one of {', '.join(names)}, got {value.get('policy')!r:.40}"
            raise ValueError(text)
        return cls(size, seconds, QuotaAction(action))

    @property
    def document(self) -> Any:
        return {
            "limit": self.limit_bytes,
            "limitSize": self.limit_bytes,
            "limitTime": self.limit_s,
            "policy": self.action.value,
        }


NO_QUOTA: Final = Quota(WITHOUT_END, WITHOUT_END, QuotaAction.HOLD)


def fits(quota: Quota, retention: RetentionPolicy) -> bool:
    """Return whether the quota is below what retention keeps anyway."""
    if 0 < retention.megabytes * MEGABYTE <= quota.limit_bytes:
        return False
    return not 0 < retention.minutes * MINUTE_S <= quota.limit_s


MEGABYTE: Final = 1024 * 1024
MINUTE_S: Final = 60


class InactiveMode(Enum):
    """Which topics are inactive: those without subscriptions, or with all of them caught up."""

    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    CAUGHT_UP = "delete_when_subscriptions_caught_up"


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    """Whether, and when, unused topics are deleted."""

    enabled: bool
    seconds: int
    mode: InactiveMode = InactiveMode.NO_SUBSCRIPTIONS

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = read_table(document)
        names = [each.value for each in InactiveMode]
        given = value.get("inactiveTopicDeleteMode")
        mode = named(given, names)
        if mode is None and not is_nothing(given):
            raise WrongKind(f"expected one of {', '.join(names)}, got {given!r:.40}")
        seconds = read_number(value, "maxInactiveDurationSeconds", 0)
        enabled = read_flag(value.get("deleteWhileInactive"))
        return cls(enabled, seconds, InactiveMode(mode or names[0]))

    @property
    def document(self) -> Any:
        return {
            "inactiveTopicDeleteMode": self.mode.value,
            "maxInactiveDurationSeconds": self.seconds,
            "deleteWhileInactive": self.enabled,
        }


class SubscriptionAuthMode(Enum):
    """Whether the names of subscriptions depend on roles."""

    NONE = "None"
    PREFIX = "Prefix"
    """A name must begin with the consumer's role."""

    @classmethod
    def parse(cls, document: Any) -> Self:
        known = [each.value for each in cls]
        if (found := named(document, known)) is None:
            raise ValueError(f"expected one of {', '.join(known)}, got {document!r:.40}")
        return cls(found)

    @property
    def document(self) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Whether topics are created by being used, and with how many partitions (0 = plain)."""

    allowed: bool
    partitions: int = 0

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = read_table(document)
        allowed, kind = read_flag(value.get("allowAutoTopicCreation")), value.get("topicType")
        if kind is not None and not isinstance(kind, (str, int, float)):
            raise WrongKind(f"topicType: expected text, got {kind!r:.40}")
        has_number = not is_nothing(value.get("defaultNumPartitions"))
        partitions = read_int(value, "defaultNumPartitions", 0) if has_number else 0
        kind = kind.lower() if isinstance(kind, str) else kind
        flaw = ""
        if kind == "partitioned":
            if not has_number:
                flaw = "[defaultNumPartitions] cannot be null when the type is partitioned."
            elif not 0 < partitions <= PARTITIONS_MAX:
                flaw = "[defaultNumPartitions] cannot be less than 1 for partition type."
        elif kind != "non-partitioned":
            flaw = f"Unknown topic type [{'null' if kind is None else kind}]"
        elif has_number:
            flaw = "[defaultNumPartitions] is not allowed to be set when the type is non-partition."
        if not flaw:
            return cls(allowed, partitions)
        if not allowed:
            return cls(False)  # the rest of the document is not checked
        text = "Invalid configuration for autoTopicCreationOverride. the detail is"
        raise ValueError(f"{text} {flaw}")

    @property
    def document(self) -> Any:
        found: dict[str, Any] = {"allowAutoTopicCreation": self.allowed}
        if self.partitions:
            return found | {"topicType": "partitioned", "defaultNumPartitions": self.partitions}
        return found | {"topicType": "non-partitioned"}


@dataclass(frozen=True, slots=True)
class DelayedDelivery:
    """Whether messages may be delayed, and for how long."""

    active: bool = True
    tick_ms: int = 1000
    """For Pulsar's dispatchers; here nothing waits for a tick."""
    delay_ms_max: int = 0
    """0 or less = any delay."""

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = read_table(document)
        tick_ms = read_number(value, "tickTime", 0)
        delay_ms_max = read_number(value, "maxDeliveryDelayInMillis", 0)
        return cls(read_flag(value.get("active")), tick_ms, delay_ms_max)

    @property
    def document(self) -> Any:
        return {
            "tickTime": self.tick_ms,
            "active": self.active,
            "maxDeliveryDelayInMillis": self.delay_ms_max,
        }


@dataclass(frozen=True, slots=True)
class Persistence:
    """On how many bookies a Pulsar cluster would store a ledger; this broker stores it once, on its
    disk, and only checks these values."""

    ensemble: int = 1
    write_quorum: int = 1
    ack_quorum: int = 1
    mark_delete_rate: float = 1.0

    @classmethod
    def parse(cls, document: Any) -> Self:
        value = read_table(document)
        fields = [f"bookkeeper{name}" for name in PERSISTENCE_NAMES]
        numbers = [read_int(value, field, OF_A_LEDGER) for field in fields]
        for name, number, most in zip(PERSISTENCE_NAMES, numbers, (5, *numbers), strict=False):
            if not 0 < number <= most:
                raise ValueError(f"Bookkeeper-{name} must be <= {most} and > 0.")
        given = value.get("managedLedgerMaxMarkDeleteRate")
        if (rate := 0.0 if is_nothing(given) else real_number(given)) is None:
            raise ValueError(
                f"managedLedgerMaxMarkDeleteRate: expected a number, got {given!r:.40}"
            )
        ensemble, write_quorum, ack_quorum = numbers
        return cls(ensemble, write_quorum, ack_quorum, rate)

    @property
    def document(self) -> Any:
        return {
            "bookkeeperEnsemble": self.ensemble,
            "bookkeeperWriteQuorum": self.write_quorum,
            "bookkeeperAckQuorum": self.ack_quorum,
            "managedLedgerMaxMarkDeleteRate": self.mark_delete_rate,
        }


OF_A_LEDGER: Final = 2
"""Bookies, if a document does not say (``managedLedgerDefaultEnsembleSize`` and the like)."""

PERSISTENCE_NAMES: Final = ("Ensemble", "WriteQuorum", "AckQuorum")


def read_quotas(document: Any) -> dict[QuotaType, Quota]:
    """Read the quotas, by what they bound."""
    return {QuotaType(name): Quota.parse(value) for name, value in read_table(document).items()}


def write_quotas(quotas: Mapping[QuotaType, Quota]) -> Any:
    """Return the document that :func:`read_quotas` reads."""
    return {kind.value: quota.document for kind, quota in quotas.items()}
