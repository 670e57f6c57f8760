"""Topic limits: whether the policies admit another producer, consumer or subscription.

The rule: when a limit is lowered, those present stay, and the next one is refused, in Pulsar's
words. Limits are checked at the moment of adding, without a wait in between. As in Pulsar, any
number of producers, consumers and subscriptions may use a system topic.
"""

from typing import Final

from arneb_core.api.errors import NotAllowed
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import RESERVED_SUBSCRIPTIONS, TopicName
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.services.clients.producers import ProducerRegistry
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

UNLIMITED: Final = 1 << 40
"""A limit on unacknowledged messages that is never met. Unlike no limit, it can be lowered while
the consumer is attached."""


class TopicLimits:
    """The bounds of the topics of one broker."""

    def __init__(self, namespaces: NamespaceRegistry, producers: ProducerRegistry) -> None:
        self._namespaces = namespaces
        self._producers = producers

    def __repr__(self) -> str:
        return f"<TopicLimits by {self._namespaces!r}>"

    def check_producer(self, topic: Topic, name: TopicName) -> None:
        """Raise :class:`RequestRefused` if one more producer is too many."""
        most = self._namespaces.policies(name).max_producers
        if most and len(self._producers.producing(topic)) >= most and not name.is_system:
            text = f"Topic '{name}' reached max producers limit"
            raise RequestRefused(pb.ProducerBusy, text)

    def check_consumer(
        self, topic: Topic, name: TopicName, subscription: Subscription, kind: SubscriptionType
    ) -> None:
        """Raise :class:`RequestRefused` if one more consumer is too many, or of a type that is not
        allowed."""
        policies = self._namespaces.policies(name)
        on_broker = self._namespaces.defaults.subscription_types
        if kind is SubscriptionType.KEY_SHARED and on_broker and kind.traits.title not in on_broker:
            # As in Pulsar, where this type is newer than the others, no policy can allow it again.
            raise RequestRefused(pb.NotAllowedError, "Key_Shared is disabled by the broker")
        if policies.subscription_types and kind.traits.title not in policies.subscription_types:
            text = f"Topic[{name}] doesn't support {kind.traits.title} sub type!"
            raise RequestRefused(pb.NotAllowedError, text)
        on_topic, on_each = policies.max_consumers, policies.max_consumers_per_subscription
        if on_topic and not name.is_system:
            present = sum(len(each.consumers) for each in topic.subscriptions.values())
            if present >= on_topic:
                raise RequestRefused(pb.ConsumerBusy, "Topic reached max consumers limit")
        if on_each and len(subscription.consumers) >= on_each:
            raise RequestRefused(pb.ConsumerBusy, "Subscription reached max consumers limit")

    def check_subscription(self, topic: Topic, name: TopicName, subscription: str) -> None:
        """Raise :class:`NotAllowed` if that subscription is one too many."""
        most = self._namespaces.policies(name).max_subscriptions
        if not most or subscription in topic.subscriptions or name.is_system:
            return
        if len(topic.subscriptions.keys() - RESERVED_SUBSCRIPTIONS) >= most:
            raise NotAllowed(f"Exceed the maximum number of subscriptions of the topic: {name}")


def unacked_limits(policies: Policies) -> tuple[int, int]:
    """Return how many messages a consumer, and all consumers of a subscription together, may leave
    unacknowledged."""
    of_each, of_all = policies.max_unacked_per_consumer, policies.max_unacked_per_subscription
    return of_each or UNLIMITED, of_all or UNLIMITED
