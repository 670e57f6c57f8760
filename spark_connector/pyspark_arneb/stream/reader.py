"""The stream reader: translates the calls of Spark's micro-batch engine into calls of the planner.

The rule: the driver keeps one reader for a run of a query and asks it for offsets; the executors
get pickled readers that only read spans. So the planner, with its connections, is made on first use
and never pickled.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_arneb.batch import BatchReader, LogPartition
from pyspark_arneb.log.counted import CountedSource
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.offsets import NO_TIMES
from pyspark_arneb.plan.partitions import divide
from pyspark_arneb.processors import cores
from pyspark_arneb.schema import Column
from pyspark_arneb.stream.admission import NO_LIMITS, Limits
from pyspark_arneb.stream.cursor import QueryCursor
from pyspark_arneb.stream.offset import StreamOffset, render_position
from pyspark_arneb.stream.options import StreamOptions
from pyspark_arneb.stream.planner import StreamPlanner
from pyspark_arneb.stream.remote_cursor import RemoteCursors

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log as it grows, in micro-batches."""

    def __init__(self, options: StreamOptions, columns: Sequence[Column]) -> None:
        self._options = options
        # The starting time only decides where to begin; it does not filter the rows after that.
        self._rows = BatchReader(replace(options.read, starting_times=NO_TIMES), columns)
        self._planner: StreamPlanner | None = None

    def __repr__(self) -> str:
        return f"<StreamReader {self._planner!r}>"

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._planning().initial().to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = StreamOffset.from_json(start)
        end = self._planning().latest(begin, self._limits(limit))
        # The given offset itself: Spark compares texts, and an older version may have written it.
        return start if end is begin else end.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return one of the limits that were given; the planner itself applies both."""
        limits = self._options.limits
        if limits.messages_max is not None:
            return ReadMaxRows(limits.messages_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        return ReadAllAvailable()

    def _limits(self, limit: ReadLimit) -> Limits:
        """Return the limits that apply: none if Spark asks for everything (``once``)."""
        return NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._options.limits

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return where the topics ended at the last look at the log, and what the query had not
        finished then."""
        report = self._planning().report
        if report is None:
            return None
        return {
            "topics": {topic: render_position(end) for topic, end in sorted(report.ends.items())},
            "backlog": {
                "messages": report.messages,
                "bytes": report.bytes_total,
                "seconds": report.age_s,
            },
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._planning().fix_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        spans = self._planning().spans(StreamOffset.from_json(start), StreamOffset.from_json(end))
        read = self._options.read
        parts = divide(
            spans,
            parallelism=cores(),
            partitions_min=read.partitions_min,
            records_max=read.records_per_partition_max,
        )
        return [LogPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return self._rows.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._planning().finish(StreamOffset.from_json(end))

    def _planning(self) -> StreamPlanner:
        if self._planner is None:
            location = self._options.read.location
            source = location.open()
            self._planner = StreamPlanner(
                self._options,
                # A broker's counts are exact already.
                source if isinstance(location, Remote) else CountedSource(source),
                self._cursor(),
                now_s=time.time,
                new_name=lambda: uuid4().hex,
            )
        return self._planner

    def _cursor(self) -> QueryCursor | None:
        """Only a broker has cursors."""
        location = self._options.read.location
        if not isinstance(location, Remote):
            return None
        return QueryCursor(RemoteCursors(location.address), self._options.lease_s)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}
