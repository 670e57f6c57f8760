"""Backlog quotas: which one a topic exceeds, and the eviction of excess and outdated messages.

The rule: the subscription of an AMQP queue counts like others but loses nothing; the compaction's
does not count.
"""

from arneb_core.api.entries.entry import read_header
from arneb_core.api.entries.position import Position, before
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import COMPACTION, RESERVED_SUBSCRIPTIONS, TopicName
from arneb_pulsar.namespaces.backlog import EVICTED_TO, position_leaving
from arneb_pulsar.namespaces.rules import Quota, QuotaType
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry


async def exceeded_quota(
    namespaces: NamespaceRegistry, topic: Topic, name: TopicName, now_ms: int
) -> tuple[QuotaType, Quota] | None:
    """Return the quota that the topic's backlog exceeds. Raises :class:`StoreFailed`."""
    quotas = namespaces.policies(name).quotas
    if not quotas:
        return None
    durable = [
        each
        for each in topic.subscriptions.values()
        if each.name != COMPACTION and each.statistics().durable
    ]
    size, age = quotas.get(QuotaType.SIZE), quotas.get(QuotaType.AGE)
    if size is not None and size.limit_bytes >= 0:
        backlog = max((each.backlog_bytes for each in durable), default=0)
        if backlog and backlog >= size.limit_bytes:
            return QuotaType.SIZE, size
    if age is not None and age.limit_s > 0:
        oldest = [await oldest_ms(topic, each) for each in durable]
        limit_ms = now_ms - age.limit_s * 1000
        if any(ms is not None and ms < limit_ms for ms in oldest):
            return QuotaType.AGE, age
    return None


async def evict(topic: Topic, kind: QuotaType, quota: Quota, now_ms: int) -> None:
    """Skip what exceeds the quota on all subscriptions."""
    if kind is QuotaType.SIZE:
        position = position_leaving(topic.ledgers(), int(quota.limit_bytes * EVICTED_TO))
        await _forget_through(topic, position)
    else:
        await forget_older(topic, now_ms - quota.limit_s * 1000)


async def forget_older(topic: Topic, published_ms: int, reason: Departure | None = None) -> None:
    """Skip messages published before ``published_ms`` on all subscriptions, those in flight too,
    for ``reason``. Raises :class:`StoreFailed` and :class:`CommitFailed`."""
    first = await topic.first_published(published_ms)
    await _forget_through(topic, topic.last if first is None else before(first), reason)


async def _forget_through(
    topic: Topic, position: Position | None, reason: Departure | None = None
) -> None:
    for each in list(topic.subscriptions.values()):
        is_ours = each.name in RESERVED_SUBSCRIPTIONS
        if position is not None and each.mark_delete < position and not is_ours:
            await each.skip_through(position, reason)


async def oldest_ms(topic: Topic, subscription: Subscription) -> int | None:
    """Return when the oldest message of the backlog was published."""
    waiting = subscription.unacknowledged(1)
    entry = await topic.entry_at(waiting[0]) if waiting else None
    return None if entry is None else read_header(entry).publish_time_ms
