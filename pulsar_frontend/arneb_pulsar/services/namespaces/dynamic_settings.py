"""Dynamic settings: defaults of policies that are changed while the broker runs.

The rule: a setting is durable before it applies, and when it is dropped, the configuration file's
applies again. The names are Pulsar's.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from arneb_core.api.core import Core, Unit
from arneb_core.api.process.name_locks import NameLocks
from arneb_pulsar.namespaces.coercion import truth, whole_number
from arneb_pulsar.namespaces.fields import read_subscription_types
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import DispatchRate, PublishRate, SubscribeRate
from arneb_pulsar.namespaces.rules import (
    PARTITIONS_MAX,
    AutoTopicCreation,
    InactiveMode,
    InactiveTopics,
)
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry

SETTINGS: Final = "pulsar/setting/"

Change = Callable[[Policies, str], Policies]


class DynamicSettings:
    """The dynamic settings of one broker."""

    def __init__(self, core: Core, namespaces: NamespaceRegistry) -> None:
        self._core = core
        self._namespaces = namespaces
        self._configured = namespaces.defaults
        self._locks = NameLocks()
        self.values = {
            key.removeprefix(SETTINGS): raw.decode()
            for key, raw in core.metadata(SETTINGS).items()
            if key.removeprefix(SETTINGS) in CHANGES
        }
        """The settings that were set, as they were given."""
        self._apply()

    def __repr__(self) -> str:
        return f"<DynamicSettings {self.values}>"

    async def put(self, name: str, value: str) -> None:
        """Set one. Raises :class:`ValueError` for an invalid value."""
        CHANGES[name](self._configured, value)
        await self._keep(name, value)

    async def drop(self, name: str) -> None:
        """Go back to the configured value."""
        await self._keep(name, None)

    async def _keep(self, name: str, value: str | None) -> None:
        async with self._locks.holding(SETTINGS):
            raw = None if value is None else value.encode()
            await self._core.committed(Unit(metadata=[(SETTINGS + name, raw)]))
            if value is None:
                self.values.pop(name, None)
            else:
                self.values[name] = value
            self._apply()

    def _apply(self) -> None:
        defaults = self._configured
        for name, change in CHANGES.items():
            if name in self.values:
                defaults = change(defaults, self.values[name])
        if defaults != self._namespaces.defaults:
            self._namespaces.change_defaults(defaults)


def _number(value: str, least: int = -1) -> int:
    found = whole_number(value)
    if found is None or found < least:
        raise ValueError(f"expected a number of {least} or more, got {value!r:.40}")
    return found


def _truth(value: str) -> bool:
    if (found := truth(value)) is None:
        raise ValueError(f"expected true or false, got {value!r:.40}")
    return found


def _auto(policies: Policies) -> AutoTopicCreation:
    return policies.auto_topic or AutoTopicCreation(True)


def _set_type(policies: Policies, value: str) -> Policies:
    if value not in ("partitioned", "non-partitioned"):
        raise ValueError(f"expected partitioned or non-partitioned, got {value!r:.40}")
    partitions = max(1, _auto(policies).partitions) if value == "partitioned" else 0
    return replace(policies, auto_topic=replace(_auto(policies), partitions=partitions))


def _set_partitions(policies: Policies, value: str) -> Policies:
    if (count := _number(value, 1)) > PARTITIONS_MAX:
        raise ValueError(f"expected at most {PARTITIONS_MAX}, got {count}")
    own = _auto(policies)
    return replace(policies, auto_topic=replace(own, partitions=count if own.partitions else 0))


def _set_auto_topic(policies: Policies, value: str) -> Policies:
    return replace(policies, auto_topic=replace(_auto(policies), allowed=_truth(value)))


def _inactive(**changes: Callable[[str], Any]) -> Change:
    def change(policies: Policies, value: str) -> Policies:
        own = policies.inactive or InactiveTopics(True, 60)
        wanted = {name: read(value) for name, read in changes.items()}
        return replace(policies, inactive=replace(own, **wanted))

    return change


def _field(name: str, read: Callable[[str], Any]) -> Change:
    return lambda policies, value: replace(policies, **{name: read(value)})


def _rate(name: str, kind: Callable[[], Any], part: str, least: int = -1) -> Change:
    """Make the change of one number of a rate."""

    def change(policies: Policies, value: str) -> Policies:
        own = getattr(policies, name) or kind()
        return replace(policies, **{name: replace(own, **{part: _number(value, least)})})

    return change


def _types(value: str) -> list[str]:
    return read_subscription_types([each.strip() for each in value.split(",") if each.strip()])


CHANGES: Final[Mapping[str, Change]] = {
    "allowAutoTopicCreation": _set_auto_topic,
    "allowAutoTopicCreationType": _set_type,
    "defaultNumPartitions": _set_partitions,
    "allowAutoSubscriptionCreation": _field("auto_subscription", _truth),
    "brokerDeleteInactiveTopicsEnabled": _inactive(enabled=_truth),
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": _inactive(
        seconds=lambda value: _number(value, 1)
    ),
    "brokerDeleteInactiveTopicsMode": _inactive(mode=InactiveMode),
    "maxTopicsPerNamespace": _field("max_topics", lambda value: _number(value, 0)),
    "maxPublishRatePerTopicInMessages": _rate("publish_rate", PublishRate, "messages"),
    "maxPublishRatePerTopicInBytes": _rate("publish_rate", PublishRate, "bytes"),
    "dispatchThrottlingRatePerTopicInMsg": _rate("dispatch_rate", DispatchRate, "messages"),
    "dispatchThrottlingRatePerTopicInByte": _rate("dispatch_rate", DispatchRate, "bytes"),
    "dispatchThrottlingRatePerSubscriptionInMsg": _rate(
        "subscription_dispatch_rate", DispatchRate, "messages"
    ),
    "dispatchThrottlingRatePerSubscriptionInByte": _rate(
        "subscription_dispatch_rate", DispatchRate, "bytes"
    ),
    "subscribeThrottlingRatePerConsumer": _rate("subscribe_rate", SubscribeRate, "subscribes"),
    "subscribeRatePeriodPerConsumerInSecond": _rate("subscribe_rate", SubscribeRate, "period_s", 1),
    "isAllowAutoUpdateSchemaEnabled": _field("may_update_schema", _truth),
    "subscriptionTypesEnabled": _field("subscription_types", _types),
}
"""What each setting changes, in the order of application."""
