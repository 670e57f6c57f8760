"""The keeper: sees to it that what the policies say becomes true.

The rule: what can hold by itself is handed to the core (how long messages live and stay); what
has to be looked at, backlogs and idle topics, is looked at from time to time. The subscription of
an AMQP queue is the queue's: nothing is taken from it here, and its topic is never idle.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import trio

from arneb_core.api.core import Core
from arneb_core.api.entry import read_header
from arneb_core.api.errors import CoreError, StoreFailed, StoreFull
from arneb_core.api.limits import Limits
from arneb_core.api.position import before
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.supervision import supervise
from arneb_core.api.topics import Topic
from arneb_pulsar.names import InvalidTopicName, TopicName, parse_topic
from arneb_pulsar.places.backlog import EVICTED_TO, place_leaving
from arneb_pulsar.places.policies import (
    InactiveMode,
    InactiveTopics,
    Quota,
    QuotaAction,
    QuotaType,
    kept_s,
    retention_of,
)
from arneb_pulsar.server.compactor import COMPACTION
from arneb_pulsar.server.times import clock_ms
from arneb_pulsar.server.topics import MADE_BY, PULSAR

if TYPE_CHECKING:
    from arneb_pulsar.server.door import Door

AMQP_SUBSCRIPTION: Final = "amqp"
"""The subscription of an AMQP queue. Pulsar consumers may join it; only AMQP removes it."""

OWNED: Final = frozenset({AMQP_SUBSCRIPTION, COMPACTION})
"""Subscriptions that are not consumed by Pulsar's rules."""

NO_WAITING: Final = Limits(waits=False)
"""Of non-persistent topics: a message is for those who can take it when it comes."""

COMPACTION_CHECK_S: Final = 60.0

TOPICS_PER_TURN: Final = 100
"""Topics looked at before others get their turn: about a millisecond."""

POLICIES_PER_TURN: Final = 20
"""The same where policies are applied, which many administrators may ask for at once."""

logger = logging.getLogger(__name__)


