"""The policy enforcer: applies policies to topics from time to time.

The rule: policies that the core can apply by itself are handed to it (``topic_policies``); the
rest is checked here: backlogs, messages that consumers hold for too long, idle topics, and topics
to compact. A topic that is an AMQP queue is never idle.
"""

import logging
from collections.abc import Awaitable, Callable, Container
from functools import partial
from typing import Final, NoReturn, TypeVar

import trio

from arneb_core.api.core import Core
from arneb_core.api.errors import CoreError, StoreFailed, StoreFull
from arneb_core.api.process.supervision import supervise
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.topics.settings import WITHOUT_END, Retention
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import (
    AMQP_SUBSCRIPTION,
    COMPACTION,
    RESERVED_SUBSCRIPTIONS,
    TopicName,
    topic_name_of,
)
from arneb_pulsar.namespaces.policies import retention_of
from arneb_pulsar.namespaces.rules import InactiveMode, InactiveTopics, QuotaAction
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.quotas import evict, exceeded_quota, forget_older
from arneb_pulsar.services.operations.topic_lifecycle import (
    disconnect_producers,
    drop,
    drop_partitioned,
    forget_gone,
)
from arneb_pulsar.services.topics.topics import MADE_BY, PULSAR

COMPACTION_CHECK_S: Final = 60.0

EXPIRY_CHECK_S: Final = 300.0
"""Pulsar's ``messageExpiryCheckIntervalInMinutes``."""

TOPICS_PER_TURN: Final = 100
"""Topics looked at before others get their turn: about a millisecond."""

logger = logging.getLogger(__name__)


