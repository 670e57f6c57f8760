"""The query of the soak: from one queue into another, exactly once. Run as a program of its own, so
that it can be killed with its JVM: ``python soak_query.py URL DIRECTORY [now]``.

It prints ``batch N`` when a micro-batch is done; with ``now`` it ends when it has caught up.
"""

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

ROWS_A_BATCH = 300


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("soak")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(url: str, directory: Path, *, now: bool) -> None:
    spark = session()
    rows = (
        spark.readStream.format("arneb")
        .option("service.url", url)
        .option("topic", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20 * ROWS_A_BATCH if now else ROWS_A_BATCH)
        # A batch that is run again has other partitions.
        .option("minPartitions", os.getpid() % 4 + 1)
        .load()
    )
    out = (
        rows.select("value", "key")
        .writeStream.format("arneb")
        .option("service.url", url)
        .option("queue", "out")
        .option("checkpointLocation", str(directory / "checkpoint"))
    )
    if now:
        out.trigger(availableNow=True).start().awaitTermination()
        return
    running = out.trigger(processingTime="0 seconds").start()
    said = -1
    while running.isActive:
        progress = running.lastProgress
        if progress is not None and progress.batchId > said:
            said = progress.batchId
            print("batch", said, flush=True)
        time.sleep(0.05)
    running.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), now="now" in sys.argv[3:])
