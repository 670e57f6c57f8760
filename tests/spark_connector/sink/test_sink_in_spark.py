"""Writes inside Spark, to a real broker: where rows go, what they are there, what is refused."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest

from arneb.demo.process import BrokerProcess
from pyspark_arneb.service.connection import Address, ask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", running.amqp_port)
        )
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("copy", durable=True)
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_declare("routed", durable=True)
        channel.queue_bind("routed", "shop", "new.*")
        connection.close()
        yield running


def url(broker: BrokerProcess) -> str:
    return f"http://{broker.addresses['http']}"


def save(frame: "DataFrame", broker: BrokerProcess, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("arneb").mode(mode).option("service.url", url(broker))
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def read(spark: "SparkSession", broker: BrokerProcess, topic: str) -> list[Any]:
    frame = (
        spark.read.format("arneb")
        .option("service.url", url(broker))
        .option("topic", topic)
        .option("includeProperties", "true")
        .load()
    )
    rows = frame.collect()
    return sorted(rows, key=lambda row: (row.ledger_id, row.entry_id, row.batch_index))


def test_rows_go_to_a_queue_and_are_what_they_were(
    spark: "SparkSession", broker: BrokerProcess
) -> None:
    frame = spark.sql(
        "SELECT cast(id AS string) AS value, map('n', cast(id AS string)) AS properties, "
        "timestamp '2026-01-02 03:04:05' AS event_time FROM range(0, 5, 1, 2)"
    )
    save(frame, broker, queue="orders")
    rows = read(spark, broker, "orders")
    assert [bytes(row["value"]) for row in rows] == [b"0", b"1", b"2", b"3", b"4"]
    assert [row.properties["n"] for row in rows] == list("01234")
    assert {row.event_time.isoformat() for row in rows} == {"2026-01-02T03:04:05"}


def test_typed_headers_are_of_the_same_type_in_a_queue(
    spark: "SparkSession", broker: BrokerProcess
) -> None:
    headers = {
        "bytes": b"\xff\x00",
        "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "decimal": Decimal("1.5"),
        "list": [1, "a"],
        "table": {"n": 1},
        "none": None,
        "text": "x",
    }
    where = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        for queue in ("typed", "typed-copy"):
            channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "typed", b"v", pika.BasicProperties(headers=headers))
        source = spark.read.format("arneb").option("service.url", url(broker))
        frame = source.option("queue", "typed").option("columns", "value,headers").load()
        save(frame, broker, queue="typed-copy")
        found = []
        for queue in ("typed", "typed-copy"):
            _, properties, _ = channel.basic_get(queue, auto_ack=True)
            found.append(properties.headers)
    assert found[0] == found[1]
    assert found[1].keys() == headers.keys()


def test_null_values_stay_null_in_a_topic(spark: "SparkSession", broker: BrokerProcess) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('k', 'v'), ('k', null), ('l', '') AS t(key, value)")
    save(frame.coalesce(1), broker, topic="by-key")
    rows = read(spark, broker, "by-key")
    assert [(row.key, row["value"]) for row in rows] == [(b"k", b"v"), (b"k", None), (b"l", b"")]


def test_an_exchange_routes_by_key_and_a_row_that_no_queue_takes_fails_the_write(
    spark: "SparkSession", broker: BrokerProcess
) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('new.a', '1'), ('old.b', '2') AS t(key, value)")
    with pytest.raises(Exception, match='option "mandatory": '):
        save(frame, broker, exchange="shop")
    assert read(spark, broker, "routed") == [], (
        "no row may be published, not even those with a queue"
    )
    save(frame, broker, exchange="shop", mandatory="false")
    assert [bytes(row["value"]) for row in read(spark, broker, "routed")] == [b"1"]


def test_a_table_of_the_catalogue_takes_rows_by_its_own_options(
    spark: "SparkSession", broker: BrokerProcess
) -> None:
    where = f"'service.url' '{url(broker)}', topic 'inserted'"
    save(spark.sql("SELECT 'first' AS value"), broker, topic="inserted")
    spark.sql(f"CREATE TABLE inserted USING arneb OPTIONS ({where}, columns 'key,value')")
    try:
        spark.sql("INSERT INTO inserted VALUES (X'6b', X'76'), (X'6b', NULL)")
        spark.sql("INSERT INTO inserted (value) SELECT value FROM inserted WHERE value = X'76'")
        rows = [(row.key, row["value"]) for row in read(spark, broker, "inserted")]
        assert rows == [(None, b"first"), (b"k", b"v"), (b"k", None), (None, b"v")]
        with pytest.raises(Exception, match="only appended to"):
            spark.sql("INSERT OVERWRITE inserted VALUES (X'6b', X'76')")
    finally:
        spark.sql("DROP TABLE inserted")


@pytest.mark.parametrize(
    ("options", "mode", "reason"),
    [
        ({"queue": "nothing"}, "append", 'option "queue": '),
        ({"exchange": "nothing"}, "append", 'option "exchange": '),
        ({"queue": "orders"}, "overwrite", 'only appended to: expected mode "append"'),
        ({}, "append", 'option "topic": give topic, queue or exchange, or a column'),
    ],
)
def test_what_cannot_be_written_says_why(
    spark: "SparkSession",
    broker: BrokerProcess,
    options: dict[str, str],
    mode: str,
    reason: str,
) -> None:
    with pytest.raises(Exception, match=reason):
        save(spark.sql("SELECT 'x' AS value"), broker, mode, **options)


def run_stream(
    spark: "SparkSession", broker: BrokerProcess, where: Path, **source: str
) -> list[dict[str, Any]]:
    """Copy the queue ``orders`` to ``copy``, as far as it goes: the progress."""
    reader = spark.readStream.format("arneb").option("service.url", url(broker))
    for name, value in {"topic": "orders", "startingOffsets": "earliest", **source}.items():
        reader = reader.option(name, value)
    running = (
        reader.load()
        .writeStream.format("arneb")
        .option("service.url", url(broker))
        .option("queue", "copy")
        .option("checkpointLocation", str(where))
        .trigger(availableNow=True)
        .start()
    )
    try:
        running.awaitTermination()
    finally:
        running.stop()
    return [json.loads(each.json) for each in running.recentProgress]


def test_a_batch_that_is_in_the_broker_and_not_in_spark_s_commit_log_is_written_once(
    spark: "SparkSession", broker: BrokerProcess, tmp_path: Path
) -> None:
    """The driver dies between the two commits. When the batch is run again it has other
    partitions, and the broker knows it all the same."""
    checkpoint = tmp_path / "checkpoint"
    run_stream(spark, broker, checkpoint)
    before = [bytes(row["value"]) for row in read(spark, broker, "copy")]
    assert sorted(before) == [b"0", b"1", b"2", b"3", b"4"]
    for each in (checkpoint / "commits").glob("*0*"):
        each.unlink()
    run_stream(spark, broker, checkpoint, minPartitions="3")
    assert (checkpoint / "commits" / "0").exists()
    assert [bytes(row["value"]) for row in read(spark, broker, "copy")] == before


def test_the_cursor_of_a_query_is_named_by_its_option_and_ends_without_a_backlog(
    spark: "SparkSession", broker: BrokerProcess, tmp_path: Path
) -> None:
    named = {"subscription": "analysis", "cursorLease": "1 hour", "maxOffsetsPerTrigger": "2"}
    progress = run_stream(spark, broker, tmp_path / "checkpoint", **named)
    backlogs = [each["sources"][0]["latestOffset"]["backlog"]["messages"] for each in progress]
    assert backlogs[:3] == [5, 3, 1]
    run_stream(spark, broker, tmp_path / "checkpoint", **named)
    topic = "persistent://public/default/orders"
    held = ask(Address(url(broker)), "GET", "/cursors", parameters={"topic": topic})
    assert held["cursors"][topic]["analysis"]["owner"] == "analysis"
    holder = {"subscription": "analysis", "owner": "analysis", "lease_s": 60, "expect": True}
    found = ask(
        Address(url(broker)),
        "POST",
        "/cursors/open",
        body={**holder, "topics": {topic: {"initial": "earliest"}}},
    )
    assert found["cursors"][topic]["backlog"]["messages"] == 0
