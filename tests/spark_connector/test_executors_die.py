"""Executors die and tasks fail while they read and write: nothing is lost, nothing is doubled."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pika
import pyspark
import pytest
from tests.spark_connector.stream.soak import bodies_in

from arneb.demo.process import BrokerProcess

JOB = Path(__file__).with_name("failing_job.py")
ROWS = 3_000
SEED = 7
SECONDS_MAX = 900
"""It takes half a minute, and fifteen times as long where many others have the processors."""


def publish(broker: BrokerProcess) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        for queue in ("in", "batch", "stream"):
            channel.queue_declare(queue, durable=True)
        durable = pika.BasicProperties(delivery_mode=2)
        for number in range(ROWS):
            channel.basic_publish("", "in", b"%d" % number, durable)
        while channel.queue_declare("in", passive=True).method.message_count < ROWS:
            connection.process_data_events(0.1)


def spark_home(place: Path) -> Path:
    """A Spark of its own: executors have their directories in it."""
    place.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "work":
            (place / each.name).symlink_to(each)
    return place


@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.skipif(sys.platform != "linux", reason="finds executors in /proc")
def test_attempts_that_die_or_fail_change_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        publish(broker)
        url = f"http://{broker.addresses['http']}"
        done = subprocess.run(
            [sys.executable, str(JOB), url, str(tmp_path), str(SEED)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "SPARK_HOME": str(spark_home(tmp_path / "spark")),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX - 60,
            check=False,
        )
    print(f"seed {SEED}", done.stdout, done.stderr)
    (line,) = (each for each in done.stdout.splitlines() if each.startswith("JOB "))
    report = json.loads(line.removeprefix("JOB "))
    for name in ("read", "write", "stream"):
        attempts, victims = report[f"{name} attempts"], report[name]
        for kind, partition in victims.items():
            assert f"{partition}-1" in attempts, f"{name}: no second attempt of what {kind}"
    bodies = [b"%d" % number for number in range(ROWS)]
    assert Counter(report["rows"]) == Counter(map(bytes.decode, bodies))
    for queue in ("batch", "stream"):
        assert Counter(bodies_in(tmp_path / "data", queue)) == Counter(bodies), queue
