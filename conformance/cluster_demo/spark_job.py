"""The demo's Spark job: reads the queue in a follower's directory."""

import json
import sys

from conformance.cluster_demo.publisher import QUEUE


def main(data_dir: str, found: str, topic: str = QUEUE) -> None:
    """Write all bodies to the file ``found``, one per line, and print how many there are and how
    many of them are distinct."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("arneb-cluster-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    log = spark.read.format("arneb").option("path", data_dir).option("topic", topic).load()
    bodies = log.select(f.col("value").cast("string").alias("body"))
    row = bodies.agg(f.count("*").alias("n"), f.countDistinct("body").alias("differ")).first()
    assert row is not None
    with open(found, "w", encoding="utf-8") as lines:
        lines.writelines(f"{each.body}\n" for each in bodies.toLocalIterator())
    print(json.dumps([row["n"], row["differ"]]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
