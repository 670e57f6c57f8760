"""Arneb's log as a Spark table: ``spark.read.format("arneb")``, and :func:`table`.

Spark finds the data source by itself, because the package's name begins with ``pyspark_``. It
imports the package in every session that uses any Python data source, and code without Spark
imports parts of the package; so nothing is imported before it is used. With a Spark that is too old
there is no data source: an error would keep Spark from finding those of others.
"""

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark_arneb.lake.spark_table import table
    from pyspark_arneb.source import DefaultSource

__all__ = ["DefaultSource", "table"]

SINCE_4_2: Final = "pyspark.sql.streaming.datasource"
"""A module that older versions do not have."""


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        try:
            from pyspark_arneb.source import DefaultSource
        except ModuleNotFoundError as error:
            if error.name != SINCE_4_2:
                raise
            reason = "the data source arneb needs PySpark 4.2 or newer"
            logging.getLogger(__name__).warning(reason)
            raise AttributeError(reason) from error
        return DefaultSource
    if name == "table":
        from pyspark_arneb.lake.spark_table import table

        return table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
