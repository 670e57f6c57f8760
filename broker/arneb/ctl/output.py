"""Output: writes a command's results in the requested format.

The rule: banners and results go to standard output, errors to standard error; the formats for
programs (JSON, CSV) have no banner.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from arneb.ctl.terms import as_erlang, in_json, in_table

FORMATTERS: Final = ("table", "pretty_table", "json", "csv", "erlang", "report")
FOR_PROGRAMS: Final = frozenset({"json", "csv"})

Write = Callable[[str], None]
"""Writes one or more lines."""

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Manner:
    """The requested form of the output."""

    formatter: str = ""
    quiet: bool = False
    silent: bool = False
    headers: bool = True

    @property
    def has_banner(self) -> bool:
        """Whether a banner says what is being done."""
        return not (self.quiet or self.silent or self.formatter in FOR_PROGRAMS)

    @property
    def has_headers(self) -> bool:
        """Whether tables begin with the names of their columns."""
        return self.headers and not self.silent


class Output:
    """The output of one command."""

    def __init__(self, write: Write, manner: Manner) -> None:
        self._write = write
        self.manner = manner

    def __repr__(self) -> str:
        return f"<Output {self.manner!r}>"

    def banner(self, text: str) -> None:
        """Write what is being done, unless the output is for programs or to be quiet."""
        if self.manner.has_banner:
            self._write(text)

    def text(self, text: str) -> None:
        """Write a result that is a sentence."""
        if self.manner.formatter == "json":
            self._write(json.dumps({"result": "ok", "message": text}, ensure_ascii=False))
        else:
            self._write(text)

    def value(self, value: Any, text: str) -> None:
        """Write a result that is one value: as JSON if that was requested, else as text."""
        self._write(_dump(value) if self.manner.formatter == "json" else text)

    def rows(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Write a result that is a table."""
        match self.manner.formatter:
            case "json":
                self._json(columns, rows)
            case "csv":
                self._csv(columns, rows)
            case "erlang":
                terms = (_proplist(columns, row) for row in rows)
                self._write("[" + ",\n ".join(terms) + "]")
            case "pretty_table":
                self._pretty(columns, rows)
            case _:
                self._table(columns, rows)

    def _table(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if rows and self.manner.has_headers:
            self._write("\t".join(columns))
        for row in rows:
            self._write("\t".join(map(in_table, row)))

    def _json(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if not rows:
            self._write("[]")
            return
        self._write("[")
        for number, row in enumerate(rows):
            found = dict(zip(columns, map(in_json, row), strict=True))
            self._write(f"{',' if number else ''}{_dump(found)}")
        self._write("]")

    def _csv(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if rows:
            self._write(_csv_line(columns))
        for row in rows:
            self._write(_csv_line([in_table(each) for each in row]))

    def _pretty(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if not rows:
            return
        texts = [[in_table(each).expandtabs() for each in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]

        def border(left: str, middle: str, right: str) -> str:
            return left + middle.join("─" * (width + 2) for width in widths) + right

        def line(cells: Sequence[str]) -> str:
            padded = (f" {cell.ljust(width)} " for cell, width in zip(cells, widths, strict=True))
            return "│" + "│".join(padded) + "│"

        body = f"\n{border('├', '┼', '┤')}\n".join(map(line, [columns, *texts]))
        self._write(f"{border('┌', '┬', '┐')}\n{body}\n{border('└', '┴', '┘')}")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _csv_line(cells: Sequence[str]) -> str:
    return ",".join('"' + each.replace('"', '""') + '"' for each in cells)


def _proplist(columns: Sequence[str], row: Row) -> str:
    return (
        "[" + ",".join(f"{{{n},{as_erlang(v)}}}" for n, v in zip(columns, row, strict=True)) + "]"
    )
