"""Data files: Parquet with the rows of whole ledgers, written once and never changed.

The rule: a file counts once it was read back and holds the rows that were written. Its layout
serves readers: rows are in the log's order, so that a reader can skip by the smallest and largest
ledger, entry and time of a file, a row group and a page; pages have checksums; Spark, DuckDB and
Polars can read every encoding.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_arneb.lake.digest import RowDigest, digest_of
from pyspark_arneb.target import LakeError, Target, make_durable

if TYPE_CHECKING:
    from arneb_core.api.entries.position import LedgerId

GROUP_BYTES: Final = 32 << 20
"""Bytes of a row group before compression, which a writer keeps in memory. Small enough that
several tasks can read a file of 128 MiB."""

GROUP_ROWS: Final = 1 << 17

READ_ROWS: Final = 1 << 14
"""Rows read back at a time."""

COMPRESSIONS: Final = ("zstd", "snappy", "lz4", "none")
ZSTD_LEVEL: Final = 1
"""Half the size of Snappy's with JSON bodies, for a sixth more time in all; level 3 gains
little."""

COUNTED: Final = ("ledger_id", "entry_id", "sequence_id", "publish_time", "event_time")
"""Columns whose values mostly differ little from row to row."""

REPEATED: Final = (
    "topic", "partition", "ledger_id", "batch_index", "key", "producer_name", "flags",
    "properties.key_value.key", "properties.key_value.value",
)  # fmt: skip
"""Columns with repeated values, written as a dictionary."""

SKIPPED_BY: Final = ("topic", "partition", "ledger_id", "entry_id", "publish_time")
"""Columns whose smallest and largest values are in the table's log."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with the rows of consecutive ledgers."""

    path: str
    """Relative to the table."""
    bytes: int
    rows: int
    statistics: Mapping[str, Any]
    """The statistics in the form of the table's log."""


def file_name(partition: int, first: "LedgerId") -> str:
    """Return a unique name for a file that begins with ledger ``first``."""
    part = f"p{partition}-" if partition >= 0 else ""
    return f"{part}{first:010d}-{uuid4().hex[:12]}.parquet"


def write_data_file(
    table: Target,
    name: str,
    schema: "pa.Schema",
    batches: Iterable["pa.RecordBatch"],
    compression: str = COMPRESSIONS[0],
) -> DataFile | None:
    """Write the rows of ``batches`` and read them back; None, and no file, if there are none.

    An unfinished file is removed, unless the process is killed. Raises :class:`.LakeError` when the
    file does not hold what was written, and :class:`OSError`.
    """
    files = table.file_system()
    digest = RowDigest()
    collected: list[Any] = []
    try:
        with (
            files.open_output_stream(name) as sink,
            _writer(sink, schema, compression, collected) as writer,
        ):
            for group in _row_groups(batches):
                digest.add(group)
                writer.write_table(group, row_group_size=max(1, group.num_rows))
        if not digest.rows:
            files.delete_file(name)
            return None
        if table.directory is not None:
            make_durable(table.directory / name)
        read_back = digest_of(read_file(table, name))
        if read_back != digest:
            columns = ", ".join(digest.differs_in(read_back))
            raise LakeError(
                f"{table}/{name} does not hold the rows that were written: {columns} differ"
            )
    except BaseException:
        with suppress(OSError):
            files.delete_file(name)
        raise
    size = files.get_file_info(name).size
    return DataFile(name, size, digest.rows, _statistics(schema, collected[0]))


def read_file(table: Target, name: str) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a file, checking its pages' checksums."""
    with (
        table.file_system().open_input_file(name) as source,
        pq.ParquetFile(source, page_checksum_verification=True) as file,
    ):
        yield from file.iter_batches(READ_ROWS)


def _writer(sink: Any, schema: "pa.Schema", compression: str, collected: list[Any]) -> Any:
    names = set(schema.names)
    leaves = {leaf for leaf in REPEATED if leaf.split(".")[0] in names}
    encodings = {name: "DELTA_BINARY_PACKED" for name in COUNTED if name in names - leaves}
    if "message_id" in names:
        encodings["message_id"] = "DELTA_BYTE_ARRAY"
    return pq.ParquetWriter(
        sink,
        schema,
        compression=compression,
        compression_level=ZSTD_LEVEL if compression == "zstd" else None,
        use_dictionary=sorted(leaves),
        column_encoding=encodings,
        write_page_index=True,
        write_page_checksum=True,
        metadata_collector=collected,
    )


def _row_groups(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.Table"]:
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(gathered)


def _statistics(schema: "pa.Schema", metadata: Any) -> dict[str, Any]:
    """Return a file's statistics for the table's log, by which readers skip it unopened."""
    places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in SKIPPED_BY:
        if name not in schema.names:
            continue
        found = [
            metadata.row_group(group).column(places[name]).statistics
            for group in range(metadata.num_row_groups)
        ]
        nulls[name] = sum(each.null_count for each in found)
        known = [each for each in found if each.has_min_max]
        if known:
            least[name] = _as_json(min(each.min for each in known))
            most[name] = _as_json(max(each.max for each in known))
    return {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": most,
        "nullCount": nulls,
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value


def add_action(file: DataFile, *, changes_data: bool) -> Any:
    """Return the file as a line of the table's log."""
    from deltalake.transaction import AddAction

    return AddAction(
        file.path,
        file.bytes,
        {},
        time.time_ns() // 1_000_000,
        changes_data,
        json.dumps(file.statistics),
    )
