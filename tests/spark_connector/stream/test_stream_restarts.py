"""A stream that is stopped goes on from its checkpoint, though meanwhile the broker was killed and
started again, and what the stream had finished was trimmed."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pika

from arneb.demo.process import BrokerProcess
from arneb_core.api.entries.position import position_at
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.service.connection import close_connections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUE = "in"
BODY_BYTES = 70_000
"""Sixteen of them are a ledger that goes at once when all of it is acknowledged."""


def publish(broker: BrokerProcess, numbers: Sequence[int]) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(QUEUE, durable=True)
        for number in numbers:
            channel.basic_publish(
                "",
                QUEUE,
                b"%d" % number + bytes(BODY_BYTES),
                pika.BasicProperties(delivery_mode=2),
            )


def purge(broker: BrokerProcess) -> None:
    """The queue's own cursor holds nothing back any more."""
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().queue_purge(QUEUE)


def run_to_the_end(spark: "SparkSession", broker: BrokerProcess, where: Path) -> None:
    running = (
        spark.readStream.format("arneb")
        .option("service.url", f"http://{broker.addresses['http']}")
        .option("topic", QUEUE)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10)
        .load()
        .select("value")
        .writeStream.format("parquet")
        .option("path", str(where / "rows"))
        .option("checkpointLocation", str(where / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()


def floor(data: Path) -> int:
    (extent,) = Directory(str(data)).open().extents([full_name(QUEUE)])
    return extent.floor


def test_a_stream_goes_on_though_the_broker_was_killed_and_the_log_trimmed(
    spark: "SparkSession", tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data) as broker:
        publish(broker, range(16))
        run_to_the_end(spark, broker, tmp_path)
        purge(broker)
        publish(broker, range(16, 18))
        assert floor(data) == position_at(2, 0), "the stream and the queue have both passed it"
        broker.kill()
    with BrokerProcess(data) as broker:
        publish(broker, range(18, 40))
        purge(broker)
        publish(broker, range(40, 41))
        assert floor(data) == position_at(2, 0), "the stream has not read it"
        run_to_the_end(spark, broker, tmp_path)
        close_connections()
    rows = [
        int(row.value.rstrip(b"\0")) for row in spark.read.parquet(str(tmp_path / "rows")).collect()
    ]
    assert Counter(rows) == Counter(range(41))
