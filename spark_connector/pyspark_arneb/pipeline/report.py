"""The report: what is in the log, topic by topic, and how long messages took where a history
exists.

The rule: it reads the log once and keeps what a report needs of each message, but no bodies; the
figures are plain values, for a terminal, a page or another table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession, Window, functions

from pyspark_arneb.pipeline.audit import HISTORIES, UNREADABLE, broker_steps
from pyspark_arneb.pipeline.location import Location

COLUMNS: Final = "topic,key,value,publish_time,dead_letter_reason"
POINTS_MAX: Final = 120
"""The most points of a plot over time."""
KEYS_MAX: Final = 10
"""The number of hot keys listed for a topic."""
PERCENTILES: Final = (0.5, 0.95, 0.99)
ACCURACY: Final = 10_000


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of values."""

    p50: int = 0
    p95: int = 0
    p99: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """A stretch of time on a plot."""

    at: datetime
    messages: int


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic or queue."""

    topic: str
    messages: int
    bytes: int
    first: datetime
    last: datetime
    size_bytes: Spread
    tombstones: int
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """By reason: messages in this topic that are dead letters of others."""
    hot_keys: Sequence[tuple[str, int]] = ()
    over_time: Sequence[Point] = ()
    point_s: int = 1
    """The seconds that a point of :attr:`over_time` covers."""

    @property
    def per_s(self) -> float:
        """Messages a second, averaged from the first point to the last, so the peak is never below
        it."""
        if not self.over_time:
            return 0.0
        between = self.over_time[-1].at - self.over_time[0].at
        return self.messages / (between.total_seconds() + self.point_s)

    @property
    def peak_per_s(self) -> float:
        """Messages a second at the highest point."""
        return max((each.messages for each in self.over_time), default=0) / self.point_s


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """One queue or subscription with a history."""

    where: str
    delivered: int
    redelivered: int
    acknowledged: int
    returned: int
    departed: Mapping[str, int]
    """By reason."""
    to_delivery_ms: Spread
    """From publish to the first delivery."""
    to_ack_ms: Spread
    """From publish to acknowledgement."""
    most_delivered: int
    """The number of deliveries of the entry delivered most often."""


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report."""

    topics: Sequence[TopicReport]
    histories: Sequence[HistoryReport]


def report(
    spark: SparkSession,
    location: Location,
    topics: Sequence[str] = (),
    *,
    starting_time: str | None = None,
    ending_time: str | None = None,
) -> Report:
    """Report on ``topics``, or on all topics, between two times."""
    chosen = {"topics": ",".join(topics)} if topics else {"topicsPattern": f"(?!{HISTORIES}$).*"}
    times = {"startingTime": starting_time, "endingTime": ending_time}
    log = location.read(spark, columns=COLUMNS, **chosen, **times)
    kept = log.select(
        "topic",
        "key",
        "publish_time",
        "dead_letter_reason",
        functions.coalesce(functions.length("value"), functions.lit(0)).alias("size"),
        functions.col("value").isNull().alias("is_null"),
    ).persist(StorageLevel.DISK_ONLY)
    steps = broker_steps(spark, location).persist(StorageLevel.DISK_ONLY)
    try:
        return Report(_topics(kept), _histories(steps, topics))
    finally:
        kept.unpersist()
        steps.unpersist()


def _spread(column: str, name: str) -> list[Any]:
    values = functions.array(*map(functions.lit, PERCENTILES))
    return [
        functions.percentile_approx(column, values, ACCURACY).alias(name),
        functions.max(column).alias(f"{name}_max"),
    ]


def _spread_of(row: Row, name: str) -> Spread:
    found = row[name]
    if found is None:
        return Spread()
    p50, p95, p99 = map(int, found)
    return Spread(p50, p95, p99, int(row[f"{name}_max"]))


