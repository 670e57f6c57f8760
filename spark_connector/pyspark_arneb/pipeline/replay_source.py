"""The source of a replay's messages: the log, its sealed tier, or both in sequence.

The rule: the entries are fixed once, as a view of one instant, and each is read from one side.
Sealed entries are read from the tier, however long the log keeps them; entries that were in the log
when the replay began and are sealed and trimmed before their turn come from the tier as well.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from arneb_core.api.entries.position import Position, entry_of, ledger_of, position_at
from arneb_core.store.reading.extents import Extent
from pyspark_arneb.lake.erasure import ErasedKeys
from pyspark_arneb.lake.spark_table import is_erased, rows_of, sealed_part
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.lake.view import View, missing, view_of
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.log.topics import (
    TopicSelection,
    partition_index,
    short_name,
    without_partition,
)
from pyspark_arneb.offsets import EARLIEST, LATEST, NO_TIMES, Offsets, Times
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.replay_plan import Piece, Stretch
from pyspark_arneb.pipeline.session import JobFailed, in_one_line
from pyspark_arneb.plan.at_time import position_at_time
from pyspark_arneb.plan.planning import selected_topics
from pyspark_arneb.plan.ranges import select
from pyspark_arneb.target import LakeError, Target, tables_in


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages are replayed."""

    topics: Sequence[str]
    starting_time: str | None = None
    ending_time: str | None = None
    """In the log by the broker's clock; in the sealed tier by the column ``publish_time``."""
    where: str | None = None
    """A condition in SQL on the columns of the source; ``body`` is the value as text."""
    sealed: str | None = None
    """The sealed tier, with entries that the log no longer has, or as the only source."""

    def __post_init__(self) -> None:
        if not self.topics:
            raise JobFailed("TOPIC: expected at least one")


