"""Topic access: topics and subscriptions, as clients and administrators may use them.

The rule: only its owner may use a topic that belongs to a connection of another protocol, and no
client consumes from the broker's own subscriptions.
"""

from collections.abc import Mapping

from arneb_core.api.entries.entry import Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import NotAllowed, SubscriptionNotFound
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.history import HISTORY_PROPERTY
from arneb_core.api.topics.settings import EXCLUSIVE
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import COMPACTION, TopicName
from arneb_pulsar.packing.entries import batch_size_of
from arneb_pulsar.services.context import BrokerContext


async def open_topic(context: BrokerContext, name: TopicName, *, create: bool) -> Topic:
    """Return the topic, created if that is allowed. Raises as :meth:`Topics.open`, and
    :class:`NotAllowed` for a topic that belongs to a connection."""
    found = await context.topics.open(name, create=create)
    check_common(found)
    return found


async def subscribe(
    context: BrokerContext,
    topic: Topic,
    name: TopicName,
    subscription: str,
    *,
    durable: bool = True,
    initial: InitialPosition = InitialPosition.LATEST,
    start: Position | None = None,
    properties: Mapping[str, str] | None = None,
    forced: bool = False,
) -> Subscription:
    """Return the subscription, created if that is allowed or ``forced``. Raises as
    :meth:`Topic.subscribe`, and :class:`SubscriptionNotFound`."""
    check_common(topic)
    if subscription == COMPACTION:
        raise NotAllowed(f"Subscription {COMPACTION!r} is the broker's own")
    if (
        not forced
        and durable
        and subscription not in topic.subscriptions
        and not context.namespaces.policies(name).auto_subscription
    ):
        raise SubscriptionNotFound("Subscription does not exist")
    context.limits.check_subscription(topic, name, subscription)
    if not name.is_persistent:
        # There are no earlier messages, and none will wait: it goes with its last consumer.
        initial, start = InitialPosition.LATEST, None
        present = topic.subscriptions.get(subscription)
        durable = present is not None and present.permanent
    found = await topic.subscribe(
        subscription, durable=durable, initial=initial, start=start, properties=properties
    )
    context.topic_policies.apply(topic, found)
    if found.properties.get(HISTORY_PROPERTY) == "true" and durable:
        await context.core.keep_history(topic, subscription)
    return found


async def skip_superseded(topic: Topic, subscription: Subscription) -> None:
    """Make a subscription without consumers skip superseded messages."""
    marks = topic.subscriptions.get(COMPACTION)
    if marks is not None and not subscription.consumers:
        await subscription.overlook(marks)


async def last_message(topic: Topic, *, compacted: bool) -> tuple[Position | None, int]:
    """Return the last entry's position, and how many messages it has up to its last one; -1 = not a
    batch. ``compacted``: only what compaction has left counts. Raises :class:`StoreFailed`."""
    marks = topic.subscriptions.get(COMPACTION) if compacted else None
    if marks is None:
        found = await topic.last_entry()
        return (None, -1) if found is None else (found[0], _batch_size(found[1]))
    position = marks.last_unacknowledged
    entry = None if position is None else await topic.entry_at(position)
    if position is None or entry is None:
        return None, -1
    left = marks.masks.get(position)
    return position, _batch_size(entry) if left is None else left.bit_length()


def check_common(topic: Topic) -> None:
    """Raise :class:`NotAllowed` for a topic that belongs to one connection of another protocol."""
    owner = topic.properties.get(EXCLUSIVE)
    if owner is not None:
        text = f"Topic {topic.name} belongs to one {owner.upper()} connection, which is there"
        raise NotAllowed(text)


def _batch_size(entry: bytes) -> int:
    return batch_size_of(entry) if entry[1] == Origin.PULSAR else -1
