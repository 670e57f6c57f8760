"""The audit: checks histories against a broker's promises, on as many machines as needed.

The rule: pure functions in :mod:`.checks` decide what is an anomaly; this module sorts and divides
their input so that each sees one message, or one consumer, at a time.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions

from pyspark_arneb.log.topics import full_name
from pyspark_arneb.pipeline.checks.anomalies import Anomaly, Kind
from pyspark_arneb.pipeline.checks.broker_history import (
    ENTRY_BITS,
    MOVES,
    Moves,
    Step,
    UnreadableHistory,
    check_batches,
    check_consumer,
    check_passed,
    check_place,
    read_batch,
)
from pyspark_arneb.pipeline.checks.client_history import (
    Event,
    UnreadableLine,
    check_message,
    check_receiver,
    read_line,
)
from pyspark_arneb.pipeline.location import Location

Batches = Iterator[pa.RecordBatch]

HISTORIES: Final = ".*-HISTORY"
"""The topics of histories."""

ROWS_A_BATCH: Final = 4_096

SHOWN_MAX: Final = 1_000
"""Anomalies that are returned in words; the others are only counted."""

ANOMALY: Final = "kind string, where string, what string, detail string"
STEP: Final = (
    "where string, run long, number long, event string, place long, consumer string, at_ms long, "
    "age_ms long, redelivered boolean, reason string, dead_lettered boolean, is_part boolean, "
    "messages long"
)
EVENT: Final = (
    "event string, client string, step long, message string, queue string, at_ms long, "
    "sender string, number long, redelivered boolean, durable boolean"
)
JUDGED: Final = f"place long, is_done boolean, {ANOMALY}"

HEAD: Final = "batch"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True, slots=True)
class Audited:
    """The result of an audit."""

    counts: Mapping[str, int]
    """Anomalies by kind."""
    anomalies: tuple[Anomaly, ...]
    """The first of them."""
    looked_at: Mapping[str, int] = field(default_factory=dict)
    """Steps or events by kind, so that an empty history is not mistaken for a clean one."""

    @property
    def is_clean(self) -> bool:
        """Nothing was found."""
        return not self.counts

    def without(self, kinds: Sequence[str]) -> "Audited":
        """Return the result without anomalies of these kinds."""
        counts = {kind: count for kind, count in self.counts.items() if kind not in kinds}
        kept = tuple(each for each in self.anomalies if each.kind not in kinds)
        return Audited(counts, kept, self.looked_at)


def broker_steps(spark: SparkSession, location: Location, topic: str | None = None) -> DataFrame:
    """Return the steps of histories, one a row: of the history's ``topic``, or of all of them.
    Unreadable lines and the heads of batches are rows as well."""
    # A pattern matches nothing where there is no history, which is then reported as such.
    chosen = re.escape(full_name(topic)) if topic else HISTORIES
    log = location.read(spark, columns="topic,ledger_id,entry_id,value", topicsPattern=chosen)
    return log.mapInArrow(_read_batches, STEP)


def audit_broker(spark: SparkSession, location: Location, topic: str | None = None) -> Audited:
    """Check the broker's own histories against its promises."""
    steps = broker_steps(spark, location, topic).persist(StorageLevel.DISK_ONLY)
    try:
        return _audit_steps(spark, steps)
    finally:
        steps.unpersist()


def audit_clients(
    spark: SparkSession, files: str | list[str], *, drained: bool, exactly_once: bool
) -> Audited:
    """Check histories that clients wrote, as files of JSON lines, against one another."""
    lines = spark.read.text(files).where(functions.trim("value") != "")
    events = lines.select("value").mapInArrow(_read_lines, EVENT).persist(StorageLevel.DISK_ONLY)
    try:
        unreadable = events.where(functions.col("event") == UNREADABLE).select(
            functions.lit(Kind.UNREADABLE.value).alias("kind"),
            functions.lit("").alias("where"),
            functions.lit("a line").alias("what"),
            functions.col("message").alias("detail"),
        )
        readable = events.where(functions.col("event") != UNREADABLE)
        judge = partial(check_message, drained=drained, exactly_once=exactly_once)
        by_message = _judged(
            readable, Event, ("message",), ("queue", "at_ms", "client", "step"), judge
        )
        received = readable.where(functions.col("event") == "received")
        by_receiver = _judged(
            received, Event, ("queue", "client", "sender"), ("step",), check_receiver
        )
        return _result(unreadable.union(by_message).union(by_receiver), events)
    finally:
        events.unpersist()


