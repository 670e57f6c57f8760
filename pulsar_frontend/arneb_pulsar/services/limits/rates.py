"""Rates: how much is published to topics and dispatched from subscriptions per second.

The rule: rates are those of the last whole interval, as in Pulsar; an unused topic costs one look
at its counters per interval.
"""

import math
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final, NoReturn

import trio

from arneb_core.api.core import Core
from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.statistics import TopicStatistics
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import NON_PERSISTENT
from arneb_pulsar.packing.counts import NEVER, ConsumerCounts, Meter
from arneb_pulsar.services.clients.consumers import ConsumerRegistry
from arneb_pulsar.services.clients.producers import ProducerRegistry
from arneb_pulsar.services.clock import Clock

TOPICS_PER_TURN: Final = 100
"""Topics looked at before others get their turn: less than a millisecond unless they are busy."""

NO_RATES: Final = (0.0, 0.0)

KEEPS_NOTHING: Final = f"{NON_PERSISTENT}://"
"""How names of topics begin whose messages wait for nobody."""


def bytes_in(figures: TopicStatistics) -> int:
    """Return the bytes of metadata and payloads that came, as Pulsar counts them."""
    return figures.appended_bytes_total - HEADER_BYTES * figures.appended_entries_total


def _meter() -> Meter:
    return Meter(6)


@dataclass(slots=True)
class SubscriptionRates:
    """How fast one subscription advances, and when it last did."""

    meter: Meter = field(default_factory=_meter)
    """Messages and bytes delivered, entries acknowledged, entries redelivered, messages expired and
    messages dropped, in this order."""
    mark_delete: Position = BEFORE_ALL
    advanced_ms: int = 0
    """When the mark-delete position moved, as far as was seen; 0 = never."""
    expired: int = 0
    expired_ms: int = 0
    """When messages last expired, as far as was seen."""

    def __repr__(self) -> str:
        return f"<SubscriptionRates {self.meter!r}>"

    def see(
        self, figures: SubscriptionStatistics, expired: int, now_ms: int, acked_ms: int
    ) -> None:
        """Note the subscription's present figures."""
        if figures.mark_delete != self.mark_delete:
            moved = self.mark_delete != BEFORE_ALL or bool(figures.acknowledged_entries_total)
            self.mark_delete = figures.mark_delete
            if moved:
                self.advanced_ms = acked_ms or now_ms
        if expired != self.expired:
            self.expired, self.expired_ms = expired, now_ms


CLOCKS_APART_MS: Final = 20
"""By more than this the wall clock must have been set, or drifted, since it was last read."""


