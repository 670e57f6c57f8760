"""Reading the log in Spark, beside a floor and beside Parquet.

    python -m bench.spark [--rows 1000000] [--rounds 3] [--kinds amqp,batches,singles]
    python -m bench.spark --linear 20000000

The rule: everything that is compared is measured in one interleaved run, in CPU seconds of the JVM
and Python together, and in elapsed seconds. The floor (:mod:`bench.spark_floor`) is measured each
time, with the columns, rows and sizes of the source beside it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
from bench.spark_floor import write_stream
from bench.spark_session import Report, cpu_seconds, jvm_of, session, worker_peak_mib
from tests.spark_connector.log_generator import LogWriter, amqp_entry, pulsar_entry

from arneb_core.api.entries.codec import Message
from arneb_pulsar.codec import encode_messages
from pyspark_arneb.decode.reading import read_batches
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.options import read_options
from pyspark_arneb.plan.planning import plan_read
from pyspark_arneb.schema import STYLES, columns_of

VALUE_BYTES: Final = 256
KEYS: Final = 1000
BATCH_MESSAGES: Final = 100
COMMIT_ENTRIES: Final = 1000
LINEAR_COMMIT_ENTRIES: Final = 10_000
LEDGER_ROWS: Final = 100_000
WARM_UPS: Final = 2
PLACES: Final = "topic,partition,ledger_id,entry_id,batch_index"

DECODED: Final = {"places": PLACES, "all": "*", "properties": "*,properties"}

TARGETS: Final = {
    ("amqp", "count"): 1.8,
    ("amqp", "length"): 1.8,
    ("amqp", "group"): 1.8,
    ("amqp", "properties"): 1.8,
    ("batches", "count"): 3.0,
    ("batches", "length"): 3.0,
    ("batches", "group"): 3.0,
}
"""The maximum of each query, as a multiple of the floor's CPU time."""

PYTHON_TARGETS: Final = {
    ("amqp", "places"): 0.5,
    ("batches", "places"): 0.5,
    ("singles", "places"): 0.5,
    ("batches", "all"): 3.0,
    ("singles", "all"): 5.0,
}
"""The maximum of Python's decoding, in µs per row."""


def amqp(count: int, start: int, values: Sequence[bytes]) -> list[bytes]:
    """Entries of one AMQP publisher, with various routing keys."""
    return [
        amqp_entry(
            values[n % len(values)],
            routing_key=b"orders.%03d" % (n % KEYS),
            publish_time_ms=1_767_225_600_000 + n,
        )
        for n in range(start, start + count)
    ]


def batches(count: int, start: int, values: Sequence[bytes]) -> list[bytes]:
    """Pulsar batches of a hundred messages."""
    return [
        pulsar_entry(
            encode_messages(_messages(first, BATCH_MESSAGES, values, is_batch=True)),
            messages=BATCH_MESSAGES,
        )
        for first in range(start, start + count, BATCH_MESSAGES)
    ]


def singles(count: int, start: int, values: Sequence[bytes]) -> list[bytes]:
    """Pulsar messages sent one by one."""
    messages = _messages(start, count, values, is_batch=False)
    return [pulsar_entry(encode_messages([message])) for message in messages]


def _messages(start: int, count: int, values: Sequence[bytes], *, is_batch: bool) -> list[Message]:
    return [
        Message(
            values[n % len(values)],
            key=b"orders.%03d" % (n % KEYS),
            publish_time_ms=1_767_225_600_000 + n,
            producer_name="bench-1",
            sequence_id=n,
            batch_index=n - start if is_batch else -1,
        )
        for n in range(start, start + count)
    ]


MAKERS: Final[dict[str, Callable[[int, int, Sequence[bytes]], list[bytes]]]] = {
    "amqp": amqp,
    "batches": batches,
    "singles": singles,
}