def _audit_steps(spark: SparkSession, steps: DataFrame) -> Audited:
    heads = steps.where(functions.col("event") == HEAD).collect()
    moved = steps.where(functions.col("event").isin(sorted(MOVES))).collect()
    found: list[Anomaly] = []
    bounds: dict[str, tuple[int, int]] = {}
    by_history = attrgetter("where")
    for where, own in groupby(sorted(heads, key=attrgetter("where", "run", "number")), by_history):
        mine = list(own)
        gaps = list(check_batches(where, [(each.run, each.number, each.messages) for each in mine]))
        found += gaps
        if not gaps:
            bounds[where] = mine[0].age_ms, mine[-1].place
    moves = {
        where: Moves.of([_row(Step, each.asDict()) for each in own])
        for where, own in groupby(sorted(moved, key=by_history), by_history)
    }
    of_entries = steps.where(~functions.col("event").isin(HEAD, UNREADABLE, *sorted(MOVES)))
    judged = (
        of_entries.where(functions.col("where").isin(sorted(bounds)))
        .repartition("where", "place")
        .sortWithinPartitions("where", "place", "run", "number")
        .mapInArrow(partial(_judge_places, moves), JUDGED)
        .persist(StorageLevel.DISK_ONLY)
    )
    try:
        wrong = judged.where(functions.col("kind") != "").select("kind", "where", "what", "detail")
        passed = (
            judged.where(functions.col("kind") == "")
            .repartition("where", functions.shiftright("place", ENTRY_BITS))
            .sortWithinPartitions("where", "place")
            .mapInArrow(partial(_judge_passed, moves, bounds), ANOMALY)
        )
        found += _without_entries(judged, moves, bounds)
        deliveries = steps.where(functions.col("event") == "delivered")
        order = _judged(deliveries, Step, ("where", "run", "consumer"), ("number",), check_consumer)
        unreadable = steps.where(functions.col("event") == UNREADABLE).select(
            functions.lit(Kind.UNREADABLE.value).alias("kind"),
            "where",
            functions.col("consumer").alias("what"),
            functions.col("reason").alias("detail"),
        )
        own_words = spark.createDataFrame([_values(each) for each in found], ANOMALY)
        return _result(own_words.union(unreadable).union(wrong).union(passed).union(order), steps)
    finally:
        judged.unpersist()


def _without_entries(
    judged: DataFrame, moves: Mapping[str, Moves], bounds: Mapping[str, tuple[int, int]]
) -> Iterator[Anomaly]:
    """Yield the anomalies of histories without an entry in their cursor's ledger."""
    ledger = functions.shiftright("place", ENTRY_BITS).alias("ledger")
    checked = {tuple(row) for row in judged.select("where", ledger).distinct().collect()}
    for where, (began, mark_delete) in bounds.items():
        number = mark_delete >> ENTRY_BITS
        if (where, number) not in checked:
            mine = moves.get(where, Moves.of(()))
            yield from check_passed(where, number, began, mark_delete, (), mine)


def _result(anomalies: DataFrame, looked_at: DataFrame) -> Audited:
    kept = anomalies.persist(StorageLevel.DISK_ONLY)
    try:
        counts = {row["kind"]: row["count"] for row in kept.groupBy("kind").count().collect()}
        first = kept.orderBy("kind", "where", "what", "detail").limit(SHOWN_MAX).collect()
        seen = {row["event"]: row["count"] for row in looked_at.groupBy("event").count().collect()}
    finally:
        kept.unpersist()
    return Audited(counts, tuple(Anomaly(*row) for row in first), seen)


# What the executors do


def _read_batches(batches: Batches) -> Batches:
    def rows() -> Iterator[dict[str, Any]]:
        for batch in batches:
            for row in batch.to_pylist():
                place = f"{row['ledger_id']}:{row['entry_id']}"
                try:
                    read = read_batch(row["value"] or b"")
                except UnreadableHistory as error:
                    yield _of_head(row["topic"], UNREADABLE, consumer=place, reason=str(error))
                    continue
                head = read.head
                yield _of_head(
                    head.where,
                    HEAD,
                    run=head.run,
                    number=head.batch,
                    place=head.mark_delete,
                    age_ms=head.began,
                    messages=read.missed,
                )
                for step in read.steps:
                    yield {"where": head.where, **_values_by_name(step)}

    yield from _in_batches(rows(), STEP)


