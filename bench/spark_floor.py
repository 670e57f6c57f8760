"""The floor: a data source that passes the same prebuilt batches to Spark repeatedly.

The rule: it does what any Python data source must do, and nothing else, so the cost of a query on
it is Spark's own. The batch is made from a log's first rows, so its columns, rows and sizes are
those of the source that is measured beside it.
"""

import base64
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_arneb.guest import guest
from pyspark_arneb.options import NICE


class FloorSource(DataSource):
    """Options: ``batch``, an Arrow stream in base64; ``rows``; ``partitions``; for streams also
    ``batches``, the number of micro-batches for all rows."""

    @classmethod
    def name(cls) -> str:
        return "arneb-floor"

    def schema(self) -> StructType:
        return from_arrow_schema(read_stream(self.options["batch"])[0].schema)

    def reader(self, schema: StructType) -> "FloorReader":
        return FloorReader(
            self.options["batch"], int(self.options["rows"]), int(self.options["partitions"])
        )

    def streamReader(self, schema: StructType) -> "FloorStreamReader":  # noqa: N802
        return FloorStreamReader(
            self.options["batch"],
            int(self.options["rows"]),
            int(self.options["partitions"]),
            int(self.options["batches"]),
        )


def repeated(text: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The batch repeated until there are ``rows`` rows."""
    (batch,) = read_stream(text)
    while rows > 0:
        yield batch.slice(0, rows)
        rows -= batch.num_rows


class FloorReader(DataSourceReader):
    """Returns ``rows`` rows in all."""

    def __init__(self, batch: str, rows: int, partitions: int) -> None:
        self._batch = batch
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # as the data source does, so that neither gets more CPU time
        with guest(NICE) as make_room:
            for batch in repeated(self._batch, self._rows // self._partitions):
                make_room()
                yield batch


class Part(InputPartition):
    """The rows of one partition of a micro-batch."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class FloorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Returns ``rows`` rows in ``batches`` micro-batches."""

    def __init__(self, batch: str, rows: int, partitions: int, batches: int) -> None:
        self._batch = batch
        self._rows = rows
        self._partitions = partitions
        self._step = -(-rows // batches)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"row": min(self._rows, start["row"] + self._step)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The end is known from the start."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        rows = end["row"] - start["row"]
        edges = [rows * number // self._partitions for number in range(self._partitions + 1)]
        return [Part(stop - begin) for begin, stop in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part), "they were made here"
        yield from repeated(self._batch, partition.rows)


def write_stream(batch: pa.RecordBatch) -> str:
    """A batch as text, for an option."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


def read_stream(text: str) -> list[pa.RecordBatch]:
    """Undo :func:`write_stream`."""
    return list(pa.ipc.open_stream(base64.b64decode(text)))
