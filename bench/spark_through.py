"""Rows through a broker: read by executors without the data directory, as a stream, and written.

    python -m bench.spark_through [--parts service,stream,fixed,sink] [--rows 1000000]

The rule: the broker, Spark and its workers share this machine's processors, and CPU seconds are
those of all of them. Each part warms up before it is measured.

* ``service``: what one executor reads through ``service.url``, in this process, without Spark.
* ``stream``: a streaming query catches up with a log, in micro-batches, beside the floor: the same
  rows in as many micro-batches, from prebuilt batches.
* ``fixed``: how long a micro-batch of one row takes.
* ``sink``: rows written to a queue and to a topic, exactly once, confirmed when the write ends.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from bench.load import LoadGenerator, compile_generator
from bench.spark import first_batch
from bench.spark_floor import write_stream
from bench.spark_session import Report, cpu_seconds, jvm_of, session
from conformance.brokers.arneb import Arneb

from pyspark_arneb.decode.reading import read_batches
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.options import read_options
from pyspark_arneb.plan.planning import plan_read
from pyspark_arneb.schema import columns_of
from pyspark_arneb.service.connection import Address
from pyspark_arneb.sink.rows import encode_rows
from pyspark_arneb.sink.staging import RemoteStaging, Stage

BODY: Final = 256
BATCH_ROWS: Final = 500_000
"""Rows per micro-batch: ``maxOffsetsPerTrigger``."""
COMMIT_ROWS: Final = 250_000
USUAL: Final = "topic,ledger_id,entry_id,batch_index,key,value,publish_time,flags"

KEPT: Final = "[retention]\ntime_s = -1\nbytes = -1\n"
"""Settings that keep messages, because the topics that are read here have no subscriptions."""

SERVICE_TARGETS: Final = {"amqp": 0.3, "batches": 0.15}
STREAM_TARGETS: Final = {"amqp": 0.5, "batches": 0.25}
FIXED_S: Final = 0.4
SINK_TARGET: Final = 100_000


def fill(load: LoadGenerator, broker: Arneb, rows: int) -> None:
    """Fill a queue and a topic with this many rows: single AMQP messages, and Pulsar batches."""
    load.run(broker.address, "publish", count=rows, window=5000, body=BODY, queue="amqp", keep=True)
    staging = RemoteStaging(Address(f"http://{broker.http_address}", "guest", "guest"))
    table = pa.RecordBatch.from_pydict(
        {"value": pa.array([os.urandom(BODY) for _ in range(8192)], pa.binary())}
    )
    query = uuid4().hex
    for batch, start in enumerate(range(0, rows, COMMIT_ROWS)):
        pieces = done = 0
        while done < min(COMMIT_ROWS, rows - start):
            part = table.slice(0, min(COMMIT_ROWS, rows - start) - done)
            for body in encode_rows(part, [{"topic": "persistent://public/default/batches"}]):
                staging.stage(query, batch, "s", pieces, body.data)
                pieces, done = pieces + 1, done + body.rows
        whole = Stage(query, batch, "s", pieces, done)
        staging.commit(query, batch, [whole], mandatory=False, is_last=False)


def service(report: Report, broker: Arneb, rows: int, rounds: int) -> None:
    """Measure the reading of one executor."""
    url = f"http://{broker.http_address}"
    for kind, least in SERVICE_TARGETS.items():
        options = read_options(
            {"service.url": url, "service.user": "guest", "service.password": "guest",
             "topic": kind, "columns": USUAL}
        )  # fmt: skip
        best, cpu = float("inf"), 0.0
        for _ in range(rounds):
            begun, spent = time.perf_counter(), time.process_time() + cpu_seconds(broker.pid)
            source, count = options.location.open(), 0
            for span in plan_read(options).spans:
                for batch in read_batches(source, span, columns_of(options), options):
                    count += batch.num_rows
            assert count == rows, f"expected {rows} rows of {kind}, got {count}"
            taken = time.perf_counter() - begun
            if taken < best:
                best = taken
                cpu = time.process_time() + cpu_seconds(broker.pid) - spent
        report.add("service", f"{kind}: one executor", rows / best / 1e6, "M rows/s", least=least)
        report.add("service", f"{kind}: executor and broker", cpu / rows * 1e6, "CPU µs a row")


def caught_up(frame: Any, folder: Path) -> tuple[int, float]:
    """Run a query until it has caught up; the result is its rows and the seconds of its
    micro-batches."""
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(folder / uuid4().hex))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows, seconds = 0, 0.0
    for each in query.recentProgress:
        if each.numInputRows:
            rows += each.numInputRows
            seconds += each.durationMs["triggerExecution"] / 1000
    return rows, seconds


def stream(report: Report, broker: Arneb, folder: Path, rows: int, rounds: int, spark: Any) -> None:
    """Measure catching up through ``service.url``, through ``path``, and from the floor."""
    jvm = jvm_of(spark)
    for kind, least in STREAM_TARGETS.items():
        by_path = {"path": str(broker.data)}
        by_url = {"service.url": f"http://{broker.http_address}", "service.user": "guest",
                  "service.password": "guest"}  # fmt: skip
        batch = write_stream(first_batch(broker.data, kind, USUAL))
        close_environments()
        floor = {"batch": batch, "rows": rows, "partitions": 2, "batches": -(-rows // BATCH_ROWS)}
        common = {
            "topic": kind, "columns": USUAL, "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": BATCH_ROWS,
        }  # fmt: skip
        ways: dict[str, tuple[str, dict[str, Any]]] = {
            "floor": ("arneb-floor", floor),
            "path": ("arneb", {**common, **by_path}),
            "url": ("arneb", {**common, **by_url}),
        }
        rates: dict[str, list[float]] = {}
        spent: dict[str, list[float]] = {}
        for number in range(rounds + 1):
            for way, (source, options) in ways.items():
                cpu = cpu_seconds(jvm) + cpu_seconds(broker.pid)
                reader = spark.readStream.format(source).options(**options)
                count, seconds = caught_up(reader.load(), folder)
                assert count == rows, f"expected {rows} rows of {kind} by {way}, got {count}"
                if number:
                    rates.setdefault(way, []).append(count / seconds / 1e6)
                    cpu = cpu_seconds(jvm) + cpu_seconds(broker.pid) - cpu
                    spent.setdefault(way, []).append(cpu / rows * 1e6)
        for way in ways:
            bound = {"least": least} if way == "path" else {}
            report.add("stream", f"{kind}: {way}", median(rates[way]), "M rows/s", **bound)
            report.add("stream", f"{kind}: {way}", median(spent[way]), "CPU µs a row")


def fixed(report: Report, load: LoadGenerator, broker: Arneb, folder: Path, spark: Any) -> None:
    """Measure micro-batches of one message each."""
    load.run(broker.address, "publish", count=30, window=10, body=BODY, queue="few", keep=True)
    for way, where in {
        "path": {"path": str(broker.data)},
        "url": {"service.url": f"http://{broker.http_address}", "service.user": "guest",
                "service.password": "guest"},
    }.items():  # fmt: skip
        query = (
            spark.readStream.format("arneb")
            .options(topic="few", startingOffsets="earliest", maxOffsetsPerTrigger=1, **where)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / uuid4().hex))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        taken = [
            each.durationMs["triggerExecution"] / 1000
            for each in query.recentProgress
            if each.numInputRows
        ]
        report.add(
            "fixed", f"a micro-batch of one row by {way}", median(taken[5:]), "s", most=FIXED_S
        )


def sink(
    report: Report, load: LoadGenerator, broker: Arneb, rows: int, rounds: int, spark: Any
) -> None:
    """Measure the writing of rows that are in memory."""
    load.run(broker.address, "publish", count=1, window=1, body=BODY, queue="out", keep=True)
    frame = spark.range(rows).selectExpr(
        "cast(repeat(md5(cast(id as string)), 8) as binary) value",
        "cast(concat('orders.', id % 1000) as binary) key",
    )
    frame = frame.repartition(2).cache()
    assert frame.count() == rows
    where = {"service.url": f"http://{broker.http_address}", "service.user": "guest",
             "service.password": "guest"}  # fmt: skip
    jvm = jvm_of(spark)
    for name, target in {"queue": {"queue": "out"}, "topic": {"topic": "written"}}.items():
        rates: list[float] = []
        spent: list[float] = []
        for _ in range(rounds + 1):
            cpu, begun = cpu_seconds(jvm) + cpu_seconds(broker.pid), time.perf_counter()
            frame.write.format("arneb").options(**where, **target).mode("append").save()
            rates.append(rows / (time.perf_counter() - begun))
            spent.append((cpu_seconds(jvm) + cpu_seconds(broker.pid) - cpu) / rows * 1e6)
        report.add("sink", f"to a {name}, cold", rates[0], "rows/s")
        report.add("sink", f"to a {name}", median(rates[1:]), "rows/s", least=SINK_TARGET)
        report.add("sink", f"to a {name}: Spark and broker", median(spent[1:]), "CPU µs a row")
    frame.unpersist()


def main() -> None:
    """Measure, print, and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", default="service,stream,fixed,sink")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    parts, rows, rounds = arguments.parts.split(","), arguments.rows, arguments.rounds
    about = f"Rows through a broker, {rows:,} at a time, on one machine."
    report = Report("spark-through", about)
    with tempfile.TemporaryDirectory(prefix="arneb-bench-through-") as place:
        folder = Path(place)
        load = compile_generator(folder / "load")
        broker = Arneb(folder / "broker", settings=KEPT).start()
        try:
            if {"service", "stream"} & set(parts):
                fill(load, broker, rows)
            if "service" in parts:
                service(report, broker, rows, rounds)
            if set(parts) - {"service"}:
                spark = session()
                if "stream" in parts:
                    stream(report, broker, folder, rows, rounds, spark)
                if "fixed" in parts:
                    fixed(report, load, broker, folder, spark)
                if "sink" in parts:
                    sink(report, load, broker, rows, rounds, spark)
                spark.stop()
        finally:
            broker.kill()
    if not arguments.no_write:
        print(f"written to {report.write()}")
    sys.exit(not report.is_good)


if __name__ == "__main__":
    main()