def _of_head(where: str, event: str, **values: object) -> dict[str, Any]:
    step = Step(run=0, number=0, event=event, place=0)
    return {**_values_by_name(step), "where": where, **values}


def _read_lines(batches: Batches) -> Batches:
    def rows() -> Iterator[dict[str, Any]]:
        for batch in batches:
            for line in batch.column(0).to_pylist():
                try:
                    yield _values_by_name(read_line(line))
                except UnreadableLine as error:
                    yield _values_by_name(Event(UNREADABLE, "", 0, str(error)))

    yield from _in_batches(rows(), EVENT)


def _judge_places(moves: Mapping[str, Moves], batches: Batches) -> Batches:
    none = Moves.of(())

    def rows() -> Iterator[dict[str, Any]]:
        for (where, place), own in groupby(_rows(batches), itemgetter("where", "place")):
            steps = [_row(Step, row) for row in own]
            is_done, found = check_place(where, steps, moves.get(where, none))
            known = {"place": place, "is_done": is_done}
            yield {**known, "kind": "", "where": where, "what": "", "detail": ""}
            for each in found:
                yield {**known, **_values_by_name(each)}

    yield from _in_batches(rows(), JUDGED)


def _judge_passed(
    moves: Mapping[str, Moves], bounds: Mapping[str, tuple[int, int]], batches: Batches
) -> Batches:
    none = Moves.of(())

    def ledger(row: dict[str, Any]) -> tuple[str, int]:
        return row["where"], row["place"] >> ENTRY_BITS

    def rows() -> Iterator[dict[str, Any]]:
        for (where, number), own in groupby(_rows(batches), ledger):
            began, mark_delete = bounds[where]
            known = ((row["place"], row["is_done"]) for row in own)
            mine = moves.get(where, none)
            for each in check_passed(where, number, began, mark_delete, known, mine):
                yield _values_by_name(each)

    yield from _in_batches(rows(), ANOMALY)


def _judged(
    events: DataFrame,
    kind: type[Any],
    keys: tuple[str, ...],
    order: tuple[str, ...],
    judge: Callable[..., Iterator[Anomaly]],
) -> DataFrame:
    """The anomalies that ``judge`` finds in each group of events with the same ``keys``."""
    sorted_ = events.repartition(*keys).sortWithinPartitions(*keys, *order)
    return sorted_.mapInArrow(partial(_judge_groups, kind, keys, judge), ANOMALY)


def _judge_groups(
    kind: type[Any],
    keys: tuple[str, ...],
    judge: Callable[..., Iterator[Anomaly]],
    batches: Batches,
) -> Batches:
    def rows() -> Iterator[dict[str, Any]]:
        for key, own in groupby(_rows(batches), lambda row: tuple(row[each] for each in keys)):
            events: Any = (_row(kind, row) for row in own)
            if kind is Step:
                found = judge(key[0], events)
            else:
                # One message has few events; one receiver may have very many.
                found = judge(list(events) if keys == ("message",) else events)
            yield from map(_values_by_name, found)

    yield from _in_batches(rows(), ANOMALY)


def _rows(batches: Batches) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _in_batches(rows: Iterator[dict[str, Any]], schema: str) -> Batches:
    arrow = pa.schema([_field(*each.split()) for each in schema.split(", ")])
    waiting: list[dict[str, Any]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= ROWS_A_BATCH:
            yield pa.RecordBatch.from_pylist(waiting, schema=arrow)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=arrow)


_TYPES: Final = {"string": pa.string(), "long": pa.int64(), "boolean": pa.bool_()}


def _field(name: str, kind: str) -> pa.Field:
    return pa.field(name, _TYPES[kind])


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _values_by_name(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _names(type(value))}


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(_values_by_name(value).values())


def _row(kind: type[Any], row: Mapping[str, Any]) -> Any:
    return kind(**{name: row[name] for name in _names(kind)})
