"""Dispatch throttles: topics and subscriptions whose messages go out no faster than a rate.

The rule: permits that clients grant are kept here and handed on as the rate allows, so that what
goes out between two looks is bounded, and a topic without a rate costs one look-up for each FLOW.
What went out is read off the consumers' own counters. What is left of permits is taken back at
each look and shared out anew, in turns: on Key_Shared the next message may be another's.
"""

from dataclasses import dataclass, field
from typing import Final, NoReturn

import trio

from arneb_core.api.topics import Topic
from arneb_pulsar.names import topic_name_of
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rates import Budget, DispatchRate
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.consumers import AttachedConsumer, ConsumerRegistry
from arneb_pulsar.services.namespaces import NamespaceRegistry
from arneb_pulsar.services.rates import Rates

LOOK_S: Final = 0.05
"""Between looks at what went out: of a rate of 20 a second, one message each."""

MESSAGE_BYTES: Final = 1024
"""What a message counts for as long as its topic has had none."""


@dataclass(slots=True)
class HeldBack:
    """How often messages were held back for a rate, of messages and of bytes."""

    messages: int = 0
    bytes: int = 0

    def count(self, budget: Budget) -> None:
        """There was something to go out, and this had nothing left."""
        self.messages += budget.is_out_of_messages
        self.bytes += budget.is_out_of_bytes

    def __repr__(self) -> str:
        return f"<HeldBack {self.messages} times for messages, {self.bytes} for bytes>"


@dataclass(slots=True)
class Share:
    """What one consumer granted and was not given on, and how much it had got at the last look."""

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
    """Of all its subscriptions."""
    budgets: dict[str, Budget] = field(default_factory=dict)
    """Of single ones."""
    shares: dict[AttachedConsumer, Share] = field(default_factory=dict)
    held_back: HeldBack = field(default_factory=HeldBack)
    """By the rate of all."""
    held_back_by_own: dict[str, HeldBack] = field(default_factory=dict)
    """By those of single subscriptions."""
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
        """By the topic's id. Whoever hands permits on looks here first."""

    def __repr__(self) -> str:
        return f"<DispatchThrottles of {len(self.by_topic)} topics>"

    def grant(self, attached: AttachedConsumer, permits: int) -> None:
        """A client of a throttled topic grants permits."""
        throttle = self.by_topic[attached.topic.id]
        self._share(throttle, attached).held += permits
        self._hand_on(throttle)

    def held(self, attached: AttachedConsumer) -> int:
        """Permits of a consumer that are kept here."""
        throttle = self.by_topic.get(attached.topic.id)
        share = None if throttle is None else throttle.shares.get(attached)
        return 0 if share is None else share.held

    def held_back(self, topic: Topic, subscription: str) -> dict[str, int]:
        """How often a subscription's messages were held back, as Pulsar's statistics have it. There
        is no rate of the whole broker."""
        throttle = self.by_topic.get(topic.id)
        own = of_all = NEVER_HELD_BACK
        if throttle is not None:
            of_all = throttle.held_back
            own = throttle.held_back_by_own.get(subscription, NEVER_HELD_BACK)
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
        """Look again what the rates of a topic are; somebody has come, or policies changed."""
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
                self._let_go(present)
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
        # Readers come with a new name each.
        present.held_back_by_own = {
            each: found
            for each, found in present.held_back_by_own.items()
            if each in topic.subscriptions
        }
        for each in attached:
            self._share(present, each)
        self._hand_on(present)

    def refresh_all(self) -> None:
        """The same for every topic that has consumers."""
        for topic in {each.topic.id: each.topic for each in self._consumers.all()}.values():
            self.refresh(topic)

    def _let_go(self, throttle: TopicThrottle) -> None:
        """There is no rate any more: consumers have all that they granted."""
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
            await trio.sleep(LOOK_S)
            for throttle in list(self.by_topic.values()):
                self.look(throttle)
                await trio.lowlevel.checkpoint()

    def look(self, throttle: TopicThrottle) -> None:
        """See what went out, and hand on what may follow."""
        present = self._consumers.of(throttle.topic)
        if not present:
            self.by_topic.pop(throttle.topic.id, None)
            return
        throttle.shares = {each: self._share(throttle, each) for each in present}
        self._hand_on(throttle)

    def _share(self, throttle: TopicThrottle, attached: AttachedConsumer) -> Share:
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
        waiting: dict[str, list[AttachedConsumer]] = {}
        for attached, share in throttle.shares.items():
            if share.held > 0 and attached.consumer.attached:
                waiting.setdefault(attached.subscription.name, []).append(attached)
        size = _message_bytes(throttle.topic)
        throttle.turn += 1
        for index, (name, consumers) in enumerate(waiting.items()):
            room = 1 << 40
            # Consumers that grant more than there is hold back nothing.
            has_backlog = throttle.topic.subscriptions[name].ready_messages > 0
            if (budget := throttle.budgets.get(name)) is not None:
                room = min(room, budget.messages(size))
                if has_backlog:
                    throttle.held_back_by_own.setdefault(name, HeldBack()).count(budget)
            if throttle.budget is not None:
                if has_backlog:
                    throttle.held_back.count(throttle.budget)
                left = throttle.budget.messages(size)
                # Whose share does not come to a message has one in its turn.
                extra = (index + throttle.turn) % len(waiting) < left % len(waiting)
                room = min(room, left // len(waiting) + extra)
            self._share_out(throttle, consumers, room)

    def _share_out(
        self, throttle: TopicThrottle, consumers: list[AttachedConsumer], room: int
    ) -> None:
        """Hand on permits for so many messages, to all of them as evenly as can be."""
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


NEVER_HELD_BACK: Final = HeldBack()


def rate_of(policies: Policies, subscription: str) -> DispatchRate | None:
    """That of a subscription by itself, if there is one. Its own, if that bounds nothing, does not
    lift what holds for all of them."""
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