def _topics(kept: DataFrame) -> list[TopicReport]:
    totals = (
        kept.groupBy("topic")
        .agg(
            functions.count("*").alias("messages"),
            functions.sum("size").alias("bytes"),
            functions.min("publish_time").alias("first"),
            functions.max("publish_time").alias("last"),
            functions.sum(functions.col("is_null").cast("long")).alias("tombstones"),
            *_spread("size", "sizes"),
        )
        .orderBy("topic")
        .collect()
    )
    spans = [(row["last"] - row["first"]).total_seconds() for row in totals if row["first"]]
    point_s = max(1, int(max(spans, default=0)) // POINTS_MAX)
    points = _by_topic(
        kept.groupBy("topic", functions.window("publish_time", f"{point_s} seconds").alias("w"))
        .agg(functions.count("*").alias("messages"))
        .select("topic", functions.col("w.start").alias("at"), "messages")
        .orderBy("topic", "at")
    )
    dead = _by_topic(
        kept.where("dead_letter_reason IS NOT NULL")
        .groupBy("topic", "dead_letter_reason")
        .count()
        .orderBy("topic", "dead_letter_reason")
    )
    hottest = Window.partitionBy("topic").orderBy(functions.desc("count"), "key")
    keys = _by_topic(
        kept.where("key IS NOT NULL")
        .groupBy("topic", "key")
        .count()
        .withColumn("rank", functions.row_number().over(hottest))
        .where(functions.col("rank") <= KEYS_MAX)
        .orderBy("topic", "rank")
    )
    return [
        TopicReport(
            row["topic"],
            row["messages"],
            row["bytes"],
            row["first"],
            row["last"],
            _spread_of(row, "sizes"),
            row["tombstones"],
            {each["dead_letter_reason"]: each["count"] for each in dead.get(row["topic"], ())},
            [
                (bytes(each["key"]).decode("utf-8", "replace"), each["count"])
                for each in keys.get(row["topic"], ())
            ],
            dense({each["at"]: each["messages"] for each in points.get(row["topic"], ())}, point_s),
            point_s,
        )
        for row in totals
    ]


def dense(counted: Mapping[datetime, int], point_s: int) -> list[Point]:
    """Return a point for each interval from the first to the last, including those without
    messages."""
    if not counted:
        return []
    first = min(counted)
    points = int((max(counted) - first).total_seconds()) // point_s + 1
    times = [first + timedelta(seconds=point_s * number) for number in range(points)]
    return [Point(at, counted.get(at, 0)) for at in times]


def _by_topic(found: DataFrame) -> dict[str, list[Row]]:
    rows = found.collect()
    return {topic: list(own) for topic, own in groupby(rows, lambda row: str(row["topic"]))}


def _histories(steps: DataFrame, topics: Sequence[str]) -> list[HistoryReport]:
    event = functions.col("event")
    of_entries = steps.where(event.isin("delivered", "acknowledged", "returned", "departed"))
    if topics:
        of_topics = [f"/{topic}/" for topic in topics]
        wanted = [functions.col("where").contains(each) for each in of_topics]
        any_of_them = wanted[0]
        for each in wanted[1:]:
            any_of_them = any_of_them | each
        of_entries = of_entries.where(any_of_them)

    def counted(condition: Any) -> Any:
        return functions.sum(condition.cast("long"))

    delivered, acked = event == "delivered", event == "acknowledged"
    published = functions.min(functions.when(delivered, functions.expr("at_ms - age_ms")))
    entries = of_entries.groupBy("where", "place").agg(
        counted(delivered).alias("delivered"),
        counted(delivered & functions.col("redelivered")).alias("redelivered"),
        functions.max(acked.cast("long")).alias("acknowledged"),
        counted(event == "returned").alias("returned"),
        (functions.min(functions.when(delivered, functions.col("at_ms"))) - published).alias(
            "gone"
        ),
        (functions.max(functions.when(acked, functions.col("at_ms"))) - published).alias("took"),
    )
    totals = entries.groupBy("where").agg(
        *(functions.sum(each).alias(each) for each in ("delivered", "redelivered", "returned")),
        functions.sum("acknowledged").alias("acknowledged"),
        functions.max("delivered").alias("most"),
        *_spread("gone", "to_delivery"),
        *_spread("took", "to_ack"),
    )
    reasons: dict[str, dict[str, int]] = {}
    for row in of_entries.where(event == "departed").groupBy("where", "reason").count().collect():
        reasons.setdefault(row["where"], {})[row["reason"]] = row["count"]
    return [
        HistoryReport(
            row["where"],
            row["delivered"],
            row["redelivered"],
            row["acknowledged"],
            row["returned"],
            reasons.get(row["where"], {}),
            _spread_of(row, "to_delivery"),
            _spread_of(row, "to_ack"),
            row["most"],
        )
        for row in totals.where(functions.col("where") != UNREADABLE).orderBy("where").collect()
    ]
