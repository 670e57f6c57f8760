"""Policies of namespaces and topics: read, set and removed, each by the same three calls.

The rule: one table (``policy_kinds``) lists the policies; setting one is durable before the call is
answered, and from then on applies to every topic below.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_policy
from arneb_pulsar.admin.namespaces.namespaces import PATH, namespace_of
from arneb_pulsar.admin.namespaces.policy_kinds import (
    NO_DISPATCH_RATE,
    OF_NAMESPACES,
    OF_TOPICS,
    Kind,
)
from arneb_pulsar.admin.topics.topics import routes_of_topics, topic_of
from arneb_pulsar.names import TopicName
from arneb_pulsar.namespaces.coercion import WrongKind, is_nothing
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import DispatchRate
from arneb_pulsar.namespaces.rules import NO_QUOTA, Quota, QuotaType, RetentionPolicy, fits
from arneb_pulsar.services.context import BrokerContext


@dataclass(frozen=True, slots=True)
class PolicyTarget:
    """The owner of policies: a namespace, or one topic in it."""

    context: BrokerContext
    namespace: str
    topic: TopicName | None = None

    @property
    def own(self) -> Policies:
        """Return the policies set on this target."""
        if self.topic is not None:
            return self.context.namespaces.record(str(self.topic)).policies
        return self.context.namespaces.namespace_policies(self.namespace)

    @property
    def applied(self) -> Policies:
        """Return the policies in force on this target."""
        if self.topic is not None:
            return self.context.namespaces.policies(self.topic)
        return self.context.namespaces.broker_and_namespace(self.namespace)

    async def change(self, change: Callable[[Policies], Policies]) -> None:
        """Change the policies and apply them."""
        registry, topic = self.context.namespaces, self.topic
        if topic is None:
            await registry.change_namespace(self.namespace, change)
        else:
            await registry.change_record(
                str(topic), lambda it: replace(it, policies=change(it.policies))
            )
        await self.context.topic_policies.changed(self.namespace, topic)


def target_of(context: BrokerContext, request: AdminRequest) -> PolicyTarget:
    """Return the target that a path names. Raises :class:`AdminError`."""
    if "topic" not in request.names:
        return PolicyTarget(context, namespace_of(context, request))
    topic = topic_of(context, request)
    if topic.partition >= 0:
        raise AdminError(412, "Not allowed to set/get topic policy for a partition")
    if not context.topics.exists(topic) or not _is_known(context, topic):
        raise AdminError(404, f"Topic {topic} not found")
    return PolicyTarget(context, topic.namespace, topic)


def _is_known(context: BrokerContext, topic: TopicName) -> bool:
    """Whether Pulsar finds an existing topic: a non-persistent one without partitions only while
    it has producers or subscriptions."""
    if topic.is_persistent or context.namespaces.partitions(topic):
        return True
    found = context.core.topic(topic.core_name)
    return bool(found.subscriptions or context.producers.of(found))


def _routes(kind: Kind, below: str, *, of_topic: bool) -> list[Route]:
    """Return the calls that read, set and remove one policy."""

    async def get(context: BrokerContext, request: AdminRequest) -> AdminReply:
        target = target_of(context, request)
        applies = kind.applies and of_topic and request.flag("applied")
        value = getattr(target.applied if applies else target.own, kind.field)
        if applies and kind.effective is not None and target.topic is not None:
            value = kind.effective(context, target.topic)
        if value is None:
            value = kind.default if applies or kind.default_shown else None
        return AdminReply(kind.absent) if value is None else document(kind.write(value))

    async def put(context: BrokerContext, request: AdminRequest) -> AdminReply:
        target = target_of(context, request)
        wanted = kind.empty
        if kind.query in request.query and not request.body:
            if not (text := request.query[kind.query]):
                return await drop(context, request)
            wanted = AdminRequest(body=text.encode()).json()
        elif request.body.strip():
            wanted = request.json()
        elif not kind.boxed and kind.empty is None:
            raise AdminError(400, "The request entity cannot be empty.")
        if kind.empty is not None and is_nothing(wanted):
            wanted = kind.empty
        if kind.boxed and (wanted is None or (kind.is_value and is_nothing(wanted))):
            return await drop(context, request)
        try:
            value = kind.read(wanted)
        except WrongKind as error:
            raise AdminError(400, str(error)) from error
        except ValueError as error:
            raise AdminError(kind.invalid, str(error)) from error
        if kind.check is not None:
            kind.check(context, value)
        if isinstance(value, RetentionPolicy):
            _check_retention(target, value)
        await target.change(
            lambda own: replace(own, **{kind.field: kind.joined(getattr(own, kind.field), value)})
        )
        return DONE

    async def drop(context: BrokerContext, request: AdminRequest) -> AdminReply:
        target = target_of(context, request)
        await target.change(lambda own: replace(own, **{kind.field: kind.unset}))
        return DONE

    path = f"{below}/{kind.path}"
    write = kind.rule(writes=True, of_topic=of_topic)
    routes = [
        Route("GET", path, kind.rule(writes=False, of_topic=of_topic), get),
        Route(kind.set_by, path, write, put),
    ]
    return [*routes, Route("DELETE", path, write, drop)] if kind.may_go else routes


# Backlog quotas: one for sizes and one for ages


def _broker_quota(target: PolicyTarget) -> Quota:
    """Return the quota that Pulsar compares with if none is set."""
    return target.context.namespaces.defaults.quotas.get(QuotaType.SIZE, NO_QUOTA)


def _check_retention(target: PolicyTarget, retention: RetentionPolicy) -> None:
    """Raise :class:`AdminError` if a backlog within its quota could exceed the retention. As in
    Pulsar, ages are checked for topics only."""
    quotas = target.context.namespaces.namespace_policies(target.namespace).quotas
    kinds: Iterable[QuotaType] = [QuotaType.SIZE] if quotas else []
    if target.topic is not None:
        quotas, kinds = {**quotas, **target.own.quotas}, QuotaType
    if not all(fits(quotas.get(kind, _broker_quota(target)), retention) for kind in kinds):
        where = "namespace" if target.topic is None else "topic"
        text = f"Retention Quota must exceed configured backlog quota for {where}."
        raise AdminError(412, f"{text} Please increase retention quota and retry")


def _check_quota(target: PolicyTarget, kind: QuotaType, quota: Quota) -> None:
    """Raise :class:`AdminError` if the retention does not cover a new quota."""
    above = target.context.namespaces.namespace_policies(target.namespace)
    retention = above.retention if target.own.retention is None else target.own.retention
    if target.topic is None and kind is not QuotaType.SIZE:
        quota = _broker_quota(target)
    if retention is not None and not fits(quota, retention):
        where = "namespace" if target.topic is None else "topic"
        text = f"Backlog Quota exceeds configured retention quota for {where}."
        raise AdminError(412, f"{text} Please increase retention quota and retry")


def _quota_type(request: AdminRequest) -> QuotaType:
    name = request.query.get("backlogQuotaType") or QuotaType.SIZE.value
    try:
        return QuotaType(name)
    except ValueError as error:
        raise AdminError(400, f"backlogQuotaType: got {name!r}") from error


async def get_quotas(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target = target_of(context, request)
    quotas = (target.applied if request.flag("applied") else target.own).quotas
    shown = {kind.value: quota.document for kind, quota in quotas.items()}
    if target.topic is not None and request.flag("applied"):
        shown = {kind.value: NO_QUOTA.document for kind in QuotaType} | shown
    return document(shown)


async def put_quota(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target, kind, wanted = target_of(context, request), _quota_type(request), request.given()
    if wanted is None and target.topic is not None:
        return await drop_quota(context, request)
    try:
        quota = Quota.parse(wanted)
    except ValueError as error:
        raise AdminError(400, str(error)) from error
    _check_quota(target, kind, quota)
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


# The rate of one subscription of a topic


async def get_rate(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target, name = target_of(context, request), request.names["subscription"]
    if request.flag("applied"):
        applied = target.applied
        rate = applied.subscription_rates.get(name, applied.subscription_dispatch_rate)
        return document((rate or NO_DISPATCH_RATE).document)
    found = target.own.subscription_rates.get(name)
    return AdminReply(200) if found is None else document(found.document)


async def put_rate(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target, name = target_of(context, request), request.names["subscription"]
    if (wanted := request.given()) is None:
        return DONE  # as in Pulsar, which changes nothing then
    try:
        rate = DispatchRate.parse(wanted)
    except ValueError as error:
        raise AdminError(400, str(error)) from error
    await target.change(
        lambda own: replace(own, subscription_rates={**own.subscription_rates, name: rate})
    )
    return DONE


async def drop_rate(context: BrokerContext, request: AdminRequest) -> AdminReply:
    target, name = target_of(context, request), request.names["subscription"]

    def without(own: Policies) -> Policies:
        rates = {key: rate for key, rate in own.subscription_rates.items() if key != name}
        return replace(own, subscription_rates=rates)

    await target.change(without)
    return DONE


RATE_PATH: Final = "/{topic}/{subscription}/dispatchRate"
READ_RATE: Final = on_policy("RATE", writes=False, of_topic=True)
WRITE_RATE: Final = on_policy("RATE", writes=True, of_topic=True)

ROUTES: Final[list[Route]] = [
    *(route for kind in OF_NAMESPACES for route in _routes(kind, PATH, of_topic=False)),
    *_quotas(of_topic=False),
    *routes_of_topics(
        *(route for kind in OF_TOPICS for route in _routes(kind, "/{topic}", of_topic=True)),
        *_quotas(of_topic=True),
        Route("GET", RATE_PATH, READ_RATE, get_rate),
        Route("POST", RATE_PATH, WRITE_RATE, put_rate),
        Route("DELETE", RATE_PATH, WRITE_RATE, drop_rate),
    ),
]
