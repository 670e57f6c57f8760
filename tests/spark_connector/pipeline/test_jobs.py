"""Report and compaction as jobs, over logs that an engine made, and over a broker."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest
from conformance.brokers.arneb import Arneb

from pyspark_arneb.pipeline import compact as compaction
from pyspark_arneb.pipeline import replay as replaying
from pyspark_arneb.pipeline.compact import compact
from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.report import Report, report
from pyspark_arneb.pipeline.report_page import page
from pyspark_arneb.pipeline.session import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORY = {"x-history": True}
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arneb]:
    """A broker with 60 orders, 40 of which were handled."""
    running = Arneb(tmp_path_factory.mktemp("jobs"), listeners=("amqp", "http"))
    running.start()
    with connected(running) as connection:
        channel = connection.channel()
        for queue, arguments in (("dead", {}), ("orders", HISTORY | DEAD)):
            channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.exchange_declare("events", "topic", durable=True)
        channel.queue_bind("orders", "events", "#")
        channel.confirm_delivery()
        for number in range(60):
            body = json.dumps({"id": number}).encode() if number < 55 else b""
            properties = pika.BasicProperties(delivery_mode=2, headers={"n": number})
            channel.basic_publish("events", f"key.{number % 5}", body, properties)
        for number in range(40):
            tag = channel.basic_get("orders")[0].delivery_tag
            if number % 10 == 9:
                channel.basic_nack(tag, requeue=False)
            else:
                channel.basic_ack(tag)
        while channel.queue_declare("dead", passive=True).method.message_count < 4:
            connection.process_data_events(0.05)
    yield running
    running.stop()


def connected(broker: Arneb) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.address.port))


@pytest.fixture(scope="module")
def made(spark: "SparkSession", broker: Arneb) -> Report:
    return report(spark, Location(path=str(broker.data)), ["orders", "dead"])


def test_a_report_has_the_figures_of_each_queue(made: Report) -> None:
    dead, orders = made.topics
    assert (orders.messages, orders.tombstones) == (60, 0)
    assert orders.bytes == sum(len(json.dumps({"id": n})) for n in range(55))
    assert dict(orders.hot_keys) == {f"key.{n}": 12 for n in range(5)}
    assert dead.dead_letters == {"rejected": 4} and not orders.dead_letters
    assert orders.size_bytes.most == len('{"id": 10}')
    assert sum(each.messages for each in orders.over_time) == 60
    assert orders.peak_per_s >= orders.per_s / 2 > 0


def test_a_report_has_what_a_history_tells(made: Report) -> None:
    (history,) = made.histories
    assert history.where == "persistent://public/default/orders/amqp"
    assert (history.delivered, history.redelivered, history.acknowledged) == (40, 0, 36)
    assert history.departed == {"rejected": 4} and history.most_delivered == 1
    assert 0 <= history.to_delivery_ms.p50 <= history.to_ack_ms.most


def test_the_page_stands_alone_and_believes_no_name(made: Report) -> None:
    from dataclasses import replace

    orders = replace(made.topics[1], topic="<script>alert(1)</script>", hot_keys=[("<b>", 3)])
    text = page(replace(made, topics=[orders]), datetime(2026, 1, 1, tzinfo=UTC))
    assert "<script" not in text and "&lt;script&gt;" in text and "&lt;b&gt;" in text
    assert "http" not in text and "src=" not in text
    assert "<svg" in text and "publish to ack" in text


def test_a_compaction_takes_as_much_of_a_message_along_as_a_replay() -> None:
    assert set(compaction.WRITTEN) == set(replaying.WRITTEN)


def test_a_compaction_keeps_the_last_of_each_key_and_honours_tombstones(
    spark: "SparkSession", broker: Arneb, tmp_path: Path
) -> None:
    """The last five orders have no body: they take all five keys away. Without them 50 to 54 are
    the last."""
    table = tmp_path / "table"
    done = compact(spark, Location(path=str(broker.data)), "orders", into_table=str(table))
    assert (done.read, done.kept) == (60, 0)
    assert spark.read.parquet(str(table)).count() == 0
    with pytest.raises(JobFailed, match="already exists"):
        compact(spark, Location(path=str(broker.data)), "orders", into_table=str(table))
    with pytest.raises(JobFailed, match="needs --url"):
        compact(spark, Location(path=str(broker.data)), "orders", into_topic="new")