class Rates:
    """The rates of all topics of one broker, and of their producers and consumers."""

    def __init__(
        self, core: Core, producers: ProducerRegistry, consumers: ConsumerRegistry, clock: Clock
    ) -> None:
        self._core = core
        self._producers = producers
        self._consumers = consumers
        self._clock = clock
        self._topics: dict[int, Meter] = {}
        """Messages and bytes that came, by the topic's id."""
        self._subscriptions: dict[int, dict[str, SubscriptionRates]] = {}
        self._sampled_at = clock.now()
        self._last_apart_ms = -math.inf

    def __repr__(self) -> str:
        return f"<Rates of {len(self._topics)} topics>"

    async def run(self, interval_s: float) -> NoReturn:
        """Measure until cancelled."""
        while True:
            await trio.sleep(interval_s)
            await self.sample()

    async def sample(self) -> None:
        """Measure an interval that has passed."""
        now = self._clock.now()
        elapsed_s, self._sampled_at = max(now - self._sampled_at, 1e-3), now
        for count, topic in enumerate(list(self._core.topics.values())):
            if count % TOPICS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            self._sample(topic, elapsed_s)
        for claim in self._producers.all():
            sent = claim.holder.counts
            sent.meter.tick((sent.messages, sent.bytes, sent.chunks), elapsed_s)
        for each in self._consumers.all():
            counts = each.counts
            delivered = each.consumer.delivered_messages_total
            totals = (delivered, counts.bytes, counts.acks, counts.redelivered)
            counts.meter.tick(totals, elapsed_s)

    def _sample(self, topic: Topic, elapsed_s: float) -> None:
        if (total := topic.appended_messages_total) or topic.id in self._topics:
            meter = self._topics.setdefault(topic.id, Meter(2))
            figures = topic.statistics()
            meter.tick((total, bytes_in(figures)), elapsed_s)
        there = topic.subscriptions
        by_name = self._subscriptions.get(topic.id, {})
        for name in [each for each in by_name if each not in there]:
            del by_name[name]
        self._consumers.forget_subscriptions(topic)
        for subscription in there.values():
            known = self._subscriptions.get(topic.id, {}).get(subscription.name)
            used = subscription.delivered_messages_total or subscription.departed
            if known is None and not used:
                continue
            rates = self.of_subscription(topic, subscription)
            rates.meter.tick(self._totals(topic, subscription), elapsed_s)

    def _totals(self, topic: Topic, subscription: Subscription) -> tuple[int, ...]:
        figures = subscription.statistics()
        return (
            figures.delivered_messages_total,
            self._consumers.counts(topic, subscription).bytes,
            figures.acknowledged_entries_total,
            figures.redelivered_entries_total,
            expired_of(topic, subscription),
            dropped_of(topic, subscription),
        )

    def of_topic(self, topic: Topic) -> tuple[float, float]:
        """Return the messages and bytes that come per second."""
        meter = self._topics.get(topic.id)
        return NO_RATES if meter is None else (meter.rates[0], meter.rates[1])

    def known(self, topic: Topic, subscription: Subscription) -> SubscriptionRates | None:
        """Return the rates of a subscription as last measured; None if it has not been used."""
        return self._subscriptions.get(topic.id, {}).get(subscription.name)

    def of_subscription(self, topic: Topic, subscription: Subscription) -> SubscriptionRates:
        """Return the rates of a subscription, updated with its present figures."""
        by_name = self._subscriptions.setdefault(topic.id, {})
        found = by_name.setdefault(subscription.name, SubscriptionRates())
        counts = self._consumers.counts(topic, subscription)
        now_ms, acked_ms = self._clock.wall_ms(), self.wall_ms(counts.acked_at)
        found.see(subscription.statistics(), expired_of(topic, subscription), now_ms, acked_ms)
        return found

    def counts(self, topic: Topic, subscription: Subscription) -> ConsumerCounts:
        """Return what the subscription's consumers were sent, past ones too."""
        return self._consumers.counts(topic, subscription)

    def wall_ms(self, at: float) -> int:
        """Return the time of day of an instant of the event loop; 0 = never."""
        if at == NEVER:
            return 0
        return round(self._apart_ms() + at * 1000)

    def _apart_ms(self) -> float:
        """Return how far the two clocks are apart. Two readings are never made at once, so a small
        change is none: what happened once is said to have happened at one time."""
        found = self._clock.wall_ms() - self._clock.now() * 1000
        if abs(found - self._last_apart_ms) > CLOCKS_APART_MS:
            self._last_apart_ms = found
        return self._last_apart_ms

    def forget_except(self, topics: Container[int]) -> None:
        """Forget all topics but these ids: the others are gone."""
        for topic in [each for each in self._topics if each not in topics]:
            del self._topics[topic]
        for topic in [each for each in self._subscriptions if each not in topics]:
            del self._subscriptions[topic]


def expired_of(topic: Topic, subscription: Subscription) -> int:
    """Return how many of its messages have expired since the broker started."""
    return 0 if _keeps_nothing(topic) else _expired(subscription)


def dropped_of(topic: Topic, subscription: Subscription) -> int:
    """Return how many messages came when no consumer had a permit, on a non-persistent topic: there
    they expire at once, which Pulsar calls dropped."""
    return _expired(subscription) if _keeps_nothing(topic) else 0


def _keeps_nothing(topic: Topic) -> bool:
    return topic.name.startswith(KEEPS_NOTHING)


def _expired(subscription: Subscription) -> int:
    departed = subscription.departed.items()
    return sum(count for (reason, _), count in departed if reason is Departure.EXPIRED)
