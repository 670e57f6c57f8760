"""Topic policies: hands the policies that the core can apply by itself to the core.

The rule: TTL and retention are applied by the core, which gets them whenever a policy or a
subscription is new, and when the broker starts. The subscription of an AMQP queue belongs to the
queue: nothing is taken from it here.
"""

from collections.abc import Container
from typing import Final

import trio

from arneb_core.api.core import Core
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import RESERVED_SUBSCRIPTIONS, TopicName, topic_name_of
from arneb_pulsar.namespaces.policies import retention_of
from arneb_pulsar.services.limits.topic_limits import unacked_limits
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry

NO_WAITING: Final = Limits(waits=False)
"""Limits of non-persistent topics: a message is for consumers that can take it when it comes."""

TOPICS_PER_TURN: Final = 20
"""Topics given policies before others have their turn: many administrators may ask at once."""


class TopicPolicies:
    """Gives the topics of one broker their policies."""

    def __init__(self, core: Core, namespaces: NamespaceRegistry) -> None:
        self._core = core
        self._namespaces = namespaces
        self._ttls_s: dict[int, int] = {}
        """The TTL by topic id, for topics that have one."""
        self._shortened: set[int] = set()
        self._more = trio.Event()

    def __repr__(self) -> str:
        return f"<TopicPolicies, messages of {len(self._ttls_s)} topics expire>"

    def apply_all(self) -> None:
        """Tell the core, at a start, what it does not store."""
        for topic in self._core.topics.values():
            self.apply(topic)

    async def changed(self, namespace: str, changed: TopicName | None) -> None:
        """Apply changed policies of a namespace, or of one topic."""
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
        """Apply the policies to a topic, or to ``only``, a subscription that gets a consumer: the
        others have them already."""
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
        """Wait until the TTL of some topics was shortened; return their ids. For one caller, which
        checks the messages that consumers hold there."""
        await self._more.wait()
        found, self._shortened, self._more = self._shortened, set(), trio.Event()
        return found

    def forget_except(self, topics: Container[int]) -> None:
        """Forget all topics but these ids: the others are gone."""
        self._ttls_s = {topic: ttl_s for topic, ttl_s in self._ttls_s.items() if topic in topics}