class Keeper:
    """Looks after the topics of one door."""

    def __init__(self, door: "Door") -> None:
        self._door = door
        self._core: Core = door.core
        self._idle_since: dict[int, float] = {}
        """By the id of the topic."""
        self._expiring: set[int] = set()
        """Ids of the topics whose messages live for a time only."""

    # What holds by itself

    def begin(self) -> None:
        """The broker has started: say again what the core does not keep."""
        for topic in self._core.topics.values():
            self.subscribed(topic)

    async def policies_changed(self, namespace: str, changed: TopicName | None) -> None:
        """Have the policies of a namespace, or of one topic, hold."""
        inside = f"://{namespace}/"
        for count, topic in enumerate(list(self._core.topics.values())):
            if count % POLICIES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            name = name_of(topic)
            gone = self._core.topics.get(topic.name) is not topic
            if inside not in topic.name or name is None or gone:
                continue
            if changed is None or name.base == changed:
                self.subscribed(topic)
                await topic.retain(*retention_of(self._door.registry.policies(name)))

    def subscribed(self, topic: Topic) -> None:
        """The topic has a new subscription, or a new policy: have its messages live as long as
        they should."""
        name = name_of(topic)
        if name is None:
            return
        if not name.is_persistent:
            for each in topic.subscriptions.values():
                each.limit(NO_WAITING, None)
            return
        ttl_s = self._door.registry.policies(name).message_ttl_s
        if not ttl_s and topic.id not in self._expiring:
            return
        limits = Limits(message_ttl_ms=ttl_s * 1000 if ttl_s else None)
        for each in topic.subscriptions.values():
            if each.name not in OWNED:
                each.limit(limits, None)
        if ttl_s:
            self._expiring.add(topic.id)
        else:
            self._expiring.discard(topic.id)

    # What is looked at from time to time

    async def run(self) -> NoReturn:
        """Look after everything until cancelled."""
        config = self._door.config
        quotas = partial(_repeat, config.backlog_quota_check_s, self.check_quotas, clock_ms)
        idle = partial(_repeat, config.inactive_check_s, self.check_idle, trio.current_time)
        compactions = partial(_repeat, COMPACTION_CHECK_S, self.check_compactions, clock_ms)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervise, "the check of backlog quotas", quotas)
            nursery.start_soon(supervise, "the check for idle topics", idle)
            nursery.start_soon(supervise, "the check for topics to compact", compactions)
            nursery.start_soon(supervise, "compaction", self._door.compactor.run)
        raise AssertionError("the loops do not end")

    async def exceeded(
        self, topic: Topic, name: TopicName, now_ms: int
    ) -> tuple[QuotaType, Quota] | None:
        """The quota that the topic's backlog is over. Raises :class:`StoreFailed`."""
        quotas = self._door.registry.policies(name).quotas
        if not quotas:
            return None
        durable = [
            each
            for each in topic.subscriptions.values()
            if each.name != COMPACTION and each.statistics().durable
        ]
        size, age = quotas.get(QuotaType.SIZE), quotas.get(QuotaType.AGE)
        if size is not None and size.limit_bytes >= 0:
            backlog = max((each.backlog_bytes for each in durable), default=0)
            if backlog and backlog >= size.limit_bytes:
                return QuotaType.SIZE, size
        if age is not None and age.limit_s > 0:
            oldest = [await self._oldest_ms(topic, each) for each in durable]
            limit_ms = now_ms - age.limit_s * 1000
            if any(ms is not None and ms < limit_ms for ms in oldest):
                return QuotaType.AGE, age
        return None

    async def check_quotas(self, now_ms: int) -> None:
        """Act on the topics whose backlog is over its quota."""

        async def look(topic: Topic, name: TopicName) -> None:
            exceeded = await self.exceeded(topic, name, now_ms)
            if exceeded is None:
                return
            if exceeded[1].action is QuotaAction.EVICT:
                await self._evict(topic, *exceeded, now_ms)
            else:
                self._door.disconnect_producers(topic)

        await self._over_topics(look)

    async def _evict(self, topic: Topic, kind: QuotaType, quota: Quota, now_ms: int) -> None:
        """Have subscriptions forget what is over the quota."""
        if kind is QuotaType.SIZE:
            place = place_leaving(topic.ledgers(), int(quota.limit_bytes * EVICTED_TO))
        else:
            first = await topic.first_published(now_ms - quota.limit_s * 1000)
            place = topic.last if first is None else before(first)
        for each in list(topic.subscriptions.values()):
            if place is not None and each.mark_delete < place and each.name not in OWNED:
                await each.skip_through(place)

    async def _oldest_ms(self, topic: Topic, subscription: Subscription) -> int | None:
        """When the oldest message of the backlog was published."""
        waiting = subscription.unacknowledged(1)
        entry = await topic.entry_at(waiting[0]) if waiting else None
        return None if entry is None else read_header(entry).publish_time_ms

    async def check_compactions(self, now_ms: int) -> None:
        """Compact the topics of which as much is new as their policy says."""

        async def look(topic: Topic, name: TopicName) -> None:
            threshold = self._door.registry.policies(name).compaction_threshold
            if threshold and name.is_persistent and self._new_bytes(topic) >= threshold:
                self._door.compactor.want(topic)

        await self._over_topics(look)

    def _new_bytes(self, topic: Topic) -> int:
        """Bytes that came since the topic was last compacted, as far as is known."""
        size = sum(each.bytes for each in topic.ledgers())
        return size - self._door.compactor.compacted_bytes(topic)

    async def check_idle(self, now: float) -> None:
        """Remove the topics that nobody has used for as long as their policy says, and forget
        what is known of those that went."""
        seen: dict[int, float] = {}

        async def look(topic: Topic, name: TopicName) -> None:
            policies = self._door.registry.policies(name)
            rule = policies.inactive
            if rule is None or not rule.enabled or topic.properties.get(MADE_BY) != PULSAR:
                return
            if self._is_idle(topic, rule):
                since = seen[topic.id] = self._idle_since.get(topic.id, now)
                if now - since >= max(rule.seconds, kept_s(policies)):
                    idle = partial(self._is_still_idle, topic, rule)
                    await self._door.drop(name, only_if=idle)

        await self._over_topics(look)
        self._idle_since = seen
        self._expiring &= {topic.id for topic in self._core.topics.values()}
        self._door.forget_gone()

    async def _over_topics(self, look: Callable[[Topic, TopicName], Awaitable[None]]) -> None:
        """Have a look at every topic; what goes wrong with one is no matter of the others'."""
        for count, topic in enumerate(list(self._core.topics.values())):
            if count % TOPICS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            name = name_of(topic)
            if name is None or self._core.topics.get(topic.name) is not topic:
                continue
            try:
                await look(topic, name)
            except (StoreFull, StoreFailed) as error:
                logger.warning("cannot apply policies to topic %s: %s", topic.name, error)
            except CoreError as error:
                logger.debug("topic %s changed while policies were applied: %s", topic.name, error)

    def _is_still_idle(self, topic: Topic, rule: InactiveTopics, found: Topic) -> bool:
        """It may be another one of that name by now."""
        return found is topic and not topic.has_incoming and self._is_idle(topic, rule)

    def _is_idle(self, topic: Topic, rule: InactiveTopics) -> bool:
        if self._door.producers.of(topic) or AMQP_SUBSCRIPTION in topic.subscriptions:
            return False
        subscriptions = [each for each in topic.subscriptions.values() if each.name != COMPACTION]
        if rule.mode is InactiveMode.NO_SUBSCRIPTIONS:
            return not subscriptions
        return not any(
            each.consumers or each.statistics().backlog_entries for each in subscriptions
        )


def name_of(topic: Topic) -> TopicName | None:
    """The topic's name; None for one that Pulsar cannot name."""
    try:
        return parse_topic(topic.name)
    except InvalidTopicName:
        return None


Now = TypeVar("Now", int, float)


async def _repeat(
    seconds: float, work: Callable[[Now], Awaitable[None]], now: Callable[[], Now]
) -> NoReturn:
    """Do it again and again; what fails is tried the next time."""
    while True:
        await trio.sleep(seconds)
        try:
            await work(now())
        except Exception:
            # A defect of ours. Nobody's messages depend on it.
            logger.exception("unexpected error while applying policies to topics")
