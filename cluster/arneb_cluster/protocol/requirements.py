"""Requirements: the settings that a Pulsar cluster must have to hold a shard.

The rule: a setting that could lose or duplicate a confirmed commit is refused at the start, with
one line that says what to set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

ACK_QUORUM_MIN: Final = 2
READERS_WAIT: Final = "managedLedgerNewEntriesCheckDelayInMillis"
"""How long a broker waits before it notifies a reader at the end of the topic of new entries."""
READERS_WAIT_MS: Final = 10
"""The default of that setting."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """A setting with a wrong value."""

    setting: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"set {self.setting} to {self.expected}; it is {self.found}"


def unmet(policies: Mapping[str, Any], broker: Mapping[str, Any]) -> Iterator[Unmet]:
    """Yield the wrong settings: ``policies`` are the namespace's from the admin API, ``broker`` is
    the broker's configuration, which applies where the namespace sets nothing."""
    deduplicates = policies.get("deduplicationEnabled")
    if deduplicates is None:
        deduplicates = _is_true(broker.get("brokerDeduplicationEnabled"))
    if not deduplicates:
        yield Unmet("the namespace's deduplication", "enabled", "disabled")
    interval = policies.get("deduplicationSnapshotIntervalSeconds")
    if interval is None:
        interval = _number(broker.get("brokerDeduplicationSnapshotIntervalSeconds"), 120)
    if interval <= 0:
        yield Unmet("the namespace's deduplication snapshot interval", "120 s", f"{interval} s")
    ttl_s = policies.get("message_ttl_in_seconds")
    if ttl_s is None:
        ttl_s = _number(broker.get("ttlDurationDefaultInSeconds"), 0)
    if ttl_s > 0:
        yield Unmet("the namespace's message TTL", "0", f"{ttl_s} s")
    quotas = policies.get("backlog_quota_map") or {}
    default_bytes = _number(broker.get("backlogQuotaDefaultLimitBytes"), -1)
    default_gb = _number(broker.get("backlogQuotaDefaultLimitGB"), -1)
    default_s = _number(broker.get("backlogQuotaDefaultLimitSecond"), -1)
    if quotas or max(default_bytes, default_gb, default_s) > 0:
        found = ", ".join(sorted(quotas)) or "the broker's default"
        yield Unmet("the namespace's backlog quota", "none", found)
    inactive = policies.get("inactive_topic_policies")
    deletes = (
        bool(inactive.get("deleteWhileInactive"))
        if inactive
        else _is_true(broker.get("brokerDeleteInactiveTopicsEnabled", "true"))
    )
    if deletes:
        yield Unmet("the namespace's deletion of inactive topics", "off", "on")
    expires = policies.get("subscription_expiration_time_minutes")
    if expires is None:
        expires = _number(broker.get("subscriptionExpirationTimeMinutes"), 0)
    if expires > 0:
        yield Unmet("the namespace's subscription expiration", "0", f"{expires} min")
    persistence = policies.get("persistence") or {}
    quorum = persistence.get("bookkeeperAckQuorum")
    if quorum is None:
        quorum = _number(broker.get("managedLedgerDefaultAckQuorum"), 2)
    if quorum < ACK_QUORUM_MIN:
        yield Unmet("the namespace's ack quorum", f"{ACK_QUORUM_MIN} or more", str(quorum))


def advice(broker: Mapping[str, Any]) -> Iterator[str]:
    """Yield advice on settings that only slow confirms down."""
    delay_ms = _number(broker.get(READERS_WAIT), READERS_WAIT_MS)
    if delay_ms > 0:
        yield (
            f"set {READERS_WAIT}=0 at the brokers: it is {delay_ms}, and each confirm may take "
            "that many milliseconds longer"
        )


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def _number(value: Any, default: int) -> int:
    try:
        return default if value in (None, "") else int(float(value))
    except ValueError:
        return default
