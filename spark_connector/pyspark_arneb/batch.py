"""The batch reader: planned once on the driver, read by the executors.

The rule: :meth:`BatchReader.partitions` fixes every end in one transaction, and the executors
read exactly that, however far the broker has written or trimmed in the meantime. The objects
here travel pickled from driver to executors, so they hold plain values only.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.filters import SpanFilter, compile_filter
from pyspark_arneb.plan.partitions import Partition, divide
from pyspark_arneb.plan.planning import Plan, plan_read
from pyspark_arneb.plan.ranges import Loss
from pyspark_arneb.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa


class LogPartition(InputPartition):
    """The spans that one task reads; it may be none."""

    def __init__(self, spans: Partition = ()) -> None:
        super().__init__(None)
        self.spans = spans
        self.losses: tuple[Loss, ...] = ()
        """What is not in the log any more, to be read from the sealed tier."""

    def __repr__(self) -> str:
        return f"LogPartition({', '.join(map(repr, self.spans))})"


class BatchReader(DataSourceReader):
    """Reads the log once, up to where it ended when the query was planned.

    ``plan`` is given when the end was fixed earlier, by ``snapshot=load``.
    """

    def __init__(
        self, options: ReadOptions, columns: Sequence[Column], plan: Plan | None = None
    ) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._plan = plan
        self._filters: list[SpanFilter] = []

    def partitions(self) -> Sequence[InputPartition]:
        from pyspark_arneb.decode.reading import judge_loss

        options = self._options
        plan = self._plan or plan_read(options)
        losses = [loss for loss in plan.losses if self._concerns(loss)]
        if options.sealed is None:
            for loss in losses:
                judge_loss(loss, options)
            losses = []
        spans = [span for span in plan.spans if self._wants(span.topic, span.ledger)]
        parts = divide(
            spans,
            parallelism=cores(),
            partitions_min=options.partitions_min,
            records_max=options.records_per_partition_max,
        )
        # Given no partition at all, Spark would make one of its own.
        made = [LogPartition(part) for part in parts] or [LogPartition()]
        made[0].losses = tuple(losses)
        return made

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from pyspark_arneb.decode.reading import read_batches

        assert isinstance(partition, LogPartition), "Spark hands out what partitions() returned"
        source = self._options.location.open()
        instead = None if self._options.sealed is None else self._sealed
        for loss in partition.losses:
            yield from self._sealed(loss)
        for span in partition.spans:
            yield from read_batches(source, span, self._columns, self._options, instead)

    def _sealed(self, loss: Loss) -> Iterator["pa.RecordBatch"]:
        """The rows of what is not in the log any more, from the sealed tier."""
        from pyspark_arneb.decode.reading import judge_loss
        from pyspark_arneb.lake.view import sealed_rows

        assert self._options.sealed is not None, "asked only if there is one"
        rows = sealed_rows(self._options.sealed, loss, self._columns)
        if rows is None:
            judge_loss(loss, self._options)
        else:
            yield from rows

    def _wants(self, topic: str, ledger: int) -> bool:
        return all(wanted(topic, ledger) for wanted in self._filters)

    def _concerns(self, loss: Loss) -> bool:
        ledgers = range(loss.first >> 32, (loss.last >> 32) + 1)
        return not self._filters or any(self._wants(loss.topic, ledger) for ledger in ledgers)


def cores() -> int:
    """The log is on this machine's disk, so this machine's cores will read it."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class PushdownReader(BatchReader):
    """Takes filters on topic, partition and ledger.

    A class of its own, because Spark refuses a reader that has ``pushFilters`` while
    ``spark.sql.python.filterPushdown.enabled`` is off, which is its default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        for pushed in filters:
            compiled = compile_filter(pushed, self._columns)
            if compiled is None:
                yield pushed
            else:
                self._filters.append(compiled)
