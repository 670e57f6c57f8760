"""The writers: what Spark asks of a sink, for a batch write and for a stream.

The rule: a task stages its rows and publishes nothing; the driver's commit names the attempts that
Spark chose, and the broker publishes exactly these, once. So repeated tasks, speculative attempts,
rows in another order or in other partitions, and a driver that dies between the broker's commit and
Spark's do not change what is published.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyspark_arneb.option_table import OptionError
from pyspark_arneb.service.connection import Address
from pyspark_arneb.service.errors import ServiceError
from pyspark_arneb.sink.columns import RowEncoder
from pyspark_arneb.sink.options import SinkOptions, named
from pyspark_arneb.sink.rows import Body
from pyspark_arneb.sink.staging import RemoteStaging, Stage, Staging

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

OpenStaging = Callable[[Address], Staging]

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Spark's local properties of every task of a streaming query: the only way for a Python sink to
learn the ids."""

PARTITIONS_A_COMMIT: Final = 8
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""A batch write is committed in parts: the next this many bytes of this many partitions at a time,
together less than the most that a broker commits at once."""
CHUNKS_MAX: Final = 1 << 32


class StagedRows(WriterCommitMessage):
    """A task's stages, in order, one for each commit."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = tuple(stages)

    def __repr__(self) -> str:
        return f"StagedRows({', '.join(map(repr, self.stages))})"


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, each exactly once."""

    def __init__(
        self, options: SinkOptions, encoder: RowEncoder, staging: OpenStaging = RemoteStaging
    ) -> None:
        self._options = options
        self._encoder = encoder
        self._open = staging

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> StagedRows:
        task = _task()
        query = self._options.idempotence_id or task.getLocalProperty(QUERY_ID)
        batch = task.getLocalProperty(BATCH_ID)
        if not query or batch is None:
            raise OptionError(
                "idempotenceId",
                "is required here, as Spark tells the task no query id: a text of this query "
                "alone, and another one whenever its checkpoint is a new one",
            )
        staging = self._open(self._options.address)
        stage = _Staged(staging, query, int(batch))
        try:
            for each in iterator:
                for body in self._encoder.bodies(each):
                    stage.add(body)
        except ServiceError as error:
            raise named(error) from error
        return StagedRows([stage.whole])

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        stages = _stages_of(messages)
        if not stages:
            return
        query = stages[0].query
        if any((each.query, each.batch) != (query, batchId) for each in stages):
            raise AssertionError(f"expected stages of batch {batchId} of {query}, got {stages}")
        _commit(self._open(self._options.address), self._options, query, batchId, stages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query = self._options.idempotence_id
        stages = _stages_of(messages)
        if query or stages:
            _abort(self._open(self._options.address), query or stages[0].query, [batchId])


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; rows staged by superseded task attempts are not published.

    The query's name is made here, on the driver, and reaches the tasks with the writer. A name
    given by the user may come again, with a version that numbers the writes under it.
    """

    def __init__(
        self, options: SinkOptions, encoder: RowEncoder, staging: OpenStaging = RemoteStaging
    ) -> None:
        self._options = options
        self._encoder = encoder
        self._open = staging
        self._query = options.idempotence_id or f"write-{uuid4().hex}"

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> StagedRows:
        staging = self._open(self._options.address)
        group = _task().partitionId() // PARTITIONS_A_COMMIT * CHUNKS_MAX
        version = self._options.idempotence_version
        stages = [_Staged(staging, self._query, group if version is None else version)]
        try:
            for each in iterator:
                for body in self._encoder.bodies(each):
                    is_full = stages[-1].size + len(body.data) > CHUNK_BYTES
                    if version is None and is_full and stages[-1].size:
                        stages.append(_Staged(staging, self._query, group + len(stages)))
                    stages[-1].add(body)
        except ServiceError as error:
            raise named(error) from error
        return StagedRows([stage.whole for stage in stages])

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staging = self._open(self._options.address)
        stages = _stages_of(messages)
        # Nobody writes again under a generated name.
        is_last = self._options.idempotence_id is None
        for batch in sorted({each.batch for each in stages}):
            of_batch = [each for each in stages if each.batch == batch]
            _commit(staging, self._options, self._query, batch, of_batch, is_last=is_last)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        batches = {each.batch for each in _stages_of(messages)}
        _abort(self._open(self._options.address), self._query, sorted(batches))


