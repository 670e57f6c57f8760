"""SQL on topics without a cluster: DuckDB reads the sealed files, and the live tail from the log.

The rule: a query sees each topic as one view of one instant, as Spark's table does, and decodes
only what it needs: of the live tail only the columns in its plan.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from arneb_core.api.entries.position import ENTRY_MASK, ledger_of
from pyspark_arneb.decode.reading import read_batches
from pyspark_arneb.errors import DataLossError
from pyspark_arneb.lake.offload import COLUMNS
from pyspark_arneb.lake.sql_names import advice, quoted, topics_in
from pyspark_arneb.lake.view import Cut, View, sealed_rows, view_of
from pyspark_arneb.log.topics import short_name, without_partition
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.ranges import Loss
from pyspark_arneb.schema import Column, Field, arrow_schema
from pyspark_arneb.target import LakeError, Target, tables_in

if TYPE_CHECKING:
    from pyspark_arneb.log.block_source import BlockSource

CHEAPEST: Final = Field.ENTRY_ID
"""The field that is decoded to count the rows if no column is needed."""

NEEDED_TO_ERASE: Final = (Field.KEY, Field.PUBLISH_TIME)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query, to be read once."""

    schema: "pa.Schema"
    batches: "Iterator[pa.RecordBatch]"


class LakeQuery:
    """One connection of DuckDB, in which topics are tables."""

    def __init__(self, options: ReadOptions | None, lake: Target | None) -> None:
        """``options`` say where the log is; without them only the sealed part is visible, and
        without a lake only the log."""
        import duckdb

        self._options = options
        self._lake = lake
        # Otherwise DuckDB would treat Python variables as tables.
        self._connection = duckdb.connect(config={"python_enable_replacements": "false"})
        self._known: set[str] = set()
        self.warnings: list[str] = []
        """Problems with the topics of the queries."""

    def __repr__(self) -> str:
        return f"<LakeQuery of {self._lake}, {len(self.warnings)} warnings>"

    def run(self, sql: str) -> "Answer":
        """Return the result of ``sql``.

        Topics have their short names (``orders``; ``"tenant/namespace/topic"`` in quotes). Raises
        :class:`.LakeError`, whose text is one line; so does reading the result.
        """
        import duckdb

        if not sql.strip():
            raise LakeError("expected a query, got an empty text")
        topics = list(self._topics(sql))
        try:
            for topic in topics:
                self._connection.register(topic.live_name, arrow_schema(COLUMNS).empty_table())
                topic.sealed_into(self._connection)
                self._connection.execute(topic.definition())
            plan = self._connection.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()
            columns = _columns_of(json.loads(plan[-1][1]))
            for topic in topics:
                self._connection.unregister(topic.live_name)
                self._connection.register(topic.live_name, _Live(topic, columns))
            reader = self._connection.sql(sql).to_arrow_reader()
            return Answer(reader.schema, _read(reader))
        except (duckdb.Error, pa.ArrowException) as error:
            text = str(_one_line(error))
            more = advice(sql, text, self._known)
            raise LakeError(f"{text.rstrip('.!')}; {more}" if more else text) from error
        except (json.JSONDecodeError, IndexError) as error:
            raise LakeError(f"expected one query, got {sql!r}") from error

    def close(self) -> None:
        """Close DuckDB's connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _topics(self, sql: str) -> "Iterator[_TopicView]":
        """Yield the topics whose names occur in the query, and perhaps some more."""
        options = self._options
        source = None if options is None else options.location.open()
        logs: dict[str, list[str]] = {}
        for name in () if source is None else source.topics():
            logs.setdefault(without_partition(name), []).append(name)
        sealed = () if self._lake is None else tables_in(self._lake)
        if self._lake is not None and not sealed:
            self.warnings.append(f"nothing is sealed in {self._lake}")
        self._known = {*logs, *sealed}
        for topic in topics_in(sql, self._known):
            names = sorted(logs.get(topic, ()))
            view = view_of(topic, source if names else None, names, self._lake)
            if view.missing:
                self.warnings.append(
                    f"{view.missing:,} messages of {short_name(topic)} were removed before "
                    "they were sealed"
                )
            yield _TopicView(topic, view, source, self._lake, options)


@dataclass(frozen=True, slots=True)
class _TopicView:
    """A topic as a view of DuckDB."""

    topic: str
    view: View
    source: "BlockSource | None"
    lake: Target | None
    options: ReadOptions | None

    @property
    def live_name(self) -> str:
        return f"live of {self.topic}"

    @property
    def sealed_name(self) -> str:
        return f"sealed of {self.topic}"

    def sealed_into(self, connection: Any) -> None:
        """Register the sealed files with the connection: by DuckDB's own reader of Parquet where it
        can open them, else by pyarrow's."""
        table = self.view.table
        if table is None or not self.view.files:
            return
        place = table.target.directory
        if place is None:
            connection.register(self.sealed_name, table.dataset())
            return
        paths = ", ".join(_text(f"{place}/{path}") for path in self.view.files)
        connection.execute(
            f"CREATE VIEW {quoted(self.sealed_name)} AS "
            f"SELECT * FROM read_parquet([{paths}], union_by_name = true)"
        )

    def definition(self) -> str:
        """The statement that makes the view."""
        columns = ", ".join(quoted(column.name) for column in COLUMNS)
        parts = [f"SELECT {columns} FROM {quoted(self.live_name)}"]
        if self.view.files:
            kept = " AND ".join(map(_before, self.view.cuts)) or "true"
            parts.append(f"SELECT {columns} FROM {quoted(self.sealed_name)} WHERE {kept}")
        return f"CREATE VIEW {quoted(short_name(self.topic))} AS {' UNION ALL '.join(parts)}"

    def live_rows(self, columns: Sequence[Column]) -> Iterator["pa.RecordBatch"]:
        """Yield what only the log has; what it removes meanwhile is read from the sealed files."""
        if self.source is None or self.options is None:
            return
        for span in self.view.spans:
            rows = read_batches(self.source, span, columns, self.options, self._sealed(columns))
            for batch in rows:
                yield self.view.erased.kept(batch)

    def _sealed(
        self, columns: Sequence[Column]
    ) -> "Callable[[Loss], Iterator[pa.RecordBatch]] | None":
        """Return the reader of rows that are no longer in the log."""
        lake = self.lake
        if lake is None:
            return None

        def instead(loss: Loss) -> Iterator[pa.RecordBatch]:
            return sealed_rows(lake, loss, columns, _lose)

        return instead


