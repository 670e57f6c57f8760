"""The consumers of every topic, over all connections.

The rule: a consumer is here from its attachment until the core or its client lets it go, and its
connection is notified before another consumer takes its place.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.key_sharing import IN_ORDER, KeySharing
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.packing.counts import ConsumerCounts
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.session.interface.assigned import NOWHERE, Assigned
from arneb_pulsar.session.interface.effects import ConsumerKey
from arneb_pulsar.session.interface.events import EndReached


class ConsumerOwner(Protocol):
    """The consumers of one connection."""

    def closed(self, key: ConsumerKey, assigned: Assigned = NOWHERE) -> None:
        """Forget a detached consumer and tell its client, which may subscribe again, here or at the
        ``assigned`` broker."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ClientConsumer:
    """A consumer of the core with its connection, and its key there."""

    connection: ClientConnection
    owner: ConsumerOwner
    key: ConsumerKey
    topic: Topic
    subscription: Subscription
    consumer: Consumer
    takes_any: bool = False
    """It takes messages of any schema."""
    compacted: bool = False
    """It skips superseded messages."""
    since: str = ""
    """When it came."""
    counts: ConsumerCounts = field(default_factory=ConsumerCounts)
    """What it was sent."""
    sharing: KeySharing = IN_ORDER
    """How it wants keys to be shared out, if Key_Shared."""

    def __repr__(self) -> str:
        where = f"{self.topic.name}/{self.subscription.name}"
        return f"<ClientConsumer {where}/{self.consumer.name} by {self.connection.address}>"

    def disconnect(self, assigned: Assigned = NOWHERE) -> None:
        """Detach it, and have its client subscribe again, here or at the ``assigned`` broker."""
        self.consumer.detach()
        self.owner.closed(self.key, assigned)


class ConsumerRegistry:
    """The consumers of all topics."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, dict[ClientConsumer, None]]] = {}
        """By the names of topic and subscription; no dictionary is empty."""
        self._left: dict[int, dict[str, ConsumerCounts]] = {}
        """What consumers that have left were sent, by the topic's id and the subscription."""
        self._departed_bytes: dict[int, int] = {}
        """Bytes sent for subscriptions that are gone, by the topic's id."""

    def __repr__(self) -> str:
        return f"<ConsumerRegistry {len(self.all())} on {len(self._by_topic)} topics>"

    def add(self, attached: ClientConsumer) -> None:
        """Add an attached consumer."""
        subscriptions = self._by_topic.setdefault(attached.topic.name, {})
        subscriptions.setdefault(attached.subscription.name, {})[attached] = None

    def remove(self, attached: ClientConsumer) -> None:
        """Remove a consumer that is no longer attached."""
        topic, subscription = attached.topic.name, attached.subscription.name
        subscriptions = self._by_topic[topic]
        left = self._left.setdefault(attached.topic.id, {})
        left.setdefault(subscription, ConsumerCounts()).take_over(attached.counts)
        del subscriptions[subscription][attached]
        if not subscriptions[subscription]:
            del subscriptions[subscription]
            if not subscriptions:
                del self._by_topic[topic]

    def has(self, attached: ClientConsumer) -> bool:
        """Return whether it is still attached."""
        subscriptions = self._by_topic.get(attached.topic.name, {})
        return attached in subscriptions.get(attached.subscription.name, {})

    def of(self, topic: Topic) -> list[ClientConsumer]:
        """Return the consumers of a topic."""
        subscriptions = self._by_topic.get(topic.name, {})
        return [each for found in subscriptions.values() for each in found if each.topic is topic]

    def counts(self, topic: Topic, subscription: Subscription) -> ConsumerCounts:
        """Return what all consumers of a subscription, past ones too, were sent since the start."""
        total = ConsumerCounts()
        if (left := self._left.get(topic.id, {}).get(subscription.name)) is not None:
            total.take_over(left)
        for each in self._by_topic.get(topic.name, {}).get(subscription.name, {}):
            if subscription is each.subscription:
                total.take_over(each.counts)
        return total

    def forget_subscriptions(self, topic: Topic) -> None:
        """Keep only the bytes sent for subscriptions that the topic no longer has."""
        left = self._left.get(topic.id, {})
        for name in [each for each in left if each not in topic.subscriptions]:
            departed = self._departed_bytes.get(topic.id, 0)
            self._departed_bytes[topic.id] = departed + left.pop(name).bytes

    def delivered_bytes(self, topic: Topic) -> int:
        """Return the bytes sent from a topic since the start, to past consumers too."""
        left = sum(each.bytes for each in self._left.get(topic.id, {}).values())
        present = sum(each.counts.bytes for each in self.of(topic))
        return self._departed_bytes.get(topic.id, 0) + left + present

    def forget_except(self, topics: Container[int]) -> None:
        """Forget all topics but these ids: the others are gone."""
        for topic in [each for each in self._left if each not in topics]:
            del self._left[topic]
        for topic in [each for each in self._departed_bytes if each not in topics]:
            del self._departed_bytes[topic]

    def connections(self, topic: str, subscription: str) -> Iterable[ClientConnection]:
        """Return the connections with consumers on a subscription, each once."""
        attached = self._by_topic.get(topic, {}).get(subscription, {})
        return list(dict.fromkeys(each.connection for each in attached))

    def end_reached(self, topic: Topic, subscription: Subscription) -> None:
        """Tell the consumers of a subscription that they have reached the end of the topic."""
        for each in list(self._by_topic.get(topic.name, {}).get(subscription.name, {})):
            if each.subscription is subscription:
                each.connection.tell(EndReached(each.key))

    def all(self) -> list[ClientConsumer]:
        """Return all consumers."""
        subscriptions = self._by_topic.values()
        return [each for by_name in subscriptions for found in by_name.values() for each in found]