def write_log(directory: Path, rows: dict[str, int], ledger_rows: int = LEDGER_ROWS) -> None:
    """Write one topic for each kind of entries."""
    values = [os.urandom(VALUE_BYTES) for _ in range(4096)]
    with LogWriter(directory) as writer:
        for kind, count in rows.items():
            writer.create(kind)
            for start in range(0, count, COMMIT_ENTRIES):
                if start and not start % ledger_rows:
                    writer.roll(kind)
                writer.append(kind, MAKERS[kind](min(COMMIT_ENTRIES, count - start), start, values))


def write_same(directory: Path, topics: dict[str, int]) -> None:
    """Write topics with this many AMQP entries, which repeat, because making them takes longer than
    reading them."""
    entries = amqp(LINEAR_COMMIT_ENTRIES, 0, [os.urandom(VALUE_BYTES) for _ in range(4096)])
    with LogWriter(directory) as writer:
        for topic, rows in topics.items():
            writer.create(topic)
            for start in range(0, rows, LINEAR_COMMIT_ENTRIES):
                if start and not start % LEDGER_ROWS:
                    writer.roll(topic)
                writer.append(topic, entries[: rows - start])


def decoding(directory: Path, kind: str, columns: str, rounds: int) -> float:
    """Python's CPU time per row in µs, the best of some rounds, without Spark."""
    options = read_options({"path": str(directory), "topic": kind, "columns": columns})
    source = options.location.open()
    best, rows = float("inf"), 0
    for _ in range(rounds):
        began, rows = time.process_time(), 0
        for span in plan_read(options).spans:
            for batch in read_batches(source, span, columns_of(options), options):
                rows += batch.num_rows
        best = min(best, time.process_time() - began)
    return best / rows * 1e6


def first_batch(directory: Path, kind: str, columns: str) -> pa.RecordBatch:
    """The batch that the floor repeats: a full batch of the source beside it."""
    options = read_options({"path": str(directory), "topic": kind, "columns": columns})
    for batch in read_batches(
        options.location.open(), plan_read(options).spans[0], columns_of(options), options
    ):
        return batch
    raise AssertionError(f"expected rows in topic {kind}")


