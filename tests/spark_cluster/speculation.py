"""A streaming query and a batch with speculation, to be submitted: ``spark-submit speculation.py
URL PLACE``.

Both copy the queue ``orders``, to ``out`` and ``out-batch``. Spark runs a speculative attempt on
another host only. The first attempt of one partition dawdles when it has handed on its first row,
so Spark runs it a second time, and which of both wins is Spark's own matter. Prints which attempts
there were, in one line of JSON.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from pyspark_arneb import DefaultSource

PARTITIONS = 4
DAWDLES_S = 60.0
SLOW = 2
"""The partition whose first attempt does."""


def dawdling(attempts: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What passes on all rows, and remembers the attempts in a directory."""
    attempts.mkdir()

    def watched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        name = f"{task.partitionId()}-{task.attemptNumber()}"
        (attempts / name).touch()
        for batch in batches:
            yield batch.slice(0, 1)
            if task.partitionId() == SLOW and task.attemptNumber() == 0:
                time.sleep(DAWDLES_S)
            yield batch.slice(1)

    return watched


def main(url: str, place: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(DefaultSource)
    source = {"service.url": url, "topic": "orders", "minPartitions": str(PARTITIONS)}

    def copied(rows: DataFrame, name: str) -> DataFrame:
        watch = dawdling(place / name)
        return rows.select("value", "key").mapInArrow(watch, "value binary, key binary")

    rows = spark.readStream.format("arneb").options(**source, startingOffsets="earliest").load()
    query = (
        copied(rows, "stream")
        .writeStream.format("arneb")
        .options(**{"service.url": url, "queue": "out"})
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    table = spark.read.format("arneb").options(**source).load()
    sink = {"service.url": url, "queue": "out-batch"}
    copied(table, "batch").write.format("arneb").mode("append").options(**sink).save()
    attempts = {
        name: sorted(each.name for each in (place / name).iterdir()) for name in ("stream", "batch")
    }
    print("JOB " + json.dumps(attempts))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
