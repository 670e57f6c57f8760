"""Sealing: moves closed ledgers from the log into the table, each once.

The rule: a ledger is in the table whole or not at all. Its rows are decoded, written, read back and
compared; then one commit says that the ledger is there. Small consecutive ledgers go into one file,
by one commit. A process killed on the way leaves only a file that no commit names.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from arneb_core.api.entries.position import ledger_of
from pyspark_arneb.decode.reading import read_batches
from pyspark_arneb.errors import CorruptionError, DataLossError
from pyspark_arneb.lake.data_file import COMPRESSIONS, DataFile, file_name, write_data_file
from pyspark_arneb.lake.erasure import ErasedKeys, erase
from pyspark_arneb.lake.table import LogId, SealedTable
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.schema import Column, arrow_schema
from pyspark_arneb.target import LakeError

if TYPE_CHECKING:
    from arneb_core.api.entries.position import LedgerId
    from arneb_core.store.reading.extents import LedgerExtent

FILE_BYTES: Final = 128 << 20
"""Bytes of uncompressed rows that fill a file, which ends with a ledger if possible. It bounds the
work to repeat after a kill."""

LEDGER_BYTES: Final = 4 * FILE_BYTES
"""A ledger with more bytes of rows becomes several files."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """Ledgers that are in the table now."""

    log: LogId
    first: "LedgerId"
    last: "LedgerId"
    ledgers: int
    rows: int
    bytes: int
    """The size of their files."""


class Sealer:
    """Seals the ledgers of one log."""

    def __init__(
        self,
        source: BlockSource,
        table: SealedTable,
        log: LogId,
        columns: Sequence[Column],
        options: ReadOptions,
        compression: str = COMPRESSIONS[0],
    ) -> None:
        """``options`` say what to do about loss and damage."""
        self._source = source
        self._table = table
        self._log = log
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._options = options
        self._compression = compression

    def __repr__(self) -> str:
        return f"<Sealer of {self._log}>"

    def seal(self, ledgers: "Sequence[LedgerExtent]") -> Sealed | None:
        """Add the first of some closed ledgers to the table, as many as fill a file. None if
        somebody else did so meanwhile.

        Raises :class:`.LakeError`, :class:`arneb_core.api.errors.StoreUnusable` and
        :class:`OSError`; then the table is unchanged, or the commit is complete.
        """
        assert ledgers, "there is something to seal"
        assert all(each.closed_ms for each in ledgers), "open ledgers are not sealed"
        erased = ErasedKeys.of(self._table.target)
        pieces = _Pieces(self._log, ledgers, self._read)
        files = self._write(pieces, erased)
        youngest = ledgers[pieces.begun - 1]
        first, last = ledger_of(ledgers[0].first), ledger_of(youngest.first)
        ever = youngest.messages_before + youngest.messages
        if not self._table.commit_ledger(self._log, last, files, ever):
            self._delete(files)
            return None
        since = ErasedKeys.of(self._table.target) - erased
        if since:
            erase(self._table, since, self._compression)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        return Sealed(self._log, first, last, pieces.begun, rows, size)

    def _write(self, pieces: "_Pieces", erased: ErasedKeys) -> list[DataFile]:
        files: list[DataFile] = []
        try:
            while pieces.more:
                written = write_data_file(
                    self._table.target,
                    file_name(self._log.partition, pieces.ledger),
                    self._schema,
                    map(erased.kept, pieces.take()),
                    self._compression,
                )
                if written is not None:
                    files.append(written)
        except BaseException:
            self._delete(files)
            raise
        return files

    def _delete(self, files: Sequence[DataFile]) -> None:
        with suppress(OSError):
            for file in files:
                self._table.target.file_system().delete_file(file.path)

    def _read(self, span: Span) -> Iterator["pa.RecordBatch"]:
        try:
            yield from read_batches(self._source, span, self._columns, self._options)
        except DataLossError as error:
            raise LakeError(
                f"{error.loss} would be missing in the table; to seal the rest, pass --skip-lost"
            ) from error
        except CorruptionError as error:
            raise LakeError(
                f"{error.damage}; to seal the others, pass --on-corrupt skip or raw"
            ) from error


class _Pieces:
    """The rows of some ledgers, divided into their files."""

    def __init__(
        self,
        log: LogId,
        ledgers: "Sequence[LedgerExtent]",
        read: Callable[[Span], Iterator["pa.RecordBatch"]],
    ) -> None:
        self._read = read
        self._spans = [
            Span(log.topic_id, log.topic, each.first, each.last, each.messages) for each in ledgers
        ]
        self.begun = 0
        """Ledgers of which rows were taken; at the end, all rows of each."""
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._is_cut = False

    @property
    def more(self) -> bool:
        """Whether more rows follow."""
        return not self.begun or self._is_cut

    @property
    def ledger(self) -> "LedgerId":
        """The ledger with which the next piece begins."""
        return self._spans[max(0, self.begun - 1)].ledger

    def take(self) -> Iterator["pa.RecordBatch"]:
        """The rows of the next file."""
        size = ledger_bytes = 0
        while True:
            for batch in self._batches:
                yield batch
                size += batch.nbytes
                ledger_bytes += batch.nbytes
                if ledger_bytes >= LEDGER_BYTES:
                    self._is_cut = True
                    return
            self._is_cut = False
            if size >= FILE_BYTES or self.begun == len(self._spans):
                return
            self._batches = self._read(self._spans[self.begun])
            self.begun += 1
            ledger_bytes = 0
