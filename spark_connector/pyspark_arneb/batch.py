"""The batch reader: planned once on the driver, read by the executors.

The rule: :meth:`BatchReader.partitions` fixes every end in one transaction, and the executors read
exactly that, however far the broker has written or trimmed since. The objects here are pickled for
the executors, so they hold only plain values.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_arneb.guest import guest
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.filters import (
    RowFilter,
    SpanFilter,
    compile_filter,
    row_filter,
    within,
)
from pyspark_arneb.plan.partitions import Partition, divide
from pyspark_arneb.plan.planning import Plan, plan_read
from pyspark_arneb.plan.ranges import Loss, Span
from pyspark_arneb.processors import cores
from pyspark_arneb.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

LEDGERS_ASKED_MAX: Final = 100_000
"""A loss of more ledgers than this is reported without asking the filters about each."""


class LogPartition(InputPartition):
    """The spans that one task reads; there may be none."""

    def __init__(self, spans: Partition = ()) -> None:
        super().__init__(None)
        self.spans = spans
        self.losses: tuple[Loss, ...] = ()
        """Ranges that are no longer in the log, to be read from the sealed tier."""

    def __repr__(self) -> str:
        return f"LogPartition({', '.join(map(repr, self.spans))})"


class BatchReader(DataSourceReader):
    """Reads the log once, up to its end when the query was planned.

    ``plan`` is given if ``snapshot=load`` has fixed the end earlier.
    """

    def __init__(
        self, options: ReadOptions, columns: Sequence[Column], plan: Plan | None = None
    ) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._plan = plan
        self._filters: list[SpanFilter] = []
        self._row_filters: list[RowFilter] = []

    def __repr__(self) -> str:
        return f"<BatchReader of {self._options.location}>"

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        plan = self._plan or plan_read(options)
        losses = [loss for loss in plan.losses if self._concerns(loss)]
        if options.sealed is None:
            for loss in losses:
                options.lose(loss)
            losses = []
        spans = list(self._wanted(plan.spans))
        self._say(spans)
        parts = divide(
            spans,
            parallelism=cores(),
            partitions_min=options.partitions_min,
            records_max=options.records_per_partition_max,
        )
        # Without any partition, Spark would make one of its own.
        made = [LogPartition(part) for part in parts] or [LogPartition()]
        made[0].losses = tuple(losses)
        return made

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        assert isinstance(partition, LogPartition), "Spark hands out what partitions() returned"
        is_here = isinstance(self._options.location, Directory)
        with guest(self._options.nice if is_here else 0) as make_room:
            for batch in self._rows(partition):
                make_room()
                yield batch

    def _rows(self, partition: LogPartition) -> Iterator["pa.RecordBatch"]:
        from pyspark_arneb.decode.reading import read_batches

        source = self._options.location.open()
        instead = None if self._options.sealed is None else self._sealed
        for loss in partition.losses:
            yield from self._sealed(loss)
        for span in partition.spans:
            for batch in read_batches(source, span, self._columns, self._options, instead):
                for each in self._row_filters:
                    batch = each.kept(batch)
                if batch.num_rows:
                    yield batch

    def _sealed(self, loss: Loss) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of a loss from the sealed tier."""
        from pyspark_arneb.lake.view import sealed_rows

        options, topic = self._options, loss.topic
        assert options.sealed is not None, "asked only if there is one"
        yield from sealed_rows(
            options.sealed,
            loss,
            self._columns,
            options.lose,
            times=(options.starting_times.of(topic), options.ending_times.of(topic)),
            wants=lambda ledger: self._wants(topic, ledger),
        )

    def _wanted(self, spans: Sequence[Span]) -> Iterator[Span]:
        for span in spans:
            part = within(span, self._row_filters)
            if part is not None and self._wants(span.topic, span.ledger):
                yield part

    def _say(self, spans: Sequence[Span]) -> None:
        """Log one line about what is read."""
        zone = f"; times without a zone are taken as {self._options.zone} (option timeZone)"
        log.log(
            logging.WARNING if self._options.assumes_zone else logging.INFO,
            "reading about %d messages of %d topics from %s%s",
            sum(span.messages for span in spans),
            len({span.topic for span in spans}),
            self._options.location,
            zone if self._options.assumes_zone else "",
        )

    def _wants(self, topic: str, ledger: int) -> bool:
        return all(wanted(topic, ledger) for wanted in self._filters)

    def _concerns(self, loss: Loss) -> bool:
        ledgers = range(loss.first >> 32, (loss.last >> 32) + 1)
        if not self._filters or len(ledgers) > LEDGERS_ASKED_MAX:
            return True
        return any(self._wants(loss.topic, ledger) for ledger in ledgers)


class PushdownReader(BatchReader):
    """Takes over filters on topic, partition and ledger; also uses those on entry id, key and
    publish time, which Spark applies again.

    A separate class, because Spark refuses a reader that has ``pushFilters`` while
    ``spark.sql.python.filterPushdown.enabled`` is off, its default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        for pushed in filters:
            compiled = compile_filter(pushed, self._columns)
            if compiled is not None:
                self._filters.append(compiled)
                continue
            used = row_filter(pushed, self._columns)
            if used is not None:
                self._row_filters.append(used)
            yield pushed
