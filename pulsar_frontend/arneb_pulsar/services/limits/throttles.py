"""Throttles: the topics whose producers must keep to a rate, or to limits on messages.

The rule: only topics with a rate or limits, of their own or of a resource group, are here; others
cost one look-up per run.
"""

from collections.abc import Callable, Container
from typing import Final

from arneb_core.api.topics.topic import Topic
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import NO_LIMITS, PublishLimits, PublishRate, Throttle
from arneb_pulsar.namespaces.rules import DelayedDelivery
from arneb_pulsar.services.clients.producers import ProducerRegistry
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.limits.resource_groups import ResourceGroups


class Throttles:
    """The throttles of all topics that have one; ``policies_of`` gives policies by topic name."""

    def __init__(
        self,
        producers: ProducerRegistry,
        policies_of: Callable[[str], Policies],
        clock: Clock,
        groups: ResourceGroups,
    ) -> None:
        self._producers = producers
        self._clock = clock
        self._policies_of = policies_of
        self._groups = groups
        self._by_topic: dict[int, Throttle] = {}

    def __repr__(self) -> str:
        return f"<Throttles of {len(self._by_topic)} topics>"

    def of(self, topic: Topic) -> Throttle | None:
        """Return the throttle of ``topic``; None if it has none."""
        return self._by_topic.get(topic.id)

    def refresh(self, topic: Topic) -> None:
        """Look up the topic's rate and limits again."""
        policies, present = self._policies_of(topic.name), self._by_topic.get(topic.id)
        rate, limits = policies.publish_rate or NO_RATE, limits_of(policies)
        shared = self._groups.throttle(policies.resource_group)
        if not rate.limits and limits is NO_LIMITS and shared is None:
            self._by_topic.pop(topic.id, None)
            return
        if present is None or present.rate != rate:
            present = self._by_topic[topic.id] = Throttle(rate, self._clock.now())
        present.limits, present.shared = limits, shared

    def refresh_all(self) -> None:
        """As :meth:`refresh`, for every topic with producers; for others it is done when one
        comes."""
        for topic in self._producers.topics():
            self.refresh(topic)

    def forget_except(self, topics: Container[int]) -> None:
        """Forget all topics but these ids: the others are gone."""
        for topic in [each for each in self._by_topic if each not in topics]:
            del self._by_topic[topic]


NO_RATE: Final = PublishRate()


def limits_of(policies: Policies) -> PublishLimits:
    """Return the limits on a message."""
    delayed = policies.delayed or DelayedDelivery()
    size = policies.max_message_bytes or 0
    found = PublishLimits(size, delayed.delay_ms_max, delayed.active)
    return NO_LIMITS if found == NO_LIMITS else found
