"""The sealed tier: what an offload takes, and a table beside the same files and the log's tail.

    python -m bench.lake [--rows 2000000] [--rounds 5]

The rule: as for :mod:`bench.spark`; a table is measured in turn with Spark's own reader on its
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

from bench.spark import LEDGER_ROWS, QUERIES, session, write_log
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
"""The least that an offload may do, in millions of rows a CPU second."""

COUNT_SLACK_S: Final = 0.3
"""What ``count()`` of a table may take more than its two halves."""
LENGTH_RATIO: Final = 1.5
"""What the longest value of a table may take, as a multiple of its files alone."""


def offloading(directory: Path, kind: str, rounds: int) -> float:
    """Millions of rows a CPU second, the best of some rounds."""
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


def reading(directory: Path, rows: int, rounds: int) -> bool:
    """Whether a table is as fast as it should be."""
    spark = session()
    lake = directory / "lake-amqp"
    sealed = SealedTable.open(Target.of(str(lake)), full_topic("amqp"))
    assert sealed is not None, "it was just offloaded"
    through = (rows - 1) // LEDGER_ROWS
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
    for query in ("count", "length"):
        print(f"{query:8}", *(f"{name} {taken[query, name]:.2f} s " for name in sources))
    spark.stop()
    return (
        taken["count", "table"]
        <= taken["count", "parquet"] + taken["count", "tail"] + COUNT_SLACK_S
        and taken["length", "table"] <= taken["length", "parquet"] * LENGTH_RATIO
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20 * LEDGER_ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--offload-only", action="store_true", help="no Spark")
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="arneb-bench-lake-") as folder:
        directory = Path(folder)
        write_log(directory, dict.fromkeys(OFFLOAD_TARGETS, arguments.rows))
        print("offload, millions of rows a CPU second")
        for kind, target in OFFLOAD_TARGETS.items():
            rate = offloading(directory, kind, arguments.rounds)
            good = good and rate >= target
            print(f"{kind:8} {rate:.2f}  {target}")
        close_environments()
        if not arguments.offload_only:
            good = reading(directory, arguments.rows, arguments.rounds) and good
    sys.exit(not good)


if __name__ == "__main__":
    main()
