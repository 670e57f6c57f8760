"""Pulsar's metrics: its names, with rates between two scrapes."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from arneb.metrics.pulsar import PulsarMetrics
from arneb_core.api.core import Unit
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import attach, make_entry, publish, quiet
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.context import make_context
from arneb_pulsar.services.transactions import held_records

TOPIC = "persistent://public/default/t"
Samples = dict[tuple[str, str, str], float]


async def page_of(metrics: PulsarMetrics) -> str:
    return "".join([each async for each in metrics.parts()])


async def samples(metrics: PulsarMetrics) -> Samples:
    page = await page_of(metrics)
    return {
        (each.name, each.labels.get("topic", ""), each.labels.get("subscription", "")): each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
    }


async def test_a_topic_and_its_subscription_are_exported(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic(TOPIC, subscriptions=["s"])
        now = 100.0
        context = make_context(engine, PulsarConfig())
        metrics = PulsarMetrics(context, engine, clock=lambda: now)
        first = await samples(metrics)
        assert first["pulsar_rate_in", TOPIC, ""] == 0
        entries = [make_entry(b"x" * 50) for _ in range(20)]
        size = sum(map(len, entries))
        await appended(engine, topic, entries)
        now += 10
        there = await samples(metrics)
        assert there["pulsar_rate_in", TOPIC, ""] == 2
        assert there["pulsar_throughput_in", TOPIC, ""] == size / 10
        assert there["pulsar_broker_rate_in", "", ""] == 2
        assert there["pulsar_in_messages_total", TOPIC, ""] == 20
        assert there["pulsar_in_bytes_total", TOPIC, ""] == size
        assert there["pulsar_msg_backlog", TOPIC, ""] == 20
        assert there["pulsar_subscription_back_log", TOPIC, "s"] == 20
        assert there["pulsar_topics_count", "", ""] == 1
        assert there["pulsar_storage_backlog_quota_limit", TOPIC, ""] == -1
        assert there["pulsar_txn_tb_committed_total", TOPIC, ""] == 0
        assert there["pulsar_out_bytes_total", TOPIC, ""] == 0
        assert there["pulsar_subscription_in_replay", TOPIC, "s"] == 0
        assert there["pulsar_subscription_last_acked_timestamp", TOPIC, "s"] == 0
        memory = context.transactions.memory
        memory.committed[topic.id], memory.committed_total, memory.aborted_total = 3, 5, 2
        found = await samples(metrics)
        assert found["pulsar_txn_tb_committed_total", TOPIC, ""] == 3
        assert found["pulsar_txn_created_total", "", ""] == 7
        assert found["pulsar_txn_aborted_total", "", ""] == 2
        now += 0.5
        assert (await samples(metrics))["pulsar_rate_in", TOPIC, ""] == 2, "too soon to say"
        now += 400
        assert (await samples(metrics))["pulsar_rate_in", TOPIC, ""] == 0, "too long ago"


@pytest.mark.real_time  # a clock that jumps while the commit is written ends the reader
async def test_what_is_unread_by_a_reader_is_no_backlog_in_the_log(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic(TOPIC, subscriptions=["s"])
        await topic.subscribe("reader", durable=False, initial=InitialPosition.EARLIEST)
        await appended(engine, topic, [make_entry(b"x")])
        metrics = PulsarMetrics(make_context(engine, PulsarConfig()), engine)
        assert (await samples(metrics))["pulsar_storage_backlog_size", TOPIC, ""] > 0
        await topic.unsubscribe("s")
        found = await samples(metrics)
        assert found["pulsar_storage_backlog_size", TOPIC, ""] == 0
        assert found["pulsar_subscription_back_log", TOPIC, "reader"] == 1


async def test_values_that_can_fall_are_not_counters(tmp_path: Path) -> None:
    """Monitoring takes each fall of a counter for a restart of the broker."""
    async with open_engine(tmp_path) as engine:
        await engine.create_topic(TOPIC)
        page = await page_of(PulsarMetrics(make_context(engine, PulsarConfig()), engine))
    assert "\n# TYPE pulsar_txn_tb_active_total gauge\n" in page
    assert "\n# TYPE pulsar_txn_tb_committed_total counter\n" in page


async def test_topics_that_no_client_knows_are_left_out(tmp_path: Path) -> None:
    """They are in no namespace, and what transactions withhold is nobody's backlog."""
    async with open_engine(tmp_path) as engine:
        context = make_context(engine, PulsarConfig())
        ours = await engine.create_topic(held_records.NAME, subscriptions=["open"])
        await appended(engine, ours, [make_entry(b"x")])
        page = await page_of(PulsarMetrics(context, engine))
        assert 'namespace=""' not in page
        assert held_records.NAME not in page
        found = await samples(PulsarMetrics(context, engine))
        assert found["pulsar_broker_topics_count", "", ""] == 0
        assert found["pulsar_broker_msg_backlog", "", ""] == 0


async def test_delivered_messages_still_count_after_their_subscription_is_gone(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic(TOPIC, subscriptions=["s", "gone"])
        now = 100.0
        metrics = PulsarMetrics(make_context(engine, PulsarConfig()), engine, clock=lambda: now)
        for each in topic.subscriptions.values():
            each.machine.delivery.delivered_total = 30
        assert (await samples(metrics))["pulsar_out_messages_total", TOPIC, ""] == 60
        await topic.unsubscribe("gone")
        now += 10
        found = await samples(metrics)
        assert found["pulsar_out_messages_total", TOPIC, ""] == 60
        assert found["pulsar_rate_out", TOPIC, ""] == 0


async def test_what_no_consumer_could_take_is_dropped_and_not_expired(tmp_path: Path) -> None:
    name = "non-persistent://public/default/t"
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic(name, TopicSettings(durable=False))
        subscription = await topic.subscribe("s", durable=False)
        context = make_context(engine, PulsarConfig())
        context.topic_policies.apply(topic, subscription)
        attach(subscription, permits=0, acks=False)
        await publish(engine, name, [b"1", b"2"])
        await quiet(engine)
        await context.rates.sample()
        found = await samples(PulsarMetrics(context, engine))
        assert found["pulsar_subscription_msg_drop_rate", name, "s"] > 0
        assert found["pulsar_subscription_msg_rate_expired", name, "s"] == 0
        assert found["pulsar_subscription_total_msg_expired", name, "s"] == 0


async def appended(engine: Any, topic: Any, entries: list[bytes]) -> None:
    await engine.committed(Unit([(topic, entries)]))
