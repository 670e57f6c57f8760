"""A topic as one Spark table: sealed files by Spark's own reader, and the rest from the log.

The rule: a DataFrame shows the topic as of one instant, the call of :func:`table`, however often it
is queried and whatever is offloaded, merged or trimmed since.
"""

import json
import logging
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from arneb_core.api.entries.position import ENTRY_MASK, ledger_of, render
from pyspark_arneb.lake.erasure import ErasedKeys
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.lake.view import Cut, View, view_of
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ColumnStyle, ValueAs, read_options
from pyspark_arneb.plan.planning import selected_topics
from pyspark_arneb.schema import columns_of
from pyspark_arneb.target import LakeError, Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

logger = logging.getLogger(__name__)

SETTINGS: Final = "spark.arneb."
"""Prefix of the session's settings, the defaults of a call: ``spark.arneb.lake``,
``spark.arneb.path`` …"""

FROM_SESSION: Final = ("path", "service.url")

OWN: Final = ("startingOffsets", "endingOffsets", "snapshot", "sealed", "topic")
"""Options that the table sets itself."""

TAIL_ROW: Final = 3
"""How many rows of a sealed file cost Spark about as much as one row of the log, which comes
through a Python worker, and with all of its columns."""


def table(
    spark: "SparkSession", topic: str, *, lake: str | None = None, **options: object
) -> "DataFrame":
    """The whole of ``topic`` as of now: its sealed files and the live tail of its log.

    ``lake`` is the target that ``arneb offload`` writes to; ``options`` are those of the data
    source, first of all ``path`` or, as a keyword in braces, ``service.url``. What is not given
    here is taken from the session's settings ``spark.arneb.lake``, ``spark.arneb.path`` and
    ``spark.arneb.service.url``. Without anything sealed it is what the data source reads.

    Raises :class:`.OptionError`, :class:`.LakeError` and
    :class:`arneb_core.api.errors.StoreUnusable`.
    """
    given = _given(spark, topic, options)
    place = lake or spark.conf.get(SETTINGS + "lake", None)
    if not place:
        raise OptionError("lake", f"is required: the target of `arneb offload`, or {SETTINGS}lake")
    try:
        target = Target.of(place)
    except LakeError as problem:
        raise OptionError("lake", str(problem)) from None
    chosen = read_options(given)
    if chosen.style is not ColumnStyle.ARNEB:
        raise OptionError("columnStyle", "the sealed tier has Arneb's columns only")
    if chosen.value_as is not ValueAs.BINARY:
        raise OptionError("valueAs", "the sealed tier has bytes: cast or parse the column value")
    if chosen.has_time_bounds:
        raise OptionError("startingTime", "the table is whole: filter by publish_time")
    source = chosen.location.open()
    names = selected_topics(source, chosen.topics)
    view = view_of(names[0], source, names, target)
    if view.missing:
        lost = f"{view.missing:,} messages of {names[0]} were removed before they were sealed"
        if chosen.fail_on_data_loss:
            raise LakeError(f'{lost}; to have the others, set the option "failOnDataLoss" to false')
        logger.warning("%s", lost)
    shown = [column.name for column in columns_of(chosen)]
    if view.files and not (chosen.partitions_min or chosen.records_per_partition_max):
        context = getattr(spark, "sparkContext", None)  # Spark Connect has none
        if context is not None:
            given["minPartitions"] = str(tail_partitions(view, context.defaultParallelism))
    live = _live(spark, given, target, view, shown)
    if not view.files:
        return live
    sealed = sealed_part(spark, view, shown)
    # Spark starts the tasks of a union in its order, and the tail's take longest.
    return live.unionAll(sealed) if view.spans else sealed


def tail_partitions(view: View, at_once: int) -> int:
    """Return into how many tasks the tail is divided, when Spark runs ``at_once``: its share of all
    the work, so that the other tasks read files meanwhile."""
    tail = TAIL_ROW * sum(span.messages for span in view.spans)
    return max(1, round(at_once * tail / (tail + view.sealed_rows)))


def _given(spark: "SparkSession", topic: str, options: dict[str, object]) -> dict[str, str]:
    given = {name: _text(value) for name, value in options.items()}
    for name in given:
        if name in OWN:
            raise OptionError(name, "the table is whole, as of now: it takes no such option")
    if not any(name in given for name in FROM_SESSION):
        for name in FROM_SESSION:
            found = spark.conf.get(SETTINGS + name, None)
            if found:
                given[name] = found
    given["topic"] = topic
    return given


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def sealed_part(
    spark: "SparkSession", view: View, names: Sequence[str] | None = None
) -> "DataFrame":
    """Return the sealed files, up to where the view ends: the columns ``names``, or all of the
    table's."""
    from pyspark.sql import functions as f

    assert view.table is not None, "there are files"
    if not view.cuts:
        return rows_of(spark, view.table, view.files, names)
    kept = reduce(lambda one, other: one & other, (_before(cut) for cut in view.cuts))
    rows = rows_of(spark, view.table, view.files).where(f.coalesce(kept, f.lit(True)))
    return rows if names is None else rows.select(*names)


def rows_of(
    spark: "SparkSession",
    table: SealedTable,
    files: Sequence[str],
    names: Sequence[str] | None = None,
) -> "DataFrame":
    """Return the rows of some of a table's files, read by Spark itself: the columns ``names``, or
    all of the table's. The schema chooses the columns, because naming them in a query takes the
    driver longer."""
    from pyspark.sql.pandas.types import from_arrow_schema

    place, known = table.target.spark_uri, table.schema
    if names is not None:
        known = pa.schema([known.field(name) for name in names])
    schema = from_arrow_schema(known)
    return spark.read.schema(schema).parquet(*(f"{place}/{path}" for path in files))


def _before(cut: Cut) -> "Column":
    from pyspark.sql import functions as f

    ledger, entry = ledger_of(cut.end), cut.end & ENTRY_MASK
    return (
        (f.col("partition") != cut.partition)
        | (f.col("ledger_id") < ledger)
        | ((f.col("ledger_id") == ledger) & (f.col("entry_id") < entry))
    )


def _live(
    spark: "SparkSession",
    given: dict[str, str],
    target: Target,
    view: View,
    names: Sequence[str],
) -> "DataFrame":
    """Return what only the log has, with the sealed tier as a fallback for what may be trimmed
    meanwhile."""
    places = {
        "startingOffsets": {extent.topic: render(extent.floor) for extent in view.extents},
        "endingOffsets": {extent.topic: render(extent.end) for extent in view.extents},
    }
    reader = spark.read.format("arneb").options(**given)
    for name, offsets in places.items():
        reader = reader.option(name, json.dumps(offsets))
    if view.erased and "columns" in given:
        reader = reader.option("columns", f"{given['columns']},key,publish_time")
    rows = reader.option("sealed", target.uri).load()
    return rows.where(~is_erased(view.erased)).select(*names) if view.erased else rows


def is_erased(erased: ErasedKeys) -> "Column":
    """Return the condition that a row is erased."""
    from pyspark.sql import functions as f

    digest = f.unhex(f.sha2(f.col("key"), 256))
    until = f.create_map(*(f.lit(part) for pair in erased.until_ms.items() for part in pair))
    return f.coalesce(f.unix_millis("publish_time") <= until[digest], f.lit(False))
