"""Reading the log in Spark, beside a floor and beside Parquet.

    python -m bench.spark [--rows 1000000] [--rounds 3] [--linear 20000000]

The rule: everything that is compared is measured in one interleaved run, in CPU seconds of the JVM
and of Python together, as well as in seconds of the clock; the floor (:mod:`bench.spark_floor`) is
measured anew, with the columns, rows and sizes of the source that stands beside it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
from bench.spark_floor import FloorSource, write_stream
from tests.spark_connector.log_generator import LogWriter, amqp_entry, pulsar_entry

from arneb_core.api.codec import Message
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
LEDGER_ROWS: Final = 100_000
TICKS: Final = os.sysconf("SC_CLK_TCK")
PLACES: Final = "topic,partition,ledger_id,entry_id,batch_index"

TARGETS: Final = {
    ("amqp", "count"): 1.8,
    ("amqp", "length"): 1.8,
    ("amqp", "group"): 1.8,
    ("amqp", "properties"): 1.8,
    ("batches", "count"): 3.0,
    ("batches", "length"): 3.0,
    ("batches", "group"): 3.0,
}
"""The most that a query may take, as a multiple of the floor's CPU."""

PYTHON_TARGETS: Final = {
    ("amqp", "places"): 0.5,
    ("batches", "places"): 0.5,
    ("singles", "places"): 0.5,
    ("batches", "all"): 3.0,
    ("singles", "all"): 5.0,
}
"""The most that Python's decoding may take, in µs a row."""


def amqp(count: int, start: int, values: Sequence[bytes]) -> list[bytes]:
    """Entries as one publisher's, with routing keys that differ."""
    return [
        amqp_entry(
            values[n % len(values)],
            routing_key=b"orders.%03d" % (n % KEYS),
            publish_time_ms=1_767_225_600_000 + n,
        )
        for n in range(start, start + count)
    ]


def batches(count: int, start: int, values: Sequence[bytes]) -> list[bytes]:
    """Pulsar batches of a hundred."""
    return [
        pulsar_entry(
            encode_messages(_messages(first, BATCH_MESSAGES, values, is_batch=True)),
            messages=BATCH_MESSAGES,
        )
        for first in range(start, start + count, BATCH_MESSAGES)
    ]


def singles(count: int, start: int, values: Sequence[bytes]) -> list[bytes]:
    """Pulsar messages that were sent one by one."""
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


def write_log(directory: Path, rows: dict[str, int]) -> None:
    """One topic for each kind of entries."""
    values = [os.urandom(VALUE_BYTES) for _ in range(4096)]
    with LogWriter(directory) as writer:
        for kind, count in rows.items():
            writer.create(kind)
            for start in range(0, count, COMMIT_ENTRIES):
                if start and not start % LEDGER_ROWS:
                    writer.roll(kind)
                writer.append(kind, MAKERS[kind](min(COMMIT_ENTRIES, count - start), start, values))


def decoding(directory: Path, kind: str, columns: str, rounds: int) -> float:
    """µs of Python's CPU a row, the best of some rounds; without Spark."""
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
    """What the floor repeats: a full batch of the source that stands beside it."""
    options = read_options({"path": str(directory), "topic": kind, "columns": columns})
    for batch in read_batches(
        options.location.open(), plan_read(options).spans[0], columns_of(options), options
    ):
        return batch
    raise AssertionError(f"expected rows in topic {kind}")


@dataclass(slots=True)
class Measured:
    """What one query took, round by round."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def tree_of(pid: int) -> Iterator[int]:
    """A process and all that it started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from tree_of(int(child))


