"""The query of the soak: from one queue into another, exactly once. Run as a program of its own, so
that it can be killed with its JVM: ``python soak_query.py URL DIRECTORY [now]``.

It prints ``batch N`` when a micro-batch is done; with ``now`` it ends when it has caught up. Where
there is a file :data:`DIES`, it dies behind the broker's next commit, before Spark hears of it.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_arneb import DefaultSource
from pyspark_arneb.sink.writers import StreamWriter

ROWS_A_BATCH = 300
DIES = "dies"


class MortalWriter(StreamWriter):
    """Kills the driver and its JVM when it is told to, once it has committed."""

    victims = 0
    place = Path()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if (self.place / DIES).exists():
            (self.place / DIES).unlink()
            os.killpg(self.victims, signal.SIGKILL)
            signal.pause()


class MortalSource(DefaultSource):
    """The source, with such a writer; options say whom and where."""

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        victims, place = int(self._given.pop("victims")), Path(self._given.pop("place"))
        made = super().streamWriter(schema, overwrite)
        assert isinstance(made, StreamWriter), "exactly once"
        writer = MortalWriter(made._options, made._encoder)
        writer.victims, writer.place = victims, place
        return writer


def in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition in the order of the log: Spark sorts no stream."""
    found = list(batches)
    if found:
        places = [(name, "ascending") for name in ("ledger_id", "entry_id")]
        rows = pa.Table.from_batches(found).sort_by(places)
        yield from rows.select(["value", "key"]).to_batches()


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
    spark.dataSource.register(MortalSource)
    out = (
        rows.select("value", "key", "ledger_id", "entry_id")
        # By key, and its rows in order: all else is another one in each life.
        .repartition(os.getpid() % 3 + 1, "key")
        .mapInArrow(in_order, "value binary, key binary")
        .writeStream.format("mortal")
        .option("victims", os.getpgid(0))
        .option("place", str(directory))
        .option("service.url", url)
        .option("queue", "out")
        .option("checkpointLocation", str(directory / "checkpoint"))
    )
    if now:
        out.trigger(availableNow=True).start().awaitTermination()
        return
    running = out.trigger(processingTime="0 seconds").start()
    batch_id = -1
    while running.isActive:
        progress = running.lastProgress
        if progress is not None and progress.batchId > batch_id:
            batch_id = progress.batchId
            print("batch", batch_id, flush=True)
        time.sleep(0.05)
    running.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), now="now" in sys.argv[3:])