class DirectWriter(DataSourceArrowWriter):
    """Writes a DataFrame at once, at least once."""

    def __init__(self, publish: "Publish") -> None:
        self._publish = publish

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> StagedRows:
        return self._publish.rows(iterator)


class DirectStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query at once, at least once."""

    def __init__(self, publish: "Publish") -> None:
        self._publish = publish

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> StagedRows:
        return self._publish.rows(iterator)


class Publish:
    """Publishes the rows of a task as they come."""

    def __init__(
        self, options: SinkOptions, encoder: RowEncoder, staging: OpenStaging = RemoteStaging
    ) -> None:
        self._options = options
        self._encoder = encoder
        self._open = staging

    def rows(self, iterator: "Iterator[pa.RecordBatch]") -> StagedRows:
        """Publish the rows and wait for the confirms; nothing is left to commit."""
        staging = self._open(self._options.address)
        unrouted = 0
        try:
            for each in iterator:
                for body in self._encoder.bodies(each):
                    unrouted += staging.publish(body.data, mandatory=self._options.mandatory)
        except ServiceError as error:
            raise named(error) from error
        if unrouted:
            log.warning("%d rows were routed nowhere", unrouted)
        return StagedRows([])

    def __repr__(self) -> str:
        return f"<Publish {self._encoder}>"


class _Staged:
    """One stage while a task fills it."""

    def __init__(self, staging: Staging, query: str, batch: int) -> None:
        self._staging = staging
        self._query = query
        self._batch = batch
        # Unique among the attempts of all drivers, so that nothing is added to another's remains.
        self._name = uuid4().hex
        self._pieces = 0
        self._rows = 0
        self._is_wanted = True
        self.size = 0

    def add(self, body: Body) -> None:
        if not self._is_wanted:
            return  # the batch was committed before, but Spark still wants its rows consumed
        self._is_wanted = self._staging.stage(
            self._query, self._batch, self._name, self._pieces, body.data
        )
        self._pieces += 1
        self._rows += body.rows
        self.size += len(body.data)

    @property
    def whole(self) -> Stage:
        return Stage(self._query, self._batch, self._name, self._pieces, self._rows)

    def __repr__(self) -> str:
        return f"<_Staged {self._query}/{self._batch}/{self._name}: {self._pieces} pieces>"


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    return task


def _stages_of(messages: Sequence[WriterCommitMessage | None]) -> list[Stage]:
    """Return the stages in the order of the partitions, without empty ones."""
    return [
        stage
        for message in messages
        if isinstance(message, StagedRows)
        for stage in message.stages
        if stage.pieces
    ]


def _commit(
    staging: Staging,
    options: SinkOptions,
    query: str,
    batch: int,
    stages: Sequence[Stage],
    *,
    is_last: bool = False,
) -> None:
    try:
        done = staging.commit(query, batch, stages, mandatory=options.mandatory, is_last=is_last)
    except ServiceError as error:
        raise named(error) from error
    if done.already:
        log.info("batch %d of %s had been committed before", batch, query)
    if done.unrouted:
        log.warning("%d rows of batch %d were routed nowhere", done.unrouted, batch)


def _abort(staging: Staging, query: str, batches: Sequence[int]) -> None:
    """Discard the batches as far as possible: the broker removes the rest later."""
    for batch in batches:
        try:
            staging.abort(query, batch)
        except ServiceError as error:
            log.warning("what was staged for batch %d of %s is left: %s", batch, query, error)
