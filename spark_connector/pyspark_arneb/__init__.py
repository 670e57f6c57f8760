"""Arneb's log as a Spark table: ``spark.read.format("arneb")``, and :func:`table`.

Spark finds the data source by itself, because the package's name begins with ``pyspark_``. It
imports the package in every session that uses any Python data source, and code without Spark
imports parts of the package; so nothing is imported before it is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_arneb.lake.spark_table import table
    from pyspark_arneb.source import DefaultSource

__all__ = ["DefaultSource", "table"]


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        from pyspark_arneb.source import DefaultSource

        return DefaultSource
    if name == "table":
        from pyspark_arneb.lake.spark_table import table

        return table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