class _Live:
    """The live tail, which DuckDB may scan repeatedly."""

    def __init__(self, topic: _TopicView, names: Collection[str]) -> None:
        self._topic = topic
        erasing = NEEDED_TO_ERASE if topic.view.erased else ()
        self._columns = [
            column
            for column in COLUMNS
            if column.name in names or column.field in (CHEAPEST, *erasing)
        ]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = map(_whole, self._topic.live_rows(self._columns))
        reader = pa.RecordBatchReader.from_batches(arrow_schema(COLUMNS), batches)
        return reader.__arrow_c_stream__(requested_schema)


def _lose(loss: Loss) -> None:
    raise DataLossError(loss)


def _read(reader: "pa.RecordBatchReader") -> "Iterator[pa.RecordBatch]":
    import duckdb

    try:
        yield from reader
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _one_line(error) from error


def _one_line(error: Exception) -> LakeError:
    """Return DuckDB's error without its drawing of the place, and without its suggestions, which
    name its own tables."""
    return LakeError(" ".join(re.split(r"LINE \d+:|Did you mean", str(error))[0].split()))


def _whole(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return the batch with all columns, of which those not requested are null."""
    names = batch.schema.names
    return pa.RecordBatch.from_arrays(
        [
            batch.column(each.name) if each.name in names else pa.nulls(len(batch), each.type)
            for each in arrow_schema(COLUMNS)
        ],
        schema=arrow_schema(COLUMNS),
    )


def _columns_of(plan: Any) -> set[str]:
    """Return the columns that Arrow scans in DuckDB's plan name."""
    found: set[str] = set()
    for node in plan if isinstance(plan, list) else [plan]:
        if "ARROW_SCAN" in node.get("name", ""):
            projections = node.get("extra_info", {}).get("Projections", [])
            found.update([projections] if isinstance(projections, str) else projections)
        found |= _columns_of(node.get("children", []))
    return found


def _before(cut: Cut) -> str:
    ledger, entry = ledger_of(cut.end), cut.end & ENTRY_MASK
    return (
        f"(partition <> {cut.partition} OR ledger_id < {ledger} "
        f"OR (ledger_id = {ledger} AND entry_id < {entry}))"
    )


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