@dataclass(slots=True)
class Measured:
    """The costs of one query, round by round."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


QUERIES: Final = {
    "count": lambda frame: frame.count(),
    "length": lambda frame: frame.selectExpr("max(length(value))").collect(),
    "group": lambda frame: frame.groupBy("key").count().selectExpr("max(count)").collect(),
    "properties": lambda frame: frame.count(),
}


def spark_queries(
    report: Report, directory: Path, kinds: Sequence[str], rows: int, rounds: int
) -> dict[tuple[str, str, str], Measured]:
    """Run every query on every source, in turn; the result is by kind, query and source."""
    spark = session()
    jvm = jvm_of(spark)
    usual = ",".join(c.name for c in STYLES[read_options({"path": "/", "topic": "a"}).style][:-2])
    found: dict[tuple[str, str, str], Measured] = {}
    cases: list[tuple[tuple[str, str, str], Callable[[], object]]] = []
    for kind in kinds:
        parquet = str(directory / f"{kind}.parquet")
        log = spark.read.format("arneb").option("path", str(directory)).option("topic", kind)
        log.option("columns", usual).load().repartition(4).write.parquet(parquet)
        for query, run in QUERIES.items():
            columns = f"{usual},properties" if query == "properties" else usual
            floor = {
                "batch": write_stream(first_batch(directory, kind, columns)),
                "rows": rows,
                "partitions": 2,
            }

            def of_log(run: Any = run, columns: str = columns, log: Any = log) -> object:
                return run(log.option("columns", columns).load())

            def of_floor(run: Any = run, floor: Any = floor) -> object:
                return run(spark.read.format("arneb-floor").options(**floor).load())

            def of_parquet(run: Any = run, parquet: str = parquet) -> object:
                return run(spark.read.parquet(parquet))

            cases.append(((kind, query, "log"), of_log))
            cases.append(((kind, query, "floor"), of_floor))
            if query != "properties":
                cases.append(((kind, query, "parquet"), of_parquet))
    for number in range(rounds + 1):
        for key, query_once in cases:
            cpu, wall = cpu_seconds(jvm), time.perf_counter()
            query_once()
            if number:  # the first round warms up
                measured = found.setdefault(key, Measured())
                measured.wall_s.append(time.perf_counter() - wall)
                measured.cpu_s.append(cpu_seconds(jvm) - cpu)
    report.add("workers", "the most that one had", worker_peak_mib(jvm), "MiB", most=200)
    spark.stop()
    return found


def report_queries(report: Report, found: dict[tuple[str, str, str], Measured]) -> None:
    """Report the CPU seconds of each query as a multiple of the floor's, and the elapsed
    seconds."""
    for kind, query in dict.fromkeys((kind, query) for kind, query, _ in found):
        cpu: dict[str, float] = {}
        for source in ("floor", "parquet", "log"):
            measured = found.get((kind, query, source))
            if measured is not None:
                cpu[source] = median(measured.cpu_s)
                wall = median(measured.wall_s)
                report.add(
                    kind, f"{query}: {source}, {wall:.2f} s of the clock", cpu[source], "CPU s"
                )
        target = TARGETS.get((kind, query))
        bound = {} if target is None else {"most": target}
        report.add(kind, f"{query}: log / floor", cpu["log"] / cpu["floor"], "", **bound)


def main() -> None:
    """Measure, print, and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(MAKERS))
    parser.add_argument(
        "--python-only", action="store_true", help="leave out the queries with Spark"
    )
    parser.add_argument(
        "--linear",
        type=int,
        metavar="ROWS",
        help="only compare counting few rows with counting this many",
    )
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    report = Report("spark", f"Reading the log in Spark: {arguments.rows:,} rows of each kind.")
    if arguments.linear:
        linear(report, arguments.rows, arguments.linear)
    else:
        with tempfile.TemporaryDirectory(prefix="arneb-bench-spark-") as folder:
            directory = Path(folder)
            write_log(directory, dict.fromkeys(kinds, arguments.rows))
            for kind in kinds:
                for name, columns in DECODED.items():
                    taken = decoding(directory, kind, columns, arguments.rounds)
                    target = PYTHON_TARGETS.get((kind, name))
                    bound = {} if target is None else {"most": target}
                    report.add(kind, f"Python's decoding: {name}", taken, "µs a row", **bound)
            close_environments()
            if not arguments.python_only:
                found = spark_queries(report, directory, kinds, arguments.rows, arguments.rounds)
                report_queries(report, found)
    if not arguments.no_write:
        print(f"written to {report.write()}")
    sys.exit(not report.is_good)


def linear(report: Report, few: int, many: int) -> None:
    """Check that a row costs the same among many rows as among few, and how much memory the workers
    need."""
    spark = session()
    jvm = jvm_of(spark)
    each: list[float] = []
    with tempfile.TemporaryDirectory(prefix="arneb-bench-spark-") as folder:
        write_same(Path(folder), {f"rows-{rows}": rows for rows in (few, many)})
        reader = spark.read.format("arneb").option("path", folder)
        # otherwise the small number of rows would bear the JVM's compilation
        for _ in range(WARM_UPS):
            assert reader.option("topic", f"rows-{few}").load().count() == few
        for rows in (few, many):
            log = reader.option("topic", f"rows-{rows}")
            cpu, wall = cpu_seconds(jvm), time.perf_counter()
            assert log.load().count() == rows
            each.append((cpu_seconds(jvm) - cpu) / rows * 1e6)
            report.add("linear", f"{rows:,} rows", each[-1], "CPU µs a row")
            report.add("linear", f"{rows:,} rows", time.perf_counter() - wall, "s")
    report.add("linear", "many rows / few rows, CPU a row", each[1] / each[0], "", most=1.15)
    report.add("linear", "a worker's peak", worker_peak_mib(jvm), "MiB", most=200)
    spark.stop()


if __name__ == "__main__":
    main()
