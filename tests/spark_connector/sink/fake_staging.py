"""A broker in memory, as far as a sink sees one: stages, and commits that are remembered.

The rule: it keeps the contract of docs/internals/data-api.md, refusals included. What it has
published is a list of rows, each with its target.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark import TaskContext
from tests.spark_connector.sink.wire import decode_rows

from pyspark_arneb.service.errors import ServiceError
from pyspark_arneb.sink.staging import Committed, Stage
from pyspark_arneb.sink.writers import BATCH_ID, QUERY_ID

Row = dict[str, Any]


@dataclass
class FakeStaging:
    """Also what opens it: a writer is given ``lambda address: staging``."""

    published: list[Row] = field(default_factory=list)
    commits: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    last: dict[str, bool] = field(default_factory=dict)
    """Whether a query said that it ended with that batch."""
    stages: dict[tuple[str, int], dict[str, list[bytes]]] = field(default_factory=dict)
    fails_with: ServiceError | None = None

    def stage(self, query: str, batch: int, stage: str, piece: int, body: bytes) -> bool:
        self._fail()
        if batch <= self.marks.get(query, -1):
            return False
        pieces = self.stages.setdefault((query, batch), {}).setdefault(stage, [])
        if piece < len(pieces):
            if pieces[piece] != body:
                raise ServiceError("stage_differs", "another piece is there", 409)
            return True
        if piece > len(pieces):
            raise ServiceError("stage_incomplete", "ahead of its turn", 409)
        pieces.append(body)
        return True

    def commit(
        self, query: str, batch: int, stages: Sequence[Stage], *, mandatory: bool, is_last: bool
    ) -> Committed:
        self._fail()
        if batch <= self.marks.get(query, -1):
            return Committed(already=True, rows=0, unrouted=0)
        rows: list[Row] = []
        there = self.stages.get((query, batch), {})
        for each in stages:
            if each.name not in there:
                raise ServiceError("stage_not_found", each.name, 404)
            found = [row for body in there[each.name] for row in decode_rows(body)]
            if (each.pieces, each.rows) != (len(there[each.name]), len(found)):
                raise ServiceError("stage_incomplete", each.name, 409)
            rows += found
        self.published += rows
        self.commits += 1
        self.marks[query] = batch
        self.last[query] = is_last
        self.stages.pop((query, batch), None)
        return Committed(already=False, rows=len(rows), unrouted=0)

    def abort(self, query: str, batch: int) -> None:
        self._fail()
        self.stages.pop((query, batch), None)

    def publish(self, body: bytes, *, mandatory: bool) -> int:
        self._fail()
        self.published += decode_rows(body)
        return 0

    def _fail(self) -> None:
        if self.fails_with is not None:
            raise self.fails_with


@contextmanager
def in_task(partition: int = 0, **properties: str) -> Iterator[None]:
    """As in a task of Spark, which tells a stream's tasks the query and the batch."""
    before = TaskContext._taskContext
    task = TaskContext._getOrCreate()
    task._partitionId = partition
    task._localProperties = properties
    try:
        yield
    finally:
        TaskContext._taskContext = before


def of_batch(query: str, batch: int) -> dict[str, str]:
    """The local properties of a streaming task."""
    return {QUERY_ID: query, BATCH_ID: str(batch)}
