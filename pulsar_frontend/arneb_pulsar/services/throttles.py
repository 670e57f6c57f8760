"""Throttles: the topics whose producers must keep to a rate.

The rule: only topics that have a rate are here, so the others cost one look-up a run.
"""

from collections.abc import Callable, Container

from arneb_core.api.topics import Topic
from arneb_pulsar.namespaces.rates import PublishRate, Throttle
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.producers import ProducerRegistry


class Throttles:
    """Every topic's, as far as it has one. ``rate_of`` says so, by the topic's name."""

    def __init__(
        self,
        producers: ProducerRegistry,
        rate_of: Callable[[str], PublishRate | None],
        clock: Clock,
    ) -> None:
        self._producers = producers
        self._clock = clock
        self._rate_of = rate_of
        self._by_topic: dict[int, Throttle] = {}

    def __repr__(self) -> str:
        return f"<Throttles of {len(self._by_topic)} topics>"

    def of(self, topic: Topic) -> Throttle | None:
        """That of ``topic``; None if it has none."""
        return self._by_topic.get(topic.id)

    def refresh(self, topic: Topic) -> None:
        """Look again what the rate is."""
        rate, present = self._rate_of(topic.name), self._by_topic.get(topic.id)
        if rate is None or not rate.limits:
            self._by_topic.pop(topic.id, None)
        elif present is None or present.rate != rate:
            self._by_topic[topic.id] = Throttle(rate, self._clock.now())

    def refresh_all(self) -> None:
        """The same for every topic with producers; the others wait for one to come."""
        for topic in self._producers.topics():
            self.refresh(topic)

    def forget_except(self, topics: Container[int]) -> None:
        """Forget others than these topics, by their ids: they are gone."""
        for topic in [each for each in self._by_topic if each not in topics]:
            del self._by_topic[topic]
