"""The sealed tier: the cost of an offload, and a table beside the same files and the log's tail.

    python -m bench.lake [--rows 2000000] [--rounds 5]

The rule: as for :mod:`bench.spark`. A table is measured in turn with Spark's own reader on its
sealed files and with the data source on its live tail, which is a twentieth of the rows.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.spark import COMMIT_ENTRIES, QUERIES, write_log
from bench.spark_session import Report, session
from tests.spark_connector.log_generator import full_topic

from pyspark_arneb import table
from pyspark_arneb.lake.offload import Offload
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.lake.trim_guard import NoGuard
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.log.topics import TopicSelection
from pyspark_arneb.target import Target

OFFLOAD_TARGETS: Final = {"amqp": 0.4, "batches": 0.2}
"""The lowest allowed rates of an offload, in millions of rows per CPU second."""

COUNT_SLACK_S: Final = 0.3
"""How many seconds longer ``count()`` of a table may take than the sum of its two parts."""
LENGTH_RATIO: Final = 1.5
"""How long finding a table's longest value may take, as a multiple of its files alone."""


def ledger_rows(rows: int) -> int:
    """The rows of a ledger: a twentieth of all, because the last ledger is the live tail."""
    return max(1, rows // 20 // COMMIT_ENTRIES) * COMMIT_ENTRIES


def offloading(directory: Path, kind: str, rounds: int) -> float:
    """Millions of rows per CPU second, the best of some rounds."""
    best = 0.0
    for _ in range(rounds):
        lake = directory / f"lake-{kind}"
        shutil.rmtree(lake, ignore_errors=True)
        work = Offload(
            Directory(str(directory)),
            Target.of(str(lake)),
            TopicSelection((full_topic(kind),)),
            NoGuard(),
        )
        began = time.process_time()
        done = work.round()
        best = max(best, done.rows / (time.process_time() - began) / 1e6)
    return best


def reading(report: Report, directory: Path, rows: int, rounds: int) -> None:
    """Measure a table beside its two parts."""
    spark = session()
    lake = directory / "lake-amqp"
    sealed = SealedTable.open(Target.of(str(lake)), full_topic("amqp"))
    assert sealed is not None, "it was just offloaded"
    through = (rows - 1) // ledger_rows(rows)
    files = [f"file://{path}" for path in sealed.file_uris()]
    offsets = json.dumps({"amqp": f"{through + 1}:0"})
    log = spark.read.format("arneb").option("path", str(directory)).option("topic", "amqp")
    sources: dict[str, Callable[[], Any]] = {
        "parquet": lambda: spark.read.parquet(*files),
        "tail": lambda: log.option("startingOffsets", offsets).load(),
        "table": lambda: table(spark, "amqp", lake=str(lake), path=str(directory)),
    }
    taken: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for query in ("count", "length"):
            for name, source in sources.items():
                began = time.perf_counter()
                QUERIES[query](source())
                spent = time.perf_counter() - began
                taken[query, name] = min(spent, taken.get((query, name), spent))
    spark.stop()
    for (query, name), best in taken.items():
        report.add("table", f"{query}: {name}", best, "s")
    halves = taken["count", "parquet"] + taken["count", "tail"]
    more = taken["count", "table"] - halves
    report.add("table", "count: more than its two halves", more, "s", most=COUNT_SLACK_S)
    ratio = taken["length", "table"] / taken["length", "parquet"]
    report.add("table", "length: as a multiple of its files", ratio, "", most=LENGTH_RATIO)


def main() -> None:
    """Measure, print, and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--offload-only", action="store_true", help="leave out the measurements with Spark"
    )
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    about = (
        f"The sealed tier: {arguments.rows:,} rows of each kind, a ledger of them the live tail."
    )
    report = Report("lake", about)
    with tempfile.TemporaryDirectory(prefix="arneb-bench-lake-") as folder:
        directory = Path(folder)
        write_log(
            directory,
            dict.fromkeys(OFFLOAD_TARGETS, arguments.rows),
            ledger_rows(arguments.rows),
        )
        for kind, target in OFFLOAD_TARGETS.items():
            rate = offloading(directory, kind, arguments.rounds)
            report.add("offload", f"{kind}: rows a CPU second", rate, "M", least=target)
        close_environments()
        if not arguments.offload_only:
            reading(report, directory, arguments.rows, arguments.rounds)
    if not arguments.no_write:
        print(f"written to {report.write()}")
    sys.exit(not report.is_good)


if __name__ == "__main__":
    main()
