"""The lifecycle of topics: used, terminated, unloaded and removed, and what their clients are sent.

The rule: a change is made durable first; then connected clients are notified.
"""

from collections.abc import Callable

from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import TopicName
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.topic_access import check_common


def is_connected(context: BrokerContext, topic: Topic) -> bool:
    """Return whether it has producers, or Pulsar consumers."""
    return bool(context.producers.of(topic) or context.consumers.of(topic))


def is_used(context: BrokerContext, topic: Topic) -> bool:
    """Return whether it has producers, or consumers that expect a certain schema."""
    consumers = sum(len(each.consumers) for each in topic.subscriptions.values())
    easy = sum(each.takes_any for each in context.consumers.of(topic))
    return bool(context.producers.of(topic)) or consumers > easy


def tell_if_ended(context: BrokerContext, topic: Topic, subscription: Subscription) -> None:
    """Tell the consumers of a subscription if they have reached the end of a terminated topic."""
    if topic.id in context.namespaces.ended and not subscription.statistics().backlog_entries:
        context.consumers.end_reached(topic, subscription)


async def terminate(context: BrokerContext, topic: Topic) -> None:
    """Terminate the topic, and tell its clients. Raises :class:`CommitFailed`."""
    await context.namespaces.terminate(topic)
    disconnect_producers(context, topic)
    for subscription in topic.subscriptions.values():
        tell_if_ended(context, topic, subscription)


def disconnect_producers(context: BrokerContext, topic: Topic) -> None:
    """Have the producers of a topic reconnect."""
    for claim in context.producers.of(topic):
        claim.holder.owner.disconnect(claim.holder.key)


def disconnect(context: BrokerContext, topic: Topic) -> None:
    """Have the producers and consumers of a topic reconnect, whatever its subscribe rate."""
    context.subscribe_rates.forget(topic)
    disconnect_producers(context, topic)
    for attached in context.consumers.of(topic):
        attached.disconnect()


async def drop(
    context: BrokerContext, name: TopicName, *, only_if: Callable[[Topic], bool] | None = None
) -> None:
    """Remove a topic even if it is in use, or only ``only_if``. Raises as :meth:`Topics.drop`."""
    topic = context.core.topic(name.core_name)
    check_common(topic)
    if name.partition < 0:
        async with context.schemas.removal(name) as schemas:
            await context.topics.drop(name, schemas, only_if=only_if)
    else:
        await context.topics.drop(name, only_if=only_if)
    disconnect(context, topic)


async def drop_partitioned(
    context: BrokerContext, name: TopicName, *, only_if: Callable[[Topic], bool] | None = None
) -> None:
    """Remove a partitioned topic, as :func:`drop`."""
    parts = [context.core.topic(each.core_name) for each in context.topics.parts(name)]
    async with context.schemas.removal(name) as schemas:
        await context.topics.drop_partitioned(name, schemas, only_if=only_if)
    for topic in parts:
        disconnect(context, topic)


def forget_gone(context: BrokerContext) -> None:
    """Forget what is known of topics that are gone, however they were deleted."""
    there = {topic.id for topic in context.core.topics.values()}
    context.producers.forget_except(there)
    context.consumers.forget_except(there)
    context.rates.forget_except(there)
    context.deduplications.forget_except(there)
    context.throttles.forget_except(there)
    context.compactor.forget_except(there)
    context.topic_policies.forget_except(there)
    context.transactions.memory.forget_except(there)
