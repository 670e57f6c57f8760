"""Pulsar's metrics: its names for what its dashboards show.

The rule: names and labels are Pulsar 4.0's. Its rates are of the last minute; ours are of the time
since the last request. The broker's figures are sums over all topics that clients know: internal
topics are in no namespace.

Source: Pulsar's documentation of its metrics, and ``TopicStats`` and ``NamespaceStatsAggregator``.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import trio

from arneb.metrics.text import Columns, Metric, labelled, samples
from arneb.monitoring.observed import ObservedCore
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import DOMAINS, topic_name_of
from arneb_pulsar.namespaces.rules import NO_QUOTA, QuotaType
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.rates import expired_of

PREFIX: Final = "pulsar_"

CLUSTER: Final = "standalone"

SCHEMES: Final = tuple(f"{each}://" for each in DOMAINS)

REMEMBERED_S: Final = 300.0
"""The longest time that a rate covers; older counts are forgotten."""

RATE_S_MIN: Final = 1.0

TOPICS_PER_TURN: Final = 30
"""Topics visited in one turn: about a millisecond."""

TOPIC: Final = (
    Metric("subscriptions_count", "Subscriptions of the topic"),
    Metric("producers_count", "Producers that are connected"),
    Metric("consumers_count", "Consumers that are connected"),
    Metric("rate_in", "Messages that come in, per second"),
    Metric("rate_out", "Messages that are delivered, per second"),
    Metric("throughput_in", "Bytes that come in, per second"),
    Metric("throughput_out", "Bytes that are delivered, per second, by their average"),
    Metric("storage_size", "Bytes of the log"),
    Metric("storage_logical_size", "Bytes of the log without copies: there are none"),
    Metric("storage_backlog_size", "Bytes that some subscription has not acknowledged"),
    Metric("msg_backlog", "Entries that subscriptions have not acknowledged, all together"),
)

ONLY_TOPIC: Final = (
    Metric("average_msg_size", "Bytes of an entry, on average"),
    Metric("out_bytes_total", "Bytes that were delivered since the broker started"),
    Metric("storage_backlog_quota_limit", "Bytes that a backlog may have; -1 = any"),
    Metric("storage_backlog_quota_limit_time", "Seconds that a backlog may reach back; -1 = any"),
    Metric("publish_rate_limit_times", "How often more came than the publish rate allows"),
    Metric("storage_offloaded_size", "Bytes in another store: there is none"),
    Metric("delayed_message_index_size_bytes", "Memory of indexes by subscription: there are none"),
    Metric("txn_tb_active_total", "Open transactions that have sent to the topic", falls=True),
    Metric("txn_tb_committed_total", "Those that were committed since the broker started"),
    Metric("txn_tb_aborted_total", "Those that were aborted since the broker started"),
    Metric("compaction_removed_event_count", "Messages that the last compaction took out"),
    Metric("compaction_duration_time_in_mills", "How long the last compaction took"),
    Metric("in_messages_total", "Messages that came in since the broker started"),
    Metric("in_bytes_total", "Bytes that came in since the broker started"),
    Metric("out_messages_total", "Messages that were delivered since the broker started"),
)

SUBSCRIPTION: Final = (
    Metric("subscription_back_log", "Entries that are not acknowledged"),
    Metric("subscription_back_log_no_delayed", "The same without those that are not due yet"),
    Metric("subscription_delayed", "Entries that are not due yet"),
    Metric("subscription_unacked_messages", "Messages at consumers"),
    Metric("subscription_blocked_on_unacked_messages", "1 while a consumer gets nothing more"),
    Metric("subscription_msg_rate_out", "Messages that are delivered, per second"),
    Metric("subscription_msg_throughput_out", "Bytes that are delivered, by their average"),
    Metric("subscription_msg_rate_redeliver", "Entries that are delivered again, per second"),
    Metric("subscription_msg_ack_rate", "Entries that are acknowledged, per second"),
    Metric("subscription_consumers_count", "Consumers that are connected"),
    Metric("subscription_in_replay", "Entries that wait to be delivered again"),
    Metric("subscription_msg_rate_expired", "Messages that expire, per second"),
    Metric("subscription_total_msg_expired", "Messages that expired since the broker started"),
    Metric("subscription_last_acked_timestamp", "When something was acknowledged, ms; 0 = never"),
    Metric("subscription_last_consumed_timestamp", "When something was delivered, ms; 0 = never"),
    Metric("subscription_last_consumed_flow_timestamp", "When a consumer asked, ms; 0 = never"),
    Metric("subscription_last_expire_timestamp", "When something expired, ms; 0 = never"),
    Metric("subscription_last_mark_delete_advanced_timestamp", "When the cursor moved; 0 = never"),
    Metric("subscription_msg_drop_rate", "Messages that no consumer had a permit for, per second"),
)

COORDINATOR: Final = (
    Metric("txn_active_count", "Transactions that are open"),
    Metric("txn_created_total", "Transactions opened, since the broker started or before"),
    Metric("txn_committed_total", "Transactions committed since the broker started"),
    Metric("txn_aborted_total", "Transactions aborted since the broker started"),
)

BROKER: Final = tuple(Metric(f"broker_{each.name}", each.help) for each in TOPIC)

TOPICS: Final = Metric("topics_count", "Topics of the namespace")
BROKER_TOPICS: Final = Metric("broker_topics_count", "Topics of the broker")
VERSION: Final = Metric("version_info", "The running broker")
CONNECTIONS: Final = Metric("active_connections", "Connections that are open")
CREATED: Final = Metric("connection_created_total_count", "Connections opened")
CLOSED: Final = Metric("connection_closed_total_count", "Connections closed")


@dataclass(frozen=True, slots=True)
class _Seen:
    """Counters at the last request."""

    at_s: float
    counters: tuple[int, ...]
    rates: tuple[float, ...]


class PulsarMetrics:
    """The metrics of one broker under Pulsar's names.

    Invariant: ``_seen`` has the counters read within :data:`REMEMBERED_S`.
    """

    def __init__(
        self,
        context: BrokerContext,
        core: ObservedCore,
        pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._context = context
        self._core = core
        self._pause = pause
        self._clock = clock
        self._seen: dict[tuple[int, str], _Seen] = {}
        self._next: dict[tuple[int, str], _Seen] = {}

    def __repr__(self) -> str:
        return f"<PulsarMetrics, {len(self._seen)} topics and subscriptions seen>"

    async def parts(self) -> AsyncIterator[str]:
        """Yield the page, in parts."""
        of_topics = Columns((*TOPIC, *ONLY_TOPIC))
        of_subscriptions = Columns(SUBSCRIPTION)
        sums, namespaces = [0.0] * len(TOPIC), dict[str, int]()
        self._next = {}
        for number, name in enumerate(sorted(self._core.topics), 1):
            topic = self._core.topics.get(name)
            if topic is not None and not topic.fenced and name.startswith(SCHEMES):
                values = self._add(topic, of_topics, of_subscriptions)
                namespace = namespace_of(name)
                namespaces[namespace] = namespaces.get(namespace, 0) + 1
                sums = [a + b for a, b in zip(sums, values, strict=False)]
            if number % TOPICS_PER_TURN == 0:
                await self._pause()
        self._seen = self._next
        for part in self._broker(sums, namespaces):
            yield part
        for columns in (of_topics, of_subscriptions):
            for part in columns.lines(PREFIX):
                yield part
                await self._pause()

    def _broker(self, sums: list[float], namespaces: Mapping[str, int]) -> Iterator[str]:
        here = [labelled(cluster=CLUSTER)]
        for metric, value in zip(BROKER, sums, strict=True):
            yield from samples(metric, PREFIX, here, [value])
        yield from samples(BROKER_TOPICS, PREFIX, here, [sum(namespaces.values())])
        labels = [labelled(cluster=CLUSTER, namespace=each) for each in namespaces]
        yield from samples(TOPICS, PREFIX, labels, list(namespaces.values()))
        version = labelled(cluster=CLUSTER, version=self._context.server_version)
        yield from samples(VERSION, PREFIX, [version], [1])
        transactions = self._context.transactions
        open_ = len(transactions.open)
        committed, aborted = transactions.memory.committed_total, transactions.memory.aborted_total
        labels = [labelled(cluster=CLUSTER, coordinator_id="0")]
        counts = open_, open_ + committed + aborted, committed, aborted
        for metric, value in zip(COORDINATOR, counts, strict=True):
            yield from samples(metric, PREFIX, labels, [value])
        served = self._context.connections
        for metric, value in (
            (CONNECTIONS, served.opened_total - served.closed_total),
            (CREATED, served.opened_total),
            (CLOSED, served.closed_total),
        ):
            yield from samples(metric, PREFIX, here, [value])

    def _add(
        self, topic: Topic, of_topics: Columns, of_subscriptions: Columns
    ) -> tuple[float, ...]:
        """Add one topic and its subscriptions."""
        found = topic.statistics()
        average = found.bytes / found.entries if found.entries else 0.0
        delivered = found.delivered_messages_total
        counters = found.appended_messages_total, delivered, found.appended_bytes_total
        in_, out, bytes_in = self._rates((topic.id, ""), counters)
        subscriptions = topic.subscriptions.values()
        durable = {each.name for each in found.subscriptions if each.durable}
        backlogs = (each.backlog_bytes for each in subscriptions if each.name in durable)
        backlog_bytes = max(backlogs, default=0)
        values = (
            len(found.subscriptions), len(self._context.producers.of(topic)),
            sum(each.consumers for each in found.subscriptions), in_, out, bytes_in,
            out * average, found.bytes, found.bytes, backlog_bytes,
            sum(each.backlog_entries for each in found.subscriptions),
        )  # fmt: skip
        name = topic.name
        labels = {"cluster": CLUSTER, "namespace": namespace_of(name), "topic": name}
        more = (
            average, *self._of_topic_only(topic),
            found.appended_messages_total, found.appended_bytes_total, delivered,
        )  # fmt: skip
        of_topics.add(labelled(**labels), (*values, *more))
        for each in found.subscriptions:
            row = self._subscription(topic, each, average)
            of_subscriptions.add(labelled(**labels, subscription=each.name), row)
        return values

    def _of_topic_only(self, topic: Topic) -> tuple[float, ...]:
        """Return the figures that have no sum over topics."""
        context, name = self._context, topic_name_of(topic.name)
        size = context.consumers.delivered_bytes(topic)
        quotas = {} if name is None else context.namespaces.policies(name).quotas
        by_size = quotas.get(QuotaType.SIZE, NO_QUOTA).limit_bytes
        by_age = quotas.get(QuotaType.AGE, NO_QUOTA).limit_s
        throttle, ended = context.throttles.of(topic), context.transactions.memory
        compaction = context.compactor.outcome(topic)
        return (
            size, by_size, by_age, 0 if throttle is None else throttle.exceeded_total, 0, 0,
            ended.sending.get(topic.id, 0), ended.committed[topic.id], ended.aborted[topic.id],
            compaction.removed, compaction.took_ms,
        )  # fmt: skip

    def _of_subscription_only(self, topic: Topic, subscription: Subscription) -> tuple[float, ...]:
        """Return what the subscription's clients did, and what expired or was dropped."""
        rates = self._context.rates
        counts, known = rates.counts(topic, subscription), rates.known(topic, subscription)
        times = [
            rates.wall_ms(at) for at in (counts.acked_at, counts.delivered_at, counts.flowed_at)
        ]
        expired, dropped, expired_ms, advanced_ms = 0.0, 0.0, 0, 0
        if known is not None:
            *_, expired, dropped = known.meter.rates
            expired_ms, advanced_ms = known.expired_ms, known.advanced_ms
        return (
            subscription.replaying_entries, expired, expired_of(topic, subscription), *times,
            expired_ms, advanced_ms, dropped,
        )  # fmt: skip

    def _subscription(
        self, topic: Topic, found: SubscriptionStatistics, average: float
    ) -> tuple[float, ...]:
        counters = (
            found.delivered_messages_total, found.redelivered_entries_total,
            found.acknowledged_entries_total,
        )  # fmt: skip
        out, again, acknowledged = self._rates((topic.id, found.name), counters)
        subscription = topic.subscriptions[found.name]  # looked at in the same turn
        return (
            found.backlog_entries, found.backlog_entries - found.delayed_entries,
            found.delayed_entries, found.in_flight_messages,
            any(each.is_shut_off for each in subscription.consumers),
            out, out * average, again, acknowledged, found.consumers,
            *self._of_subscription_only(topic, subscription),
        )  # fmt: skip

    def _rates(self, key: tuple[int, str], counters: tuple[int, ...]) -> tuple[float, ...]:
        """Return how fast each counter grows; a rate computed within the last second is kept."""
        now, before = self._clock(), self._seen.get(key)
        if before is not None and now - before.at_s < RATE_S_MIN:
            self._next[key] = before
            return before.rates
        rates = (0.0,) * len(counters)
        if before is not None and now - before.at_s <= REMEMBERED_S:
            over_s = now - before.at_s
            rates = tuple((a - b) / over_s for a, b in zip(counters, before.counters, strict=True))
        self._next[key] = _Seen(now, counters, rates)
        return rates


def namespace_of(topic: str) -> str:
    """Return the namespace of a topic, given its complete name."""
    return topic.partition("://")[2].rpartition("/")[0]
