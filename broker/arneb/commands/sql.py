"""``arneb sql``: runs SQL with topics as tables, for a quick look."""

import csv
import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from arneb.commands.lake_places import lake_target, log_location, refusing
from arneb.logs.visible import visible

if TYPE_CHECKING:
    from pyspark_arneb.lake.query import Answer

DATA_DIR: Final = "arneb-data"
"""Where ``arneb serve`` keeps the log by default."""

LAKE: Final = "ARNEB_LAKE"
LOG: Final = "ARNEB_LOG"

FORMATS: Final = ("table", "csv", "json")

ROWS_SHOWN_MAX: Final = 10_000
"""The most rows of a table: its widths depend on all rows, which are held in memory."""

WIDTH_WITHOUT_TERMINAL: Final = 10_000


@click.command(short_help="Query topics with SQL, in the log and the sealed tier.")
@click.argument("query", metavar="SELECT")
@click.option("--log", "log", metavar="DIR|URL",
              help=f"Data directory, or broker.  [default: ${LOG}, {DATA_DIR}]")  # fmt: skip
@click.option("--lake", metavar="TARGET",
              help=f"The target of `arneb offload`.  [default: ${LAKE}]")  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True,
              help="Output format.")  # fmt: skip
@click.option("--storage", multiple=True, metavar="KEY=VALUE",
              help="A setting of the object store.")  # fmt: skip
def sql(query: str, log: str | None, lake: str | None, form: str, storage: tuple[str, ...]) -> None:
    """Run SELECT in DuckDB with every topic as a table: its sealed files, and what only the log
    has, as of now. The broker may keep running.

    \b
    arneb sql "select decode(key), count(*) from orders group by all"
    """
    log = log or os.environ.get(LOG)
    lake = lake or os.environ.get(LAKE)
    if log is None and (lake is None or Path(DATA_DIR).is_dir()):
        log = DATA_DIR
    target = lake_target(lake, storage) if lake else None
    if target is None:
        lake_target(DATA_DIR)  # refuses if anything is not installed
    from pyspark_arneb.lake.query import LakeQuery
    from pyspark_arneb.log.topics import TopicSelection
    from pyspark_arneb.options import ReadOptions

    options = ReadOptions(log_location(log), TopicSelection()) if log else None
    with refusing(), LakeQuery(options, target) as asked:
        answer = asked.run(query)
        for warning in asked.warnings:
            click.echo(f"arneb: {visible(warning)}", err=True)
        _WRITERS[form](answer)


def _rows(answer: "Answer") -> Iterator[list[Any]]:
    for batch in answer.batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from (list(row) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    """Return a value for JSON: bytes as text, or else in hexadecimal, and times in ISO 8601, also
    inside mappings and lists."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "0x" + value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _as_text(value: Any) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    return json.dumps(plain) if isinstance(plain, dict | list) else str(plain)


def _write_table(answer: "Answer") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in answer.schema.names:
        table.add_column(visible(name))
    more = False
    for number, row in enumerate(_rows(answer)):
        more = number == ROWS_SHOWN_MAX
        if more:
            break
        table.add_row(*(visible(_as_text(value)) for value in row))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH_WITHOUT_TERMINAL
    console.print(table)
    if more:
        click.echo(f"arneb: only the first {ROWS_SHOWN_MAX:,} rows; see --format", err=True)


def _write_csv(answer: "Answer") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.schema.names)
    writer.writerows([_as_text(value) for value in row] for row in _rows(answer))


def _write_json(answer: "Answer") -> None:
    names = answer.schema.names
    for row in _rows(answer):
        click.echo(json.dumps(dict(zip(names, map(_plain, row), strict=True)), default=str))


_WRITERS: Final = {"table": _write_table, "csv": _write_csv, "json": _write_json}
