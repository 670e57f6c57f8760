"""Compaction: the last message of each key, written to a new topic or to a table.

The rule: the read ends where the log ended when the job began, and the log's order decides which
message is the last. A message without a body (null or empty) is a tombstone, as in Pulsar: it
removes its key. Messages without a key are left out unless requested.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions

from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.session import JobFailed

ORDER: Final = ("ledger_id", "entry_id", "batch_index")
"""The columns that order the messages of a topic."""

WRITTEN: Final = ("value", "key", "event_time", "ordering_key", "properties")
"""The columns that are copied to the new topic."""

FORMATS: Final = ("parquet", "orc", "json", "delta")


@dataclass(frozen=True, slots=True)
class Compacted:
    """How much a compaction read and wrote."""

    read: int
    kept: int


def latest(messages: DataFrame, *, keeps_unkeyed: bool = False) -> DataFrame:
    """Return the last message of each key of each topic, unless it is a tombstone."""
    columns = messages.columns
    order = functions.struct(*ORDER)
    last = (
        messages.where("key IS NOT NULL")
        .groupBy("topic", "key")
        .agg(functions.max_by(functions.struct(*columns), order).alias("last"))
        .select("last.*")
        .where("length(value) > 0")
    )
    return last.unionByName(messages.where("key IS NULL")) if keeps_unkeyed else last


def compact(
    spark: SparkSession,
    location: Location,
    topic: str,
    *,
    into_topic: str | None = None,
    into_table: str | None = None,
    table_format: str = "parquet",
    keeps_unkeyed: bool = False,
) -> Compacted:
    """Compact ``topic`` into one of the two targets, which must be new: a topic of the broker of
    ``location`` (which accepts rows over HTTP only), or a directory with a table."""
    if (into_topic is None) == (into_table is None):
        raise JobFailed("expected exactly one of --into-topic and --into-table")
    if into_topic is not None and location.url is None:
        raise JobFailed("--into-topic: needs --url, because rows are written through a broker")
    if into_table is not None and not location.is_elsewhere and _is_there(into_table):
        raise JobFailed(f"--into-table: {into_table} already exists")
    if table_format not in FORMATS:
        raise JobFailed(f"--format: expected one of {', '.join(FORMATS)}, got {table_format}")
    # One plan for both counts: messages written meanwhile belong to the next compaction.
    messages = location.read(spark, topic=topic, snapshot="load", includeProperties="true").drop(
        "message_id"
    )
    read = messages.count()
    kept = latest(messages, keeps_unkeyed=keeps_unkeyed).orderBy("topic", *ORDER).persist()
    try:
        if into_table is not None:
            kept.write.format(table_format).save(into_table)
        else:
            assert into_topic is not None, "checked above"
            writer = kept.select(*WRITTEN).coalesce(1).write.format("arneb").mode("append")
            writer.options(**location.service_options, topic=into_topic).save()
        return Compacted(read, kept.count())
    finally:
        kept.unpersist()


def _is_there(table: str) -> bool:
    return "://" not in table and Path(table).exists()
