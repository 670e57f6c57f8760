"""Arneb's log as a Spark table: ``spark.read.format("arneb")``.

Spark finds the class by itself, because the package's name begins with ``pyspark_``. It also
imports the package in every session that uses any Python data source, so importing it needs
nothing but pyspark and the core's plain values.
"""

from pyspark_arneb.source import DefaultSource

__all__ = ["DefaultSource"]
