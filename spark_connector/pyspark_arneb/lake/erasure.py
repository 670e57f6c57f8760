"""Erasing by key: what the tier must no longer hold, and rewriting the files that hold it.

The rule: an erasure is recorded before anything is deleted, and every process that adds a ledger
checks the recorded erasures before and after its commit. So rows that were published before the
erasure leave the table, whether their ledger was in it already or comes later. Only SHA-256 digests
of the keys are recorded, because the keys themselves must be forgotten.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyspark_arneb.lake.data_file import (
    COMPRESSIONS,
    DataFile,
    file_name,
    read_file,
    write_data_file,
)
from pyspark_arneb.lake.table import SealedFile, SealedTable
from pyspark_arneb.target import LakeError, Target, make_durable

if TYPE_CHECKING:
    from pyarrow import fs

FOLDER: Final = "_arneb_erased"
"""The directory of erasures, beside the table's files; readers ignore names that begin with an
underscore."""

SCHEMA: Final = pa.schema([("key_sha256", pa.binary()), ("until_ms", pa.int64())])

KEPT_H: Final = 1
"""Hours for which files are kept that are not in the table but may be about to be added."""


@dataclass(frozen=True, slots=True)
class ErasedKeys:
    """The erasures of one table: for each key, the publish time up to which its rows are erased."""

    until_ms: Mapping[bytes, int] = field(default_factory=dict)
    """By the key's digest: rows published up to this time are erased."""

    @classmethod
    def of(cls, table: Target) -> "ErasedKeys":
        """Read the erasures beside the table. Raises :class:`.LakeError`."""
        from pyarrow import fs

        files = table.file_system()
        found: dict[bytes, int] = {}
        for info in files.get_file_info(fs.FileSelector(FOLDER, allow_not_found=True)):
            for digest, until_ms in _read(table, files, info.path).items():
                found[digest] = max(until_ms, found.get(digest, 0))
        return cls(found)

    @classmethod
    def from_now(cls, keys: Iterable[bytes], now_ms: int) -> "ErasedKeys":
        """Return the erasure of everything published with ``keys`` up to now."""
        return cls({key_digest(key): now_ms for key in keys})

    def write_down(self, table: Target) -> None:
        """Record the erasures, for every process that adds to the table."""
        files = table.file_system()
        files.create_dir(FOLDER)
        path = f"{FOLDER}/{uuid4().hex}.parquet"
        rows = [list(self.until_ms.keys()), list(self.until_ms.values())]
        pq.write_table(pa.table(rows, SCHEMA), path, filesystem=files)
        if table.directory is not None:
            make_durable(table.directory / path)

    def __sub__(self, known: "ErasedKeys") -> "ErasedKeys":
        """Return the erasures beyond ``known``."""
        return ErasedKeys(
            {
                digest: until_ms
                for digest, until_ms in self.until_ms.items()
                if until_ms > known.until_ms.get(digest, -1)
            }
        )

    def __bool__(self) -> bool:
        return bool(self.until_ms)

    def kept(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """Return the rows that are not erased."""
        if not self.until_ms:
            return batch
        until = self.until_of(batch.column("key"))
        if until.null_count == len(until):
            return batch
        gone = pc.less_equal(batch.column("publish_time"), until.cast(pa.timestamp("us", "UTC")))
        return batch.filter(pc.invert(pc.fill_null(gone, False)))

    def until_of(self, keys: "pa.Array") -> "pa.Array":
        """Return for each of ``keys`` the publish time up to which its rows are erased; null: they
        are not."""
        different = keys.dictionary_encode()
        until = [
            None if key is None else self.until_ms.get(key_digest(key))
            for key in different.dictionary.to_pylist()
        ]
        return pa.array(until, pa.timestamp("ms", "UTC")).take(different.indices)


def key_digest(key: bytes) -> bytes:
    """Return the digest that is recorded for a key."""
    return hashlib.sha256(key).digest()


def erase(table: SealedTable, erased: ErasedKeys, compression: str = COMPRESSIONS[0]) -> int:
    """Rewrite every file that holds rows of ``erased`` without them; return how many rows were
    erased.

    The old files remain until :func:`forget`. Raises :class:`.LakeError`.
    """
    rows = 0
    done: set[str] = set()
    while True:
        todo = [file for file in table.files() if file.path not in done]
        if not todo:
            return rows
        for file in todo:
            done.add(file.path)
            if not _holds(table.target, file, erased):
                continue
            new = _rewrite(table, file, erased, compression)
            added = () if new is None else (new,)
            if table.replace([file], added, changes_data=True):
                rows += file.rows - (0 if new is None else new.rows)
                done.update(each.path for each in added)
            elif new is not None:
                # A merge came first: its new file is handled in the next round.
                table.target.file_system().delete_file(new.path)
        table.refresh()


def forget(table: SealedTable) -> int:
    """Delete the files that are no longer in the table, so that erased rows are gone for good;
    return how many files. Queries that still read them fail."""
    return table.vacuum(0, untracked=False) + table.vacuum(KEPT_H)


def _holds(table: Target, file: SealedFile, erased: ErasedKeys) -> bool:
    with (
        table.file_system().open_input_file(file.path) as source,
        pq.ParquetFile(source) as opened,
    ):
        return any(
            erased.until_of(batch.column(0)).null_count < batch.num_rows
            for batch in opened.iter_batches(columns=["key"])
        )


def _rewrite(
    table: SealedTable, file: SealedFile, erased: ErasedKeys, compression: str
) -> DataFile | None:
    def kept() -> Iterator[pa.RecordBatch]:
        for batch in read_file(table.target, file.path):
            yield erased.kept(batch)

    with table.target.file_system().open_input_file(file.path) as source:
        schema = pq.read_schema(source)
    name = file_name(file.partition, file.first)
    return write_data_file(table.target, name, schema, kept(), compression)


def _read(table: Target, files: "fs.FileSystem", path: str) -> dict[bytes, int]:
    try:
        with files.open_input_file(path) as source:
            rows = pq.read_table(source, schema=SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise LakeError(f"{table}/{path} is no list of erased keys: {error}") from error
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))