def cpu_seconds(pid: int) -> float:
    """Of a process and its children, those that have ended included."""
    total = 0
    for each in tree_of(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def worker_peak_mib(pid: int) -> float:
    """The most memory that one of the Python workers has had."""
    peak = 0
    for each in tree_of(pid):
        try:
            command = Path(f"/proc/{each}/comm").read_text()
            status = Path(f"/proc/{each}/status").read_text()
        except OSError:
            continue
        if command.startswith("python") and each != os.getpid():
            (line,) = [each for each in status.splitlines() if each.startswith("VmHWM")]
            peak = max(peak, int(line.split()[1]))
    return peak / 1024


def session() -> Any:
    """Spark on two cores of this machine."""
    from pyspark.sql import SparkSession

    roots = ("core", "amqp_frontend", "pulsar_frontend", "spark_connector", "broker", ".")
    paths = [str(Path(root).resolve()) for root in roots]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("arneb bench")
    settings = {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(FloorSource)
    return spark


QUERIES: Final = {
    "count": lambda frame: frame.count(),
    "length": lambda frame: frame.selectExpr("max(length(value))").collect(),
    "group": lambda frame: frame.groupBy("key").count().selectExpr("max(count)").collect(),
    "properties": lambda frame: frame.count(),
}


def spark_queries(directory: Path, rows: int, rounds: int) -> dict[tuple[str, str, str], Measured]:
    """Every query on every source, in turn: by kind, query, and which source."""
    spark = session()
    jvm = spark.sparkContext._gateway.proc.pid
    usual = ",".join(c.name for c in STYLES[read_options({"path": "/", "topic": "a"}).style][:-2])
    found: dict[tuple[str, str, str], Measured] = {}
    cases: list[tuple[tuple[str, str, str], Callable[[], object]]] = []
    for kind in ("amqp", "batches", "singles"):
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
        for key, run in cases:
            cpu, wall = cpu_seconds(jvm), time.perf_counter()
            run()
            if number:  # the first round warms up
                measured = found.setdefault(key, Measured())
                measured.wall_s.append(time.perf_counter() - wall)
                measured.cpu_s.append(cpu_seconds(jvm) - cpu)
    print(f"workers' peak: {worker_peak_mib(jvm):.0f} MiB")
    spark.stop()
    return found


def report(found: dict[tuple[str, str, str], Measured]) -> bool:
    """Print the table; whether every target is met."""
    good = True
    print(f"{'query':24} {'log':>14} {'floor':>14} {'parquet':>14} {'log/floor':>9}  target")
    for kind, query in dict.fromkeys((kind, query) for kind, query, _ in found):
        cells = []
        cpu: dict[str, float] = {}
        for source in ("log", "floor", "parquet"):
            measured = found.get((kind, query, source))
            if measured is None:
                cells.append(f"{'':>14}")
                continue
            cpu[source] = median(measured.cpu_s)
            cells.append(f"{cpu[source]:6.2f} ({median(measured.wall_s):5.2f})")
        ratio, target = cpu["log"] / cpu["floor"], TARGETS.get((kind, query))
        good = good and (target is None or ratio <= target)
        print(f"{kind + ' ' + query:24} {' '.join(cells)} {ratio:9.2f}  {target or ''}")
    return good


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python-only", action="store_true", help="no Spark")
    parser.add_argument("--linear", type=int, metavar="ROWS", help="also count so many AMQP rows")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arneb-bench-spark-") as folder:
        directory = Path(folder)
        write_log(directory, dict.fromkeys(MAKERS, arguments.rows))
        good = True
        print("Python's decoding, µs of CPU a row")
        for kind in MAKERS:
            for name, columns in (("places", PLACES), ("all", "*"), ("properties", "*,properties")):
                taken = decoding(directory, kind, columns, arguments.rounds)
                target = PYTHON_TARGETS.get((kind, name))
                good = good and (target is None or taken <= target)
                print(f"{kind + ' ' + name:24} {taken:6.2f}  {target or ''}")
        close_environments()
        if not arguments.python_only:
            print("\nSpark, CPU seconds of JVM and Python (seconds of the clock)")
            good = report(spark_queries(directory, arguments.rows, arguments.rounds)) and good
        if arguments.linear:
            linear(arguments.rows, arguments.linear)
    sys.exit(not good)


def linear(few: int, many: int) -> None:
    """Whether many rows take as much a row as few do, and what the workers need for them."""
    spark = session()
    jvm = spark.sparkContext._gateway.proc.pid
    for rows in (few, many):
        with tempfile.TemporaryDirectory(prefix="arneb-bench-spark-") as folder:
            write_log(Path(folder), {"amqp": rows})
            log = spark.read.format("arneb").option("path", folder).option("topic", "amqp")
            cpu, wall = cpu_seconds(jvm), time.perf_counter()
            assert log.load().count() == rows
            taken = cpu_seconds(jvm) - cpu
            print(
                f"{rows:>12,} rows: {taken / rows * 1e6:.2f} µs of CPU a row, "
                f"{time.perf_counter() - wall:.1f} s, workers' peak {worker_peak_mib(jvm):.0f} MiB"
            )
    spark.stop()


if __name__ == "__main__":
    main()
