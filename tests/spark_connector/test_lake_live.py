"""The table while everything moves: published, consumed, rolled, sealed, merged and trimmed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pika
from lake_kit import ORDERS

from arneb.demo.process import BrokerProcess
from pyspark_arneb import table
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.service.connection import Address, close_connections
from pyspark_arneb.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


QUERIES = 2
BURST = 25


@contextmanager
def publishing(broker: BrokerProcess) -> Iterator[list[int]]:
    """Numbers from 0 on come into the queue and are consumed at once; how many are confirmed."""
    confirmed = [0]
    stopped = Event()
    parameters = pika.ConnectionParameters(port=broker.amqp_port)

    def publish() -> None:
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not stopped.wait(0.02):
                for number in range(confirmed[0], confirmed[0] + BURST):
                    channel.basic_publish("", "orders", b"%d" % number)
                confirmed[0] += BURST
                channel.queue_purge("orders")

    thread = Thread(target=publish)
    thread.start()
    try:
        yield confirmed
    finally:
        stopped.set()
        thread.join()


@contextmanager
def offloading(broker: BrokerProcess, lake: Path) -> Iterator[None]:
    """A service that rolls, seals, merges and trims as fast as it can."""
    words = ["offload", f"http://{broker.addresses['http']}", str(lake), "orders"]
    words += ["--follow", "--interval", "0.1", "--roll", "--trim"]
    with subprocess.Popen(
        [sys.executable, "-m", "arneb", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "it has sealed something"
        drained = Thread(target=process.stdout.read)
        drained.start()
        yield
        process.terminate()
        drained.join()


def test_every_table_is_the_log_of_one_instant(spark: "SparkSession", tmp_path: Path) -> None:
    lake, data = tmp_path / "lake", tmp_path / "data"
    with BrokerProcess(data, ["amqp", "http"]) as broker:
        place = f"http://{broker.addresses['http']}"
        with pika.BlockingConnection(pika.ConnectionParameters(port=broker.amqp_port)) as first:
            first.channel().queue_declare("orders", durable=True)
            first.channel().basic_publish("", "orders", b"-1")
        # From now on the tier's cursor keeps what is not out.
        with offloading(broker, lake), publishing(broker) as confirmed:
            for way in ({"path": str(data)}, {"service.url": place}):
                for _ in range(QUERIES):
                    before = confirmed[0]
                    frame = table(spark, "orders", lake=str(lake), columns="value", **way)
                    after = confirmed[0] + BURST
                    for _ in range(2):
                        found = sorted(int(row.value) for row in frame.collect())
                        assert found == list(range(-1, len(found) - 1))
                        assert before <= len(found) - 1 <= after
                close_environments()
            (extent,) = Remote(Address(place)).open().extents([ORDERS])
        close_connections()
    sealed = SealedTable.open(Target.of(str(lake)), ORDERS)
    assert sealed is not None
    assert extent.floor >> 32 > 3, "ledgers were trimmed meanwhile"
    assert sealed.files()[-1].last > 3