class PolicyEnforcer:
    """Applies policies to the topics of one broker."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._core: Core = context.core
        self._idle_since: dict[int, float] = {}
        """By the id of the topic."""
        self._unused_since: dict[tuple[int, str], float] = {}
        """For subscriptions that may expire, by the topic's id and their names."""

    def __repr__(self) -> str:
        return f"<PolicyEnforcer of {len(self._core.topics)} topics, {len(self._idle_since)} idle>"

    async def run(self) -> NoReturn:
        """Apply all policies until cancelled."""
        config, clock = self._context.config, self._context.clock
        quotas = partial(_repeat, config.backlog_quota_check_s, self.check_quotas, clock.wall_ms)
        idle = partial(_repeat, config.inactive_check_s, self.check_idle, clock.now)
        compactions = partial(_repeat, COMPACTION_CHECK_S, self.check_compactions, clock.wall_ms)
        expiry = partial(_repeat, EXPIRY_CHECK_S, self.check_expiry, clock.wall_ms)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervise, "retention after a start", self.keep_as_configured)
            nursery.start_soon(supervise, "the check of backlog quotas", quotas)
            nursery.start_soon(supervise, "the check for expired messages", expiry)
            sooner = self.expire_where_shortened
            nursery.start_soon(supervise, "the expiry of messages that are to live shorter", sooner)
            nursery.start_soon(supervise, "the check for idle topics", idle)
            unused = partial(_repeat, config.inactive_check_s, self.check_subscriptions, clock.now)
            nursery.start_soon(supervise, "the check for unused subscriptions", unused)
            nursery.start_soon(supervise, "the check for topics to compact", compactions)
            nursery.start_soon(supervise, "compaction", self._context.compactor.run)
            throttles = self._context.dispatch_throttles
            nursery.start_soon(supervise, "throttled dispatching", throttles.run)
            rates = partial(self._context.rates.run, config.statistics_s)
            nursery.start_soon(supervise, "the measurement of rates", rates)
        raise AssertionError("the loops do not end")

    async def keep_as_configured(self) -> None:
        """Give topics the retention of the broker's current defaults: it is stored with each topic,
        which may date from an earlier start with other defaults."""

        async def look(topic: Topic, name: TopicName) -> None:
            if topic.properties.get(MADE_BY) == PULSAR:
                await topic.retain(*retention_of(self._context.namespaces.policies(name)))

        await self._over_topics(look)

    async def check_quotas(self, now_ms: int) -> None:
        """Act on the topics whose backlog is over its quota."""

        async def look(topic: Topic, name: TopicName) -> None:
            exceeded = await exceeded_quota(self._context.namespaces, topic, name, now_ms)
            if exceeded is None:
                return
            if exceeded[1].action is QuotaAction.EVICT:
                await evict(topic, *exceeded, now_ms)
            else:
                disconnect_producers(self._context, topic)

        await self._over_topics(look)

    async def expire_where_shortened(self) -> NoReturn:
        """Apply shortened TTLs to messages that consumers hold, too."""
        while True:
            topics = await self._context.topic_policies.shortened()
            await self.check_expiry(self._context.clock.wall_ms(), topics)

    async def check_expiry(self, now_ms: int, only: Container[int] | None = None) -> None:
        """Take expired messages from consumers that do not acknowledge them: waiting messages
        expire by themselves, but these would stay in the log as long as their consumers. ``only``:
        in the topics of these ids."""

        async def look(topic: Topic, name: TopicName) -> None:
            if only is not None and topic.id not in only:
                return
            ttl_s = self._context.namespaces.policies(name).message_ttl_s
            held = any(each.lengths[1] for each in topic.subscriptions.values())
            if ttl_s and held and name.is_persistent:
                await forget_older(topic, max(0, now_ms - ttl_s * 1000), Departure.EXPIRED)

        await self._over_topics(look)

    async def check_compactions(self, now_ms: int) -> None:
        """Compact the topics with as many new bytes as their policy says."""

        async def look(topic: Topic, name: TopicName) -> None:
            threshold = self._context.namespaces.policies(name).compaction_threshold
            if threshold and name.is_persistent and self._new_bytes(topic) >= threshold:
                self._context.compactor.want(topic)

        await self._over_topics(look)

    def _new_bytes(self, topic: Topic) -> int:
        """Return the bytes that came since the topic was last compacted, as far as is known."""
        size = sum(each.bytes for each in topic.ledgers())
        return size - self._context.compactor.compacted_bytes(topic)

    async def check_idle(self, now: float) -> None:
        """Remove topics that nobody has used for as long as their policy says, and forget what is
        known of removed ones."""
        seen: dict[int, float] = {}

        async def look(topic: Topic, name: TopicName) -> None:
            rule = self._context.namespaces.policies(name).inactive
            # Queues and histories were not created by Pulsar's rules, and are still wanted.
            if rule is None or not rule.enabled or topic.properties.get(MADE_BY) != PULSAR:
                return
            if self._is_idle(topic, rule):
                since = seen[topic.id] = self._idle_since.get(topic.id, now)
                if now - since >= max(rule.seconds, kept_s(topic)):
                    idle = partial(self._is_still_idle, topic, rule)
                    await drop(self._context, name, only_if=idle)
                    await self._drop_whole(name)

        await self._over_topics(look)
        self._idle_since = seen
        forget_gone(self._context)

    async def _drop_whole(self, name: TopicName) -> None:
        """Remove the partitioned topic of a removed partition, if that was the last one and the
        configuration says so."""
        whole = name.base
        if name.partition < 0 or not self._context.config.delete_inactive_partitioned_topics:
            return
        if self._context.namespaces.partitions(whole) and not self._context.topics.parts(whole):
            # A partition that comes back meanwhile keeps it.
            await drop_partitioned(self._context, whole, only_if=lambda _: False)

    async def check_subscriptions(self, now: float) -> None:
        """Remove subscriptions without consumers for as long as their policy says; those of AMQP's
        queues stay."""
        seen: dict[tuple[int, str], float] = {}

        async def look(topic: Topic, name: TopicName) -> None:
            minutes = self._context.namespaces.policies(name).subscription_expiration_min
            if not minutes:
                return
            for each in list(topic.subscriptions.values()):
                if each.consumers or each.name in RESERVED_SUBSCRIPTIONS:
                    continue
                key = topic.id, each.name
                since = seen[key] = self._unused_since.get(key, now)
                if now - since >= minutes * 60:
                    del seen[key]
                    await topic.unsubscribe(each.name)

        await self._over_topics(look)
        self._unused_since = seen

    async def _over_topics(self, look: Callable[[Topic, TopicName], Awaitable[None]]) -> None:
        """Call ``look`` for every topic; a failure with one does not affect the others."""
        for count, topic in enumerate(list(self._core.topics.values())):
            if count % TOPICS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            name = topic_name_of(topic.name)
            if name is None or self._core.topics.get(topic.name) is not topic:
                continue
            try:
                await look(topic, name)
            except (StoreFull, StoreFailed) as error:
                logger.warning("cannot apply policies to topic %s: %s", topic.name, error)
            except CoreError as error:
                logger.debug("topic %s changed while policies were applied: %s", topic.name, error)

    def _is_still_idle(self, topic: Topic, rule: InactiveTopics, found: Topic) -> bool:
        """Return whether the topic is still idle, and not another of the same name by now."""
        return found is topic and not topic.has_incoming and self._is_idle(topic, rule)

    def _is_idle(self, topic: Topic, rule: InactiveTopics) -> bool:
        if self._context.producers.of(topic) or AMQP_SUBSCRIPTION in topic.subscriptions:
            return False
        subscriptions = [each for each in topic.subscriptions.values() if each.name != COMPACTION]
        if rule.mode is InactiveMode.NO_SUBSCRIPTIONS:
            return not subscriptions
        return not any(
            each.consumers or each.statistics().backlog_entries for each in subscriptions
        )


def kept_s(topic: Topic) -> float:
    """Return how long an unused topic stays because of its retention, which is for its messages: a
    topic that has none does not stay for it."""
    retention = topic.retention if topic.statistics().entries else Retention()
    return float("inf") if retention.ms == WITHOUT_END else retention.ms / 1000


Now = TypeVar("Now", int, float)


async def _repeat(
    seconds: float, work: Callable[[Now], Awaitable[None]], now: Callable[[], Now]
) -> NoReturn:
    """Do ``work`` periodically; what fails is tried again the next time."""
    while True:
        await trio.sleep(seconds)
        try:
            await work(now())
        except Exception:
            # A defect of ours. Nobody's messages depend on it.
            logger.exception("unexpected error while applying policies to topics")
