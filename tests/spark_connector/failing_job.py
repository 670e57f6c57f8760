"""A job whose executors die: ``python failing_job.py URL DIRECTORY SEED``, on a Spark of its own.

It copies the queue ``in`` to the queues ``batch`` and ``stream``, with two executors that are
processes. Of some partitions the first attempt kills its executor, JVM and all, and of others it
raises an error: when it has handed on some of its rows, so that it was reading and writing. Prints
what a read saw and which attempts there were, in one line of JSON.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 6
Watch = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def failing(attempts: Path, dies: int, raises: int) -> Watch:
    """What passes on all rows, unless it is the first attempt of one of two partitions."""
    attempts.mkdir()

    def watched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        name = f"{task.partitionId()}-{task.attemptNumber()}"
        (attempts / name).touch()
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            if name == f"{dies}-0":
                os.kill(executor(), signal.SIGKILL)
                signal.pause()
            if name == f"{raises}-0":
                raise RuntimeError("this attempt fails")
            yield batch.slice(batch.num_rows // 2)

    return watched


def executor() -> int:
    """The JVM of this task: the worker is forked by a daemon, which is the JVM's."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("failing")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(url: str, place: Path, seed: int) -> None:
    dice = random.Random(seed)
    spark = session()
    report: dict[str, object] = {}

    def watch(name: str) -> Watch:
        dies, raises = dice.sample(range(PARTITIONS), 2)
        report[name] = {"dies": dies, "raises": raises}
        return failing(place / name, dies, raises)

    def watched(rows: DataFrame, name: str) -> DataFrame:
        return rows.select("value", "key").mapInArrow(watch(name), "value binary, key binary")

    source = {"service.url": url, "topic": "in", "minPartitions": str(PARTITIONS)}
    table = spark.read.format("arneb").options(**source).load()
    report["rows"] = [row.value.decode() for row in watched(table, "read").collect()]
    sink = {"service.url": url, "queue": "batch"}
    watched(table, "write").write.format("arneb").mode("append").options(**sink).save()
    rows = (
        spark.readStream.format("arneb")
        .options(**source, startingOffsets="earliest", maxOffsetsPerTrigger="5000")
        .load()
    )
    query = (
        watched(rows, "stream")
        .writeStream.format("arneb")
        .options(**{"service.url": url, "queue": "stream"})
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for name in ("read", "write", "stream"):
        report[f"{name} attempts"] = sorted(each.name for each in (place / name).iterdir())
    print("JOB " + json.dumps(report), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
