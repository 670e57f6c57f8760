"""Dispatch throttles: topics and subscriptions whose messages go out no faster than a rate.

The rule: permits that clients grant are kept here and handed on as the rate allows, so that what
goes out between two looks is bounded, and a topic without a rate costs one look-up for each FLOW.
What went out is read from the consumers' own counters. Unused permits are taken back at each look
and shared out again, in turns: on Key_Shared the next message may be for another consumer.
"""

from dataclasses import dataclass, field
from typing import Final, NoReturn

import trio

from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import topic_name_of
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import Budget, DispatchRate
from arneb_pulsar.services.clients.consumers import ClientConsumer, ConsumerRegistry
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.limits.rates import Rates
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry

CHECK_INTERVAL_S: Final = 0.05
"""Time between looks at what went out: at a rate of 20 a second, one message each."""

MESSAGE_BYTES: Final = 1024
"""Bytes that a message is expected to have while its topic has had none."""


@dataclass(slots=True)
class ThrottledEvents:
    """How often messages were held back for a rate, of messages and of bytes."""

    messages: int = 0
    bytes: int = 0

    def count(self, budget: Budget) -> None:
        """Count one event for each part of ``budget`` that has nothing left."""
        self.messages += budget.is_out_of_messages
        self.bytes += budget.is_out_of_bytes

    def __repr__(self) -> str:
        return f"<ThrottledEvents {self.messages} times for messages, {self.bytes} for bytes>"


@dataclass(slots=True)
class Share:
    """The permits held for one consumer, and how much it had been sent at the last look."""

    held: int = 0
    messages: int = 0
    bytes: int = 0

    def __repr__(self) -> str:
        return f"<Share of {self.held} permits>"


@dataclass(slots=True)
class TopicThrottle:
    """One topic with rates."""

    topic: Topic
    budget: Budget | None = None
    """For all its subscriptions together."""
    budgets: dict[str, Budget] = field(default_factory=dict)
    """For single subscriptions, by name."""
    shares: dict[ClientConsumer, Share] = field(default_factory=dict)
    throttled: ThrottledEvents = field(default_factory=ThrottledEvents)
    """Events by the rate for all subscriptions."""
    throttled_by_own: dict[str, ThrottledEvents] = field(default_factory=dict)
    """Events by the rates for single subscriptions."""
    turn: int = 0
    """Whose turn it is to be given permits first."""

    def __repr__(self) -> str:
        return f"<TopicThrottle {self.topic.name}, {len(self.shares)} consumers>"


