"""A streaming query with speculation, to be submitted: ``spark-submit speculation.py URL PLACE``.

Spark runs a speculative attempt on another host only. The first attempt of one partition dawdles
when it has handed on its first row, so Spark runs it a second time, and which of both wins is
Spark's own matter. Prints which attempts there were, in one line of JSON.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from pyspark_arneb import DefaultSource

PARTITIONS = 4
DAWDLES_S = 60.0
SLOW = 2
"""The partition whose first attempt does."""


def main(url: str, place: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(DefaultSource)
    attempts = place / "attempts"
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

    rows = (
        spark.readStream.format("arneb")
        .options(**{"service.url": url, "topic": "orders", "startingOffsets": "earliest"})
        .option("minPartitions", PARTITIONS)
        .load()
    )
    query = (
        rows.select("value", "key")
        .mapInArrow(watched, "value binary, key binary")
        .writeStream.format("arneb")
        .options(**{"service.url": url, "queue": "out"})
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("JOB " + json.dumps({"attempts": sorted(each.name for each in attempts.iterdir())}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
