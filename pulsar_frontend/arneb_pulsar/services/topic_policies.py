"""Topic policies: what can hold by itself is handed to the core, here and nowhere else.

The rule: how long messages live and stay is the core's to keep, which is told again whenever a
policy or a subscription is new, and when the broker starts. The subscription of an AMQP queue is
the queue's: nothing is taken from it here.
"""

from collections.abc import Container
from typing import Final

import trio

from arneb_core.api.core import Core
from arneb_core.api.limits import Limits
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.names import RESERVED_SUBSCRIPTIONS, TopicName, topic_name_of
from arneb_pulsar.namespaces.policies import retention_of
from arneb_pulsar.services.namespaces import NamespaceRegistry
from arneb_pulsar.services.topic_limits import unacked_limits

NO_WAITING: Final = Limits(waits=False)
"""Of non-persistent topics: a message is for those who can take it when it comes."""

TOPICS_PER_TURN: Final = 20
"""Topics given policies before others have their turn: many administrators may ask at once."""


class TopicPolicies:
    """Gives the topics of one broker the policies that hold for them."""

    def __init__(self, core: Core, namespaces: NamespaceRegistry) -> None:
        self._core = core
        self._namespaces = namespaces
        self._ttls_s: dict[int, int] = {}
        """How long messages live, by the ids of the topics where they live for a time only."""
        self._shortened: set[int] = set()
        self._more = trio.Event()

    def __repr__(self) -> str:
        return f"<TopicPolicies, messages of {len(self._ttls_s)} topics expire>"

    def apply_all(self) -> None:
        """The broker has started: say again what the core does not keep."""
        for topic in self._core.topics.values():
            self.apply(topic)

    async def changed(self, namespace: str, changed: TopicName | None) -> None:
        """Have the policies of a namespace, or of one topic, hold."""
        inside = f"://{namespace}/"
        for count, topic in enumerate(list(self._core.topics.values())):
            if count % TOPICS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            name = topic_name_of(topic.name)
            gone = self._core.topics.get(topic.name) is not topic
            if inside not in topic.name or name is None or gone:
                continue
            if changed is None or name.base == changed:
                self.apply(topic)
                await topic.retain(*retention_of(self._namespaces.policies(name)))

    def apply(self, topic: Topic, only: Subscription | None = None) -> None:
        """The topic has a new policy, or ``only`` is a subscription to which somebody comes: have
        its messages live as long as they should. Others have what holds already."""
        name = topic_name_of(topic.name)
        if name is None:
            return
        subscriptions = topic.subscriptions.values() if only is None else (only,)
        if not name.is_persistent:
            for each in subscriptions:
                each.limit(NO_WAITING, None)
            return
        policies = self._namespaces.policies(name)
        for each in subscriptions:
            if each.consumers and each.name not in RESERVED_SUBSCRIPTIONS:
                each.limit_unacked(*unacked_limits(policies))
        ttl_s = policies.message_ttl_s
        before_s = self._ttls_s.get(topic.id)
        if not ttl_s and before_s is None:
            return
        limits = Limits(message_ttl_ms=ttl_s * 1000 if ttl_s else None)
        for each in subscriptions:
            if each.name not in RESERVED_SUBSCRIPTIONS:
                each.limit(limits, None)
        if ttl_s:
            self._ttls_s[topic.id] = ttl_s
            if before_s is None or ttl_s < before_s:
                self._shortened.add(topic.id)
                self._more.set()
        elif only is None:
            self._ttls_s.pop(topic.id, None)

    async def shortened(self) -> set[int]:
        """Wait until messages have to live shorter somewhere; the ids of those topics. For one
        caller, who looks at what consumers hold there."""
        await self._more.wait()
        found, self._shortened, self._more = self._shortened, set(), trio.Event()
        return found

    def forget_except(self, topics: Container[int]) -> None:
        """Forget others than these topics, by their ids: they are gone."""
        self._ttls_s = {topic: ttl_s for topic, ttl_s in self._ttls_s.items() if topic in topics}
