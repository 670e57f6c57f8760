"""The demo's Spark job: turnover by country, straight from the broker's log."""

import json
import sys

from arneb.demo.orders import QUEUE


def main(data_dir: str) -> None:
    """Print ``{country: [orders, cents]}`` as one line of JSON."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("arneb-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    log = spark.read.format("arneb").option("path", data_dir).option("topic", QUEUE).load()
    order = f.from_json(f.col("value").cast("string"), "number long, country string, cents long")
    orders = log.select(order.alias("order")).select("order.*")
    rows = orders.groupBy("country").agg(f.count("*").alias("n"), f.sum("cents").alias("cents"))
    print(json.dumps({row["country"]: [row["n"], row["cents"]] for row in rows.collect()}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
