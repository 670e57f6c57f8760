"""Policies of namespaces and topics: asked, set and taken back, each by the same three calls.

The rule: one table says which policies there are; setting one is durable before it is answered,
and holds for every topic below from then on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from arneb_pulsar.admin.exchange import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.namespaces import PATH, namespace_of
from arneb_pulsar.admin.router import Route
from arneb_pulsar.admin.rules import Rule, on_policy
from arneb_pulsar.admin.topics import routes_of_topics, topic_of
from arneb_pulsar.names import TopicName
from arneb_pulsar.namespaces.fields import (
    read_auto_subscription,
    read_compatibility,
    read_properties,
    read_threshold,
    read_truth,
    read_ttl,
)
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import PublishRate
from arneb_pulsar.namespaces.rules import (
    AutoTopicCreation,
    InactiveTopics,
    Quota,
    QuotaType,
    RetentionPolicy,
)
from arneb_pulsar.services.context import BrokerContext

INVALID: Final = 412
MALFORMED: Final = 400

NOTHING_SET: Final = AdminReply(200)
"""What is asked for was never set."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One policy: its path, its field of :class:`Policies`, and its form."""

    path: str
    field: str
    read: Callable[[Any], Any]
    set_by: str = "POST"
    write: Callable[[Any], Any] = lambda value: getattr(value, "document", value)
    query: str = ""
    """The query parameter that holds the value when there is no body."""
    unset: Any = None
    """What the field is when nothing is set."""
    invalid: int = INVALID
    """The status for a value that cannot be, as Pulsar has it for each."""
    joined: Callable[[Any, Any], Any] = lambda _, value: value
    """What is kept, of what was there and what is set."""
    name: str = ""
    """Of the right to it, in Pulsar's words."""

    def rule(self, *, writes: bool, of_topic: bool) -> Rule:
        """Who may ask for it, or change it."""
        return on_policy(self.name or self.field.upper(), writes=writes, of_topic=of_topic)


def _written_subscription(value: bool) -> Any:
    return {"allowAutoSubscriptionCreation": value}


RETENTION: Final = Kind("retention", "retention", RetentionPolicy.parse, invalid=MALFORMED)
TTL: Final = Kind("messageTTL", "message_ttl_s", read_ttl, query="messageTTL", name="TTL")
INACTIVE: Final = Kind(
    "inactiveTopicPolicies", "inactive", InactiveTopics.parse, name="INACTIVE_TOPIC"
)
THRESHOLD: Final = Kind(
    "compactionThreshold", "compaction_threshold", read_threshold, name="COMPACTION"
)
RATE: Final = Kind("publishRate", "publish_rate", PublishRate.parse, invalid=MALFORMED, name="RATE")
AUTO_SUBSCRIPTION: Final = Kind(
    "autoSubscriptionCreation",
    "auto_subscription",
    read_auto_subscription,
    write=_written_subscription,
    name="AUTO_SUBSCRIPTION_CREATION",
)
PROPERTIES: Final = Kind(
    "properties",
    "properties",
    read_properties,
    "PUT",
    dict,
    unset={},
    joined=lambda own, more: {**own, **more},
)


OF_NAMESPACES: Final = (
    RETENTION,
    TTL,
    INACTIVE,
    replace(THRESHOLD, set_by="PUT"),
    AUTO_SUBSCRIPTION,
    RATE,
    PROPERTIES,
    Kind("autoTopicCreation", "auto_topic", AutoTopicCreation.parse, name="AUTO_TOPIC_CREATION"),
    Kind("deduplication", "deduplication", read_truth),
    Kind(
        "schemaCompatibilityStrategy",
        "schema_compatibility",
        read_compatibility,
        "PUT",
        name="SCHEMA_COMPATIBILITY_STRATEGY",
    ),
)

OF_TOPICS: Final = (
    RETENTION,
    TTL,
    INACTIVE,
    THRESHOLD,
    AUTO_SUBSCRIPTION,
    RATE,
    Kind("deduplicationEnabled", "deduplication", read_truth),
    Kind(
        "schemaCompatibilityStrategy",
        "schema_compatibility",
        read_compatibility,
        "PUT",
        name="SCHEMA_COMPATIBILITY_STRATEGY",
    ),
)