class ReplaySource:
    """Lists what there is to replay, and reads it. ``location`` None: only the sealed tier.

    Raises :class:`.JobFailed`, :class:`.OptionError`, :class:`.LakeError`, :class:`.DataLossError`
    and :class:`arneb_core.api.errors.StoreUnusable`, whose texts are for users.
    """

    def __init__(self, spark: SparkSession, location: Location | None, choice: Choice) -> None:
        if location is None and choice.sealed is None:
            raise JobFailed("expected --path, --url or --sealed")
        self._spark = spark
        self._location = location
        self._choice = choice
        self._lake = None if choice.sealed is None else Target.of(choice.sealed)
        self._tables: dict[str, SealedTable] = {}
        self._options = self._read_options()

    def __repr__(self) -> str:
        return f"<ReplaySource {self._location}, {self._lake or 'nothing sealed'}>"

    def stretches(self) -> list[Stretch]:
        """Return what there is now, in the order of topics and logs."""
        source = None if self._location is None else self._options.location.open()
        views = dict(self._views(source))
        found = [each for topic, view in views.items() for each in self._sealed(topic, view)]
        if source is not None:
            found += self._in_log(source, list(views.values()))
        return sorted(set(found), key=lambda each: (each.topic, each.ledger))

    def read(self, piece: Piece) -> DataFrame:
        """Return the chosen messages of a piece, in order, in one partition."""
        rows = self._read_sealed(piece) if piece.is_sealed else self._read_log(piece)
        if self._choice.where is None:
            return rows
        try:
            body = functions.col("value").cast("string")
            rows = rows.withColumn("body", body).where(self._choice.where)
            assert rows.schema, "Spark Connect looks at a condition when it is asked for this"
            return rows
        except PySparkException as error:
            raise JobFailed(f"--where: {in_one_line(error)}") from error

    def _read_options(self) -> ReadOptions:
        """Return the source's options with parsed times, also without a log."""
        choice = self._choice
        location = self._location or Location(path="/")
        found = location.read_options(
            topics=",".join(choice.topics),
            startingTime=choice.starting_time,
            endingTime=choice.ending_time,
        )
        for edge, times in ("starting", found.starting_times), ("ending", found.ending_times):
            if times != Times(times.default):
                raise OptionError(f"{edge}OffsetsByTimestamp", "expected one time for all topics")
        return found

    def _views(self, source: BlockSource | None) -> Iterator[tuple[str, View]]:
        present = [] if source is None else source.topics()
        for topic in self._options.topics.names:
            chosen = TopicSelection(names=(topic,))
            names, unknown = chosen.choose(present)
            view = view_of(topic, source if names else None, names, self._lake)
            if unknown and view.table is None:
                self._refuse(topic, source)
            yield topic, view

    def _refuse(self, topic: str, source: BlockSource | None) -> None:
        """Refuse ``topic``, which does not exist, and name topics that do."""
        if source is not None:
            selected_topics(source, TopicSelection(names=(topic,)))
        assert self._lake is not None, "there is a log, or a tier"
        known = ", ".join(map(short_name, tables_in(self._lake))) or "none"
        raise LakeError(f"no topic {short_name(topic)} in {self._lake}; there are: {known}")

    # What is sealed

    def _sealed(self, topic: str, view: View) -> Iterator[Stretch]:
        if not view.files:
            return
        ledgers = (
            self._of_that_time(sealed_part(self._spark, view))
            .groupBy("topic", "ledger_id")
            .agg(
                functions.min("entry_id").alias("first"),
                functions.max("entry_id").alias("last"),
                functions.count("*").alias("messages"),
            )
            .collect()
        )
        for row in ledgers:
            if topic in (row["topic"], without_partition(row["topic"])):
                ledger = Stretch(
                    row["topic"], row["ledger_id"], row["first"], row["last"], row["messages"], True
                )
                yield from self._between_offsets(ledger)

    def _between_offsets(self, sealed: Stretch) -> Iterator[Stretch]:
        """Yield the parts between ``startingOffsets`` and ``endingOffsets``."""
        options = self._options
        if options.has_time_bounds:
            yield sealed
            return
        first = max(position_at(sealed.ledger, sealed.first), options.start.of(sealed.topic))
        last = min(position_at(sealed.ledger, sealed.last), options.end.of(sealed.topic) - 1)
        if first <= last:
            entries = last - first + 1
            yield replace(
                sealed,
                first=entry_of(first),
                last=sealed.last - (position_at(sealed.ledger, sealed.last) - last),
                messages=sealed.messages_in(entries),
            )

    def _of_that_time(self, rows: DataFrame) -> DataFrame:
        options, published = self._options, functions.col("publish_time")
        start_ms, end_ms = options.starting_times.default, options.ending_times.default
        if start_ms is not None:
            rows = rows.where(published >= functions.timestamp_millis(functions.lit(start_ms)))
        if end_ms is not None:
            rows = rows.where(published < functions.timestamp_millis(functions.lit(end_ms)))
        return rows

    def _table(self, topic: str) -> SealedTable | None:
        """Return the current table of a topic: files are merged and rewritten meanwhile."""
        if self._lake is None:
            return None
        name = without_partition(topic)
        known = self._tables.get(name)
        if known is None:
            known = SealedTable.open(self._lake, name)
        else:
            known.refresh()
        if known is not None:
            self._tables[name] = known
        return known

    def _read_sealed(self, piece: Piece) -> DataFrame:
        table, partition = self._table(piece.topic), partition_index(piece.topic)
        files = [
            file.path
            for file in (() if table is None else table.files())
            if file.partition == partition and file.first <= piece.ledger <= file.last
        ]
        if table is None or not files:
            raise JobFailed(f"{piece}: is no longer in {self._lake}")
        rows = rows_of(self._spark, table, files).where(
            (functions.col("partition") == partition)
            & (functions.col("ledger_id") == piece.ledger)
            & functions.col("entry_id").between(piece.first, piece.last)
        )
        # Spark reads files in parts, and combines these in any order.
        return self._of_that_time(rows).coalesce(1).sortWithinPartitions("entry_id", "batch_index")

    # What is in the log

    def _in_log(self, source: BlockSource, views: Sequence[View]) -> Iterator[Stretch]:
        options = self._options
        extents = [extent for view in views for extent in view.extents]
        if options.has_time_bounds:
            options = _by_time(source, extents, options)
        for view in views:
            self._look_for_loss(view, options)
        spans, losses = select(extents, options)
        sealed = {extent.topic for view in views if view.table for extent in view.extents}
        for loss in losses:
            if loss.topic not in sealed:
                options.lose(loss)
        for span in spans:
            first, last = entry_of(span.first), entry_of(span.last)
            yield Stretch(span.topic, ledger_of(span.first), first, last, span.messages)

    def _look_for_loss(self, view: View, options: ReadOptions) -> None:
        """Raise :class:`.JobFailed` if entries between the tier and the log were asked for and are
        gone."""
        for extent in view.extents if view.table is not None else ():
            start, end = options.start.of(extent.topic), options.end.of(extent.topic)
            assert view.table is not None, "looked at above"
            lost = missing(view.table, extent, extent.floor)
            if lost and start <= extent.first < end and options.fail_on_data_loss:
                raise JobFailed(
                    f"{lost:,} messages of {short_name(extent.topic)} were removed before they "
                    "were sealed; to have the others: --option failOnDataLoss=false"
                )

    def _read_log(self, piece: Piece) -> DataFrame:
        assert self._location is not None, "without a log all is sealed"
        start = {piece.topic: f"{piece.ledger}:{piece.first}"}
        end = {piece.topic: f"{piece.ledger}:{piece.last + 1}"}
        rows = self._location.read(
            self._spark,
            topics=piece.topic,
            sealed=self._choice.sealed,
            startingOffsets=json.dumps(start),
            endingOffsets=json.dumps(end),
            minPartitions="1",
            includeProperties="true",
        ).coalesce(1)
        table = self._table(piece.topic)
        erased = ErasedKeys() if table is None else ErasedKeys.of(table.target)
        return rows.where(~is_erased(erased)) if erased else rows


def _by_time(source: BlockSource, extents: Sequence[Extent], options: ReadOptions) -> ReadOptions:
    """Replace times in the options by positions: a log is in the order of the broker's times."""

    def positions(time_ms: int | None) -> dict[str, Position]:
        if time_ms is None:
            return {}
        return {each.topic: position_at_time(source, each, time_ms) for each in extents}

    return replace(
        options,
        start=Offsets(EARLIEST, positions(options.starting_times.default)),
        end=Offsets(LATEST, positions(options.ending_times.default)),
        starting_times=NO_TIMES,
        ending_times=NO_TIMES,
    )