class DispatchThrottles:
    """The throttled topics of one broker."""

    def __init__(
        self, consumers: ConsumerRegistry, namespaces: NamespaceRegistry, rates: Rates, clock: Clock
    ) -> None:
        self._consumers = consumers
        self._namespaces = namespaces
        self._rates = rates
        self._clock = clock
        self._more = trio.Event()
        self.by_topic: dict[int, TopicThrottle] = {}
        """By the topic's id. Code that hands permits on must look here first."""

    def __repr__(self) -> str:
        return f"<DispatchThrottles of {len(self.by_topic)} topics>"

    def grant(self, attached: ClientConsumer, permits: int) -> None:
        """Take permits that a client of a throttled topic grants."""
        throttle = self.by_topic[attached.topic.id]
        self._share(throttle, attached).held += permits
        self._hand_on(throttle)

    def held(self, attached: ClientConsumer) -> int:
        """Return how many permits of a consumer are kept here."""
        throttle = self.by_topic.get(attached.topic.id)
        share = None if throttle is None else throttle.shares.get(attached)
        return 0 if share is None else share.held

    def throttled_events(self, topic: Topic, subscription: str) -> dict[str, int]:
        """Return how often a subscription's messages were held back, as in Pulsar's statistics.
        There is no rate for the whole broker."""
        throttle = self.by_topic.get(topic.id)
        own = of_all = NEVER_THROTTLED
        if throttle is not None:
            of_all = throttle.throttled
            own = throttle.throttled_by_own.get(subscription, NEVER_THROTTLED)
        return {
            "dispatchThrottledMsgEventsBySubscriptionLimit": own.messages,
            "dispatchThrottledBytesEventsBySubscriptionLimit": own.bytes,
            "dispatchThrottledMsgEventsByTopicLimit": of_all.messages,
            "dispatchThrottledBytesEventsByTopicLimit": of_all.bytes,
            "dispatchThrottledMsgEventsByBrokerLimit": 0,
            "dispatchThrottledBytesEventsByBrokerLimit": 0,
        }

    # What rates there are

    def refresh(self, topic: Topic) -> None:
        """Look up the rates of a topic again: a consumer has come, or policies changed."""
        name = topic_name_of(topic.name)
        if name is None:
            return
        policies, present = self._namespaces.policies(name), self.by_topic.get(topic.id)
        attached = self._consumers.of(topic)
        names = {each.subscription.name for each in attached}
        rates = {each: found for each in names if (found := rate_of(policies, each)) is not None}
        of_all = policies.dispatch_rate
        is_limited = of_all is not None and of_all.limits
        if not (rates or is_limited):
            if present is not None:
                self._release(present)
            return
        if present is None:
            present = self.by_topic[topic.id] = TopicThrottle(topic)
            self._more.set()
        now = self._clock.now()
        present.budget = _budget(present.budget, of_all if is_limited else None, now)
        present.budgets = {
            each: budget
            for each, rate in rates.items()
            if (budget := _budget(present.budgets.get(each), rate, now)) is not None
        }
        # Forget subscriptions that are gone: each reader comes with a new name.
        present.throttled_by_own = {
            each: found
            for each, found in present.throttled_by_own.items()
            if each in topic.subscriptions
        }
        for each in attached:
            self._share(present, each)
        self._hand_on(present)

    def refresh_all(self) -> None:
        """As :meth:`refresh`, for every topic that has consumers."""
        for topic in {each.topic.id: each.topic for each in self._consumers.all()}.values():
            self.refresh(topic)

    def _release(self, throttle: TopicThrottle) -> None:
        """Hand all permits on: there is no rate any more."""
        del self.by_topic[throttle.topic.id]
        for attached, share in throttle.shares.items():
            if share.held and attached.consumer.attached:
                attached.consumer.flow(share.held)

    # What goes out

    async def run(self) -> NoReturn:
        """Hand permits on until cancelled."""
        while True:
            if not self.by_topic:
                self._more = trio.Event()
                await self._more.wait()
            await trio.sleep(CHECK_INTERVAL_S)
            for throttle in list(self.by_topic.values()):
                self.look(throttle)
                await trio.lowlevel.checkpoint()

    def look(self, throttle: TopicThrottle) -> None:
        """Count what went out, and hand on permits for what may follow."""
        present = self._consumers.of(throttle.topic)
        if not present:
            self.by_topic.pop(throttle.topic.id, None)
            return
        throttle.shares = {each: self._share(throttle, each) for each in present}
        self._hand_on(throttle)

    def _share(self, throttle: TopicThrottle, attached: ClientConsumer) -> Share:
        share = throttle.shares.get(attached)
        if share is None:
            consumer, counts = attached.consumer, attached.counts
            share = Share(0, consumer.delivered_messages_total, counts.bytes)
            throttle.shares[attached] = share
        return share

    def _hand_on(self, throttle: TopicThrottle) -> None:
        self._count(throttle)
        now = self._clock.now()
        incoming = self._rates.of_topic(throttle.topic)
        for budget in (throttle.budget, *throttle.budgets.values()):
            if budget is not None:
                budget.earn(now, incoming)
        for attached, share in throttle.shares.items():
            consumer = attached.consumer
            if consumer.attached and consumer.permits > 0:
                share.held += consumer.permits
                consumer.flow(-consumer.permits)
        waiting: dict[str, list[ClientConsumer]] = {}
        for attached, share in throttle.shares.items():
            if share.held > 0 and attached.consumer.attached:
                waiting.setdefault(attached.subscription.name, []).append(attached)
        size = _message_bytes(throttle.topic)
        throttle.turn += 1
        for index, (name, consumers) in enumerate(waiting.items()):
            room = 1 << 40
            # Without a backlog nothing is held back, however much consumers grant.
            has_backlog = throttle.topic.subscriptions[name].ready_messages > 0
            if (budget := throttle.budgets.get(name)) is not None:
                room = min(room, budget.messages(size))
                if has_backlog:
                    throttle.throttled_by_own.setdefault(name, ThrottledEvents()).count(budget)
            if throttle.budget is not None:
                if has_backlog:
                    throttle.throttled.count(throttle.budget)
                left = throttle.budget.messages(size)
                # A subscription whose share is less than a message gets one in its turn.
                extra = (index + throttle.turn) % len(waiting) < left % len(waiting)
                room = min(room, left // len(waiting) + extra)
            self._share_out(throttle, consumers, room)

    def _share_out(
        self, throttle: TopicThrottle, consumers: list[ClientConsumer], room: int
    ) -> None:
        """Hand on permits for ``room`` messages, to all consumers as evenly as possible."""
        start = throttle.turn % len(consumers)
        left = len(consumers)
        for attached in (*consumers[start:], *consumers[:start]):
            if room <= 0:
                return
            share = throttle.shares[attached]
            given = min(share.held, -(-room // left))
            share.held -= given
            room -= given
            left -= 1
            attached.consumer.flow(given)

    def _count(self, throttle: TopicThrottle) -> None:
        """Spend what went out since the last look."""
        for attached, share in throttle.shares.items():
            messages = attached.consumer.delivered_messages_total
            size = attached.counts.bytes
            spent = messages - share.messages, size - share.bytes
            share.messages, share.bytes = messages, size
            for budget in (throttle.budget, throttle.budgets.get(attached.subscription.name)):
                if budget is not None:
                    budget.spend(*spent)


NEVER_THROTTLED: Final = ThrottledEvents()


def rate_of(policies: Policies, subscription: str) -> DispatchRate | None:
    """Return the rate of a single subscription, if there is one. A rate of its own that bounds
    nothing does not lift the one for every subscription."""
    own = policies.subscription_rates.get(subscription)
    found = own if own is not None and own.limits else policies.subscription_dispatch_rate
    return found if found is not None and found.limits else None


def _budget(present: Budget | None, rate: DispatchRate | None, now: float) -> Budget | None:
    if rate is None:
        return None
    return present if present is not None and present.rate == rate else Budget(rate, now)


def _message_bytes(topic: Topic) -> int:
    messages = topic.messages
    return max(1, topic.stored_bytes // messages) if messages else MESSAGE_BYTES
