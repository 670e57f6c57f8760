"""The tables of docs/guide/spark.md, written from the connector's own.

The rule: an option and a column are described once, where they are defined. ``python
docs/spark_page.py`` writes the tables between their marks; ``--check`` fails if they are not what
would be written, and so does a test.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark_arneb.option_table import Option
from pyspark_arneb.options import READ_OPTIONS, ColumnStyle
from pyspark_arneb.schema import STYLES, Column, spark_schema
from pyspark_arneb.sink.options import SINK_OPTIONS
from pyspark_arneb.stream.options import STREAM_OPTIONS

PAGE: Final = Path(__file__).parent / "guide" / "spark.md"


def columns_table() -> str:
    """The columns of our own style, and what they are called in the others."""
    others = {
        style: {column.field: column.name for column in STYLES[style]}
        for style in (ColumnStyle.KAFKA, ColumnStyle.PULSAR)
    }
    rows = [
        f"| `{column.name}` | {type_name(column)} | {column.meaning} | "
        + " | ".join(_code(names.get(column.field)) for names in others.values())
        + " |"
        for column in STYLES[ColumnStyle.ARNEB]
    ]
    return "\n".join(["| column | type | | `kafka` | `pulsar` |", "|---|---|---|---|---|", *rows])


def type_name(column: Column) -> str:
    """A column's type, as Spark writes it."""
    name: str = spark_schema([column]).fields[0].dataType.simpleString()
    return name.replace(",", ", ").replace("bigint", "long")


def _code(name: str | None) -> str:
    return f"`{name}`" if name else ""


def options_table(options: Sequence[Option]) -> str:
    """Options, with what holds when they are not given."""
    rows = [
        f"| {', '.join(map(_code, (each.name, *each.aliases)))} | {each.default} | {each.meaning} |"
        for each in options
    ]
    return "\n".join(["| option | default | |", "|---|---|---|", *rows])


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "options": lambda: options_table(READ_OPTIONS),
    "stream options": lambda: options_table(STREAM_OPTIONS),
    "sink options": lambda: options_table(
        [each for each in SINK_OPTIONS if each not in READ_OPTIONS]
    ),
    "columns": columns_table,
}


def page() -> str:
    """The page, with its tables as they should be."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        marks = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text, count = marks.subn(lambda mark, table=table: f"{mark[1]}{table()}\n{mark[2]}", text)  # type: ignore[misc]
        assert count == 1, f"expected the marks of {name} once in {PAGE.name}, found {count}"
    return text


def main() -> None:
    """Write the tables, or compare them."""
    found = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != found:
            sys.exit(f"{PAGE} is not what the code says: run python docs/spark_page.py")
        return
    PAGE.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
