"""The view of a topic: what is sealed of it and what only the log has, cut where the two meet.

The rule: the log is looked at first, in one snapshot, and the table second. What was closed in
between is in the table or still in the snapshot, so nothing is missing; and the table says which
ledger was its last, so nothing is there twice. What the table got that the snapshot did not know
yet is left out: the view is the log as of the snapshot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from arneb_core.api.position import (
    ENTRY_MASK,
    Position,
    ledger_of,
    position,
)
from pyspark_arneb.decode.chunks import ROWS_MAX
from pyspark_arneb.lake.erasure import ErasedKeys
from pyspark_arneb.lake.table import LogId, SealedTable
from pyspark_arneb.log.topics import partition_index
from pyspark_arneb.plan.ranges import Loss, Span
from pyspark_arneb.schema import Column, arrow_schema
from pyspark_arneb.target import LakeError, Target

if TYPE_CHECKING:
    from arneb_core.store.reading.extents import Extent
    from pyspark_arneb.log.block_source import BlockSource


BEFORE_LEDGERS: Final = -1


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the view of one log ends, if the table goes on behind it."""

    partition: int
    end: Position
    """The first position that is not in the view."""


@dataclass(frozen=True, slots=True)
class View:
    """A topic at one instant."""

    table: SealedTable | None
    files: tuple[str, ...]
    """The table's files of the logs in the view, relative to it."""
    cuts: tuple[Cut, ...]
    extents: "tuple[Extent, ...]"
    """What of the logs is read from there; each begins behind what is sealed."""
    missing: int
    """Messages of the logs that are neither sealed nor in the log."""
    sealed_rows: int
    """Rows of the files; a few more than are in the view, where the table goes on behind it."""
    erased: ErasedKeys
    """What is erased in the table already, and is not to be seen from the log either."""

    @property
    def spans(self) -> list[Span]:
        """What is read from the logs, in order."""
        return [
            Span(extent.topic_id, extent.topic, each.first, each.last, each.messages)
            for extent in self.extents
            for each in extent.ledgers
        ]


def view_of(
    topic: str, source: "BlockSource | None", names: Sequence[str], lake: Target | None
) -> View:
    """The view of one topic, whose logs are ``names``; of what is sealed only without a source,
    of the logs only without a lake.

    Raises :class:`.LakeError` and :class:`arneb_core.api.errors.StoreUnusable`.
    """
    extents = [] if source is None else source.extents(names)
    table = None if lake is None else SealedTable.open(lake, topic)
    if table is None:
        return View(None, (), (), tuple(extents), 0, 0, ErasedKeys())
    partitions = set(map(partition_index, names))
    starts = [position(_through(table, extent) + 1, 0) for extent in extents]
    files = [file for file in table.files() if not names or file.partition in partitions]
    return View(
        table,
        tuple(file.path for file in files),
        tuple(
            Cut(partition_index(extent.topic), extent.end)
            for extent, start in zip(extents, starts, strict=True)
            if start > extent.end
        ),
        tuple(map(_behind, extents, starts)),
        sum(missing(table, extent, start) for extent, start in zip(extents, starts, strict=True)),
        sum(file.rows for file in files),
        ErasedKeys.of(table.target),
    )


def missing(table: SealedTable, extent: "Extent", start: Position) -> int:
    """How many messages are neither in the table, which ends before ``start``, nor in the log."""
    behind = next((each for each in extent.ledgers if each.first >= start), None)
    if behind is None:
        return 0
    return table.missing_before(LogId(extent.topic, extent.topic_id), behind.messages_before)


def _behind(extent: "Extent", start: Position) -> "Extent":
    """The part of the log from ``start`` on."""
    ledgers = tuple(each for each in extent.ledgers if each.first >= start)
    return replace(extent, ledgers=ledgers, floor=max(start, extent.floor))


def _through(table: SealedTable, extent: "Extent") -> int:
    """The last ledger of the log that is sealed; below all if none is."""
    this = LogId(extent.topic, extent.topic_id)
    known = table.topic_id(this.partition)
    if known not in (None, this.topic_id):
        raise LakeError(
            f"{table.target} holds another topic {this.topic} (its id was {known}, now it is "
            f"{this.topic_id}): the two are not one table"
        )
    through = table.through(this)
    return BEFORE_LEDGERS if through is None else through


def sealed_rows(
    lake: Target, loss: Loss, columns: "Sequence[Column]"
) -> "Iterator[pa.RecordBatch] | None":
    """The rows of a stretch that the log has let go of meanwhile, from the table; None if the
    table has it not.

    Raises :class:`.LakeError`.
    """
    table = SealedTable.open(lake, loss.topic)
    partition = partition_index(loss.topic)
    if table is None or not _holds(table, partition, loss):
        return None
    return _scan(table, _between(partition, loss), arrow_schema(columns))


def _scan(table: SealedTable, wanted: Any, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    scanner = table.dataset().scanner(columns=schema.names, filter=wanted, batch_size=ROWS_MAX)
    for batch in scanner.to_batches():
        if batch.num_rows:
            arrays = [batch.column(each.name).cast(each.type) for each in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _holds(table: SealedTable, partition: int, loss: Loss) -> bool:
    topic_id = table.topic_id(partition)
    if topic_id is None:
        return False
    through = table.through(LogId(loss.topic, topic_id))  # type: ignore[arg-type]
    return through is not None and ledger_of(loss.last) <= through


def _between(partition: int, loss: Loss) -> Any:
    import pyarrow.dataset as ds

    ledger, entry = ds.field("ledger_id"), ds.field("entry_id")
    first, last = loss.first, loss.last
    behind = (ledger > ledger_of(first)) | (
        (ledger == ledger_of(first)) & (entry >= first & ENTRY_MASK)
    )
    before = (ledger < ledger_of(last)) | (
        (ledger == ledger_of(last)) & (entry <= last & ENTRY_MASK)
    )
    return (ds.field("partition") == partition) & behind & before
