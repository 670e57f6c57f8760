"""The batch reader: planned once on the driver, read by the executors.

The rule: :meth:`BatchReader.partitions` fixes every end in one transaction, and the executors
read exactly that, however far the broker has written or trimmed in the meantime. The objects
here travel pickled from driver to executors, so they hold plain values only.
"""

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_arneb.log.topics import TopicSelection, short_name
from pyspark_arneb.options import OptionError, ReadOptions
from pyspark_arneb.plan.filters import SpanFilter, compile_filter
from pyspark_arneb.plan.partitions import Partition, divide
from pyspark_arneb.plan.ranges import Loss, Span, select
from pyspark_arneb.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

NAMES_SHOWN_MAX: Final = 10


class DataLossError(RuntimeError):
    """Retention removed entries that the read was to cover."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(
            f"retention removed {loss}, which this read was to cover; to read what is left, "
            'set the option "failOnDataLoss" to false, and to keep it, give the topic a '
            "retention or a subscription that has not yet acknowledged it"
        )
        self.loss = loss


@dataclass(frozen=True, slots=True)
class Plan:
    """What a read covers, as of one instant."""

    spans: tuple[Span, ...]
    losses: tuple[Loss, ...]


def plan_read(options: ReadOptions) -> Plan:
    """Fix the ends of the read.

    Raises :class:`~pyspark_arneb.options.OptionError` and
    :class:`arneb_core.api.errors.StoreUnusable`.
    """
    source = options.location.open()
    spans, losses = select(source.extents(choose_topics(options.topics, source.topics())), options)
    return Plan(tuple(spans), tuple(losses))


def choose_topics(selection: TopicSelection, present: Collection[str]) -> list[str]:
    """The selected topics among ``present``.

    Raises :class:`OptionError` when a topic that was named is not there.
    """
    chosen, missing = selection.choose(present)
    if missing:
        raise OptionError("topic", f"no topic {missing[0]}; {_known(sorted(present))}")
    return chosen


def _known(names: list[str]) -> str:
    if not names:
        return "the log has no topics"
    more = len(names) - NAMES_SHOWN_MAX
    shown = ", ".join(map(short_name, names[:NAMES_SHOWN_MAX]))
    return f"there are {shown}" + (f" and {more} more" if more > 0 else "")


class LogPartition(InputPartition):
    """The spans that one task reads; it may be none."""

    def __init__(self, spans: Partition = ()) -> None:
        super().__init__(None)
        self.spans = spans

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
        options = self._options
        plan = self._plan or plan_read(options)
        for loss in plan.losses:
            if self._concerns(loss):
                self._lose(loss)
        spans = [span for span in plan.spans if self._wants(span.topic, span.ledger)]
        parts = divide(
            spans,
            parallelism=cores(),
            partitions_min=options.partitions_min,
            records_max=options.records_per_partition_max,
        )
        # Given no partition at all, Spark would make one of its own.
        return [LogPartition(part) for part in parts] or [LogPartition()]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from pyspark_arneb.decode.chunks import published_between, read_chunks
        from pyspark_arneb.decode.decoder import Decoder

        assert isinstance(partition, LogPartition), "Spark hands out what partitions() returned"
        options = self._options
        source = options.location.open()
        for span in partition.spans:
            decoder = Decoder(span, self._columns)
            for chunk in read_chunks(source, span, self._lose):
                if options.has_time_bounds:
                    chunk = published_between(
                        chunk, options.starting_time_ms, options.ending_time_ms
                    )
                if chunk.entries:
                    yield from decoder.batches(chunk)

    def _lose(self, loss: Loss) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(loss)
        log.warning("skipping %s: removed by retention before it was read", loss)

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
