"""A client of Spark Connect: ``python connecting.py sc://HOST:PORT SERVICE_URL CHECKPOINT``.

It has neither Spark nor arneb: the source is where the server is. It counts the queue ``orders``,
copies it to ``connected`` by a batch write, and to ``streamed`` by a stream. Prints one line of
JSON.
"""

import importlib.util
import json
import sys

from pyspark.sql import SparkSession


def main(remote: str, url: str, checkpoint: str) -> None:
    assert importlib.util.find_spec("pyspark_arneb") is None, (
        "the client's Python must not have arneb"
    )
    spark = SparkSession.builder.remote(remote).getOrCreate()
    where = {"service.url": url}
    narrow = spark.read.format("arneb").options(**where, topic="orders", columns="entry_id")
    counted = narrow.load().count()
    rows = spark.read.format("arneb").options(**where, topic="orders").load()
    rows.select("key", "value").write.format("arneb").mode("append").options(
        **where, queue="connected"
    ).save()
    stream = spark.readStream.format("arneb").options(**where, topic="orders")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("arneb")
        .options(**where, queue="streamed")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("JOB " + json.dumps({"rows": counted, "client": sys.executable}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