@dataclass(frozen=True, slots=True)
class PolicyTarget:
    """Where policies are kept: of a namespace, or of one topic in it."""

    context: BrokerContext
    namespace: str
    topic: TopicName | None = None

    @property
    def own(self) -> Policies:
        """What is set here."""
        if self.topic is not None:
            return self.context.namespaces.record(str(self.topic)).policies
        return self.context.namespaces.namespace_policies(self.namespace)

    @property
    def applied(self) -> Policies:
        """What holds here."""
        if self.topic is not None:
            return self.context.namespaces.policies(self.topic)
        return self.own.under(self.context.config.policies)

    async def change(self, change: Callable[[Policies], Policies]) -> None:
        """Set something else, and have it hold."""
        registry, topic = self.context.namespaces, self.topic
        if topic is None:
            await registry.change_namespace(self.namespace, change)
        else:
            await registry.change_record(
                str(topic), lambda it: replace(it, policies=change(it.policies))
            )
        await self.context.topic_policies.changed(self.namespace, topic)


def target_of(context: BrokerContext, request: AdminRequest) -> PolicyTarget:
    """Whose policies a path means. Raises :class:`AdminError`."""
    if "topic" not in request.names:
        return PolicyTarget(context, namespace_of(context, request))
    topic = topic_of(context, request)
    if not context.topics.exists(topic):
        raise AdminError(404, f"Topic {topic} not found")
    return PolicyTarget(context, topic.namespace, topic.base)


def _routes(kind: Kind, below: str, *, of_topic: bool) -> list[Route]:
    """The calls that ask for, set and take back one policy."""

    async def get(context: BrokerContext, request: AdminRequest) -> AdminReply:
        target = target_of(context, request)
        policies = target.applied if request.flag("applied") else target.own
        value = getattr(policies, kind.field)
        if value is None and kind.field == "schema_compatibility":
            return document("UNDEFINED")
        return NOTHING_SET if value is None else document(kind.write(value))

    async def put(context: BrokerContext, request: AdminRequest) -> AdminReply:
        target = target_of(context, request)
        if not request.body and kind.query in request.query:
            wanted = AdminRequest(body=request.query[kind.query].encode()).json()
        else:
            wanted = request.json()
        try:
            value = kind.read(wanted)
        except ValueError as error:
            raise AdminError(kind.invalid, str(error)) from error
        await target.change(
            lambda own: replace(own, **{kind.field: kind.joined(getattr(own, kind.field), value)})
        )
        return DONE

    async def drop(context: BrokerContext, request: AdminRequest) -> AdminReply:
        target = target_of(context, request)
        await target.change(lambda own: replace(own, **{kind.field: kind.unset}))
        return DONE

    path = f"{below}/{kind.path}"
    return [
        Route("GET", path, kind.rule(writes=False, of_topic=of_topic), get),
        Route(kind.set_by, path, kind.rule(writes=True, of_topic=of_topic), put),
        Route("DELETE", path, kind.rule(writes=True, of_topic=of_topic), drop),
    ]


# Backlog quotas, of which there is one for sizes and one for ages


def _quota_type(request: AdminRequest) -> QuotaType:
    name = request.query.get("backlogQuotaType", QuotaType.SIZE.value)
    try:
        return QuotaType(name)
    except ValueError as error:
        raise AdminError(400, f"backlogQuotaType: got {name!r}") from error


async def get_quotas(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target = target_of(context, request)
    quotas = (target.applied if request.flag("applied") else target.own).quotas
    return document({kind.value: quota.document for kind, quota in quotas.items()})


async def put_quota(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target, kind = target_of(context, request), _quota_type(request)
    try:
        quota = Quota.parse(request.json())
    except ValueError as error:
        raise AdminError(400, str(error)) from error
    await target.change(lambda own: replace(own, quotas={**own.quotas, kind: quota}))
    return DONE


async def drop_quota(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target, kind = target_of(context, request), _quota_type(request)
    await target.change(
        lambda own: replace(
            own, quotas={each: quota for each, quota in own.quotas.items() if each is not kind}
        )
    )
    return DONE


def _quotas(*, of_topic: bool) -> list[Route]:
    path = "/{topic}" if of_topic else PATH
    read = on_policy("BACKLOG", writes=False, of_topic=of_topic)
    write = on_policy("BACKLOG", writes=True, of_topic=of_topic)
    return [
        Route("GET", f"{path}/backlogQuotaMap", read, get_quotas),
        Route("POST", f"{path}/backlogQuota", write, put_quota),
        Route("DELETE", f"{path}/backlogQuota", write, drop_quota),
    ]


ROUTES: Final[list[Route]] = [
    *(route for kind in OF_NAMESPACES for route in _routes(kind, PATH, of_topic=False)),
    *_quotas(of_topic=False),
    *routes_of_topics(
        *(route for kind in OF_TOPICS for route in _routes(kind, "/{topic}", of_topic=True)),
        *_quotas(of_topic=True),
    ),
]
