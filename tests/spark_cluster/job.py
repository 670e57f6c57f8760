"""The job that is submitted to a cluster: counts a topic's rows and says who counted them.

Prints one line of JSON. Usage: ``spark-submit job.py NAME=VALUE …``, options of the source.
"""

import json
import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

from pyspark_arneb import DefaultSource


def who(batches):  # type: ignore[no-untyped-def]
    """Rows by the process that has them, and where it found the connector."""
    import pyspark_arneb

    for batch in batches:
        yield pa.RecordBatch.from_pydict(
            {
                "pid": [os.getpid()],
                "found": [pyspark_arneb.__file__],
                "rows": [batch.num_rows],
            }
        )


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    # Spark looks for sources by itself only where its own Python is installed, not in --py-files.
    spark.dataSource.register(DefaultSource)
    options = dict(each.split("=", 1) for each in sys.argv[1:])
    rows = spark.read.format("arneb").options(**options, minPartitions="8").load()
    counted = rows.mapInArrow(who, "pid long, found string, rows long").collect()
    print(
        "JOB "
        + json.dumps(
            {
                "rows": sum(row["rows"] for row in counted),
                "workers": len({row["pid"] for row in counted}),
                "found": sorted({row["found"] for row in counted}),
                "master": str(spark.conf.get("spark.master", "connect")),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main()
