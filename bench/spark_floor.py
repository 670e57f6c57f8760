"""The floor: a data source that hands the same prebuilt batches to Spark again and again.

The rule: it does what any Python source must do, and nothing else, so what a query on it costs is
Spark's. The batch is made by reading a log's first rows, so its columns, rows and sizes are those
of the source that is measured beside it.
"""

import base64
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


class FloorSource(DataSource):
    """Options: ``batch``, an Arrow stream in base64; ``rows``; ``partitions``."""

    @classmethod
    def name(cls) -> str:
        return "arneb-floor"

    def schema(self) -> StructType:
        return from_arrow_schema(read_stream(self.options["batch"])[0].schema)

    def reader(self, schema: StructType) -> "FloorReader":
        return FloorReader(
            self.options["batch"], int(self.options["rows"]), int(self.options["partitions"])
        )


class FloorReader(DataSourceReader):
    """Hands out ``rows`` rows in all."""

    def __init__(self, batch: str, rows: int, partitions: int) -> None:
        self._batch = batch
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        (batch,) = read_stream(self._batch)
        left = self._rows // self._partitions
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


def write_stream(batch: pa.RecordBatch) -> str:
    """A batch as text, for an option."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


def read_stream(text: str) -> list[pa.RecordBatch]:
    """Undo :func:`write_stream`."""
    return list(pa.ipc.open_stream(base64.b64decode(text)))
