"""The view of a topic: its sealed part and what only the log has, cut where the two meet.

The rule: the log is read first, in one snapshot, and the table second. A ledger closed in between
is in the table or still in the snapshot, so nothing is missing; and the table says which ledger is
its last, so nothing is there twice. Whatever the table received after the snapshot is left out: the
view is the log as of the snapshot.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from arneb_core.api.entries.position import (
    ENTRY_MASK,
    Position,
    ledger_of,
    position_at,
)
from pyspark_arneb.decode.chunks import ROWS_MAX
from pyspark_arneb.decode.times import TIME_MS_MAX, times_of_ms
from pyspark_arneb.lake.erasure import ErasedKeys
from pyspark_arneb.lake.table import LogId, SealedTable
from pyspark_arneb.log.topics import partition_index
from pyspark_arneb.options import ColumnStyle
from pyspark_arneb.plan.ranges import Loss, Span
from pyspark_arneb.schema import STYLES, Column, Field, arrow_schema
from pyspark_arneb.target import LakeError, Target

if TYPE_CHECKING:
    from arneb_core.store.reading.extents import Extent
    from pyspark_arneb.log.block_source import BlockSource


BEFORE_LEDGERS: Final = -1


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the view of one log ends, if the table continues after it."""

    partition: int
    end: Position
    """The first position outside the view."""


@dataclass(frozen=True, slots=True)
class View:
    """A topic at one instant."""

    table: SealedTable | None
    files: tuple[str, ...]
    """The table's files of the logs in the view, relative to it."""
    cuts: tuple[Cut, ...]
    extents: "tuple[Extent, ...]"
    """The parts that are read from the logs; each begins after the sealed part."""
    missing: int
    """Messages of the logs that are neither sealed nor in the log."""
    sealed_rows: int
    """Rows of the files; a few more than are in the view if the table continues after it."""
    erased: ErasedKeys
    """Erasures in the table, which hide rows of the log too."""

    @property
    def spans(self) -> list[Span]:
        """The spans to read from the logs, in order."""
        return [
            Span(extent.topic_id, extent.topic, each.first, each.last, each.messages)
            for extent in self.extents
            for each in extent.ledgers
        ]


def view_of(
    topic: str, source: "BlockSource | None", names: Sequence[str], lake: Target | None
) -> View:
    """Return the view of one topic, whose logs are ``names``; without a source only of the sealed
    part, without a lake only of the logs.

    Raises :class:`.LakeError` and :class:`arneb_core.api.errors.StoreUnusable`.
    """
    extents = [] if source is None else source.extents(names)
    table = None if lake is None else SealedTable.open(lake, topic)
    if table is None:
        return View(None, (), (), tuple(extents), 0, 0, ErasedKeys())
    partitions = set(map(partition_index, names))
    starts = [position_at(_through(table, extent) + 1, 0) for extent in extents]
    files = [file for file in table.files() if not names or file.partition in partitions]
    return View(
        table,
        tuple(file.path for file in files),
        tuple(
            Cut(partition_index(extent.topic), extent.end)
            for extent, start in zip(extents, starts, strict=True)
            if start > extent.end
        ),
        tuple(map(_part_after, extents, starts)),
        sum(missing(table, extent, start) for extent, start in zip(extents, starts, strict=True)),
        sum(file.rows for file in files),
        ErasedKeys.of(table.target),
    )


def missing(table: SealedTable, extent: "Extent", start: Position) -> int:
    """Return how many messages are neither in the table, which ends before ``start``, nor in the
    log."""
    behind = next((each for each in extent.ledgers if each.first >= start), None)
    if behind is None:
        return 0
    return table.missing_before(LogId(extent.topic, extent.topic_id), behind.messages_before)


def _part_after(extent: "Extent", start: Position) -> "Extent":
    """Return the part of the log from ``start`` on."""
    ledgers = tuple(each for each in extent.ledgers if each.first >= start)
    return replace(extent, ledgers=ledgers, floor=max(start, extent.floor))


def _through(table: SealedTable, extent: "Extent") -> int:
    """Return the last ledger of the log that is sealed; a number below all ledgers if none is."""
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
    lake: Target,
    loss: Loss,
    columns: "Sequence[Column]",
    lose: Callable[[Loss], None],
    *,
    times: tuple[int | None, int | None] = (None, None),
    wants: Callable[[int], bool] | None = None,
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a range that the log has removed since, from the table: those published in
    [from, until) of ``times``, in wanted ledgers. ``lose`` is called with what the table does not
    have either.

    Raises :class:`.LakeError`.
    """
    table = SealedTable.open(lake, loss.topic)
    held = None if table is None else _held(table, loss)
    if table is None or held is None:
        lose(loss)
        return
    if held.first > loss.first:
        lose(replace(loss, last=Position(held.first - 1)))
    wanted = _between(partition_index(loss.topic), held) & _published(*times)
    yield from _scan(table, wanted, columns, wants or (lambda ledger: True))


def _scan(
    table: SealedTable, wanted: Any, columns: "Sequence[Column]", wants: Callable[[int], bool]
) -> "Iterator[pa.RecordBatch]":
    schema = arrow_schema(columns)
    stored = {column.field: column.name for column in STYLES[ColumnStyle.ARNEB]}
    names = [stored[column.field] for column in columns]
    read = list(dict.fromkeys([*names, stored[Field.LEDGER_ID]]))
    scanner = table.dataset().scanner(columns=read, filter=wanted, batch_size=ROWS_MAX)
    for batch in scanner.to_batches():
        ledgers = batch.column(stored[Field.LEDGER_ID])
        chosen = list(filter(wants, ledgers.unique().to_pylist()))
        rows = batch.filter(pc.is_in(ledgers, pa.array(chosen, ledgers.type)))
        if rows.num_rows:
            kinds = zip(names, schema.types, strict=True)
            arrays = [rows.column(name).cast(kind) for name, kind in kinds]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _held(table: SealedTable, loss: Loss) -> Loss | None:
    """Return the part of the range that the table has, if it is of the same topic: the table may
    have been created too late for the first ledgers."""
    if loss.topic_id is None:
        return None
    log = LogId(loss.topic, loss.topic_id)
    through = table.through(log)
    if through is None or ledger_of(loss.last) > through:
        return None
    files = [file for file in table.files() if file.partition == log.partition]
    begin = position_at(files[0].first, 0) if files else loss.first
    is_complete = table.messages_ever(log) <= sum(file.rows for file in files)
    if begin <= loss.first or is_complete or ErasedKeys.of(table.target):
        return loss  # what is erased is missing on purpose
    return replace(loss, first=begin) if begin <= loss.last else None


def _published(from_ms: int | None, until_ms: int | None) -> Any:
    """Return the filter that chooses by a column what :func:`.published_between` chooses."""
    import pyarrow.dataset as ds

    time, wanted = ds.field("publish_time"), ds.scalar(True)
    if from_ms is not None and from_ms > 0:
        wanted = wanted & (time >= times_of_ms([min(from_ms, TIME_MS_MAX)])[0])
    if until_ms is not None and until_ms <= TIME_MS_MAX:
        wanted = wanted & (time.is_null() | (time < times_of_ms([max(until_ms, 1)])[0]))
    return wanted


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
