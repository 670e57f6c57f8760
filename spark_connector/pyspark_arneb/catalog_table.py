"""Tables in Spark's catalogue: how their options come back.

The rule: Spark 4.3 hands the options of ``CREATE TABLE … USING arneb OPTIONS (…)`` to the source
when the table is made, and none when it is read, but always the schema. So the schema that is made
for a table has the options with it, in the metadata of its first column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructField, StructType

METADATA: Final = "arneb.options"

MADE_FOR_A_TABLE: Final = "provider"
"""Is among the options when Spark's catalogue asks."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A schema, and the options that it may have with it."""

    schema: StructType

    def with_options(self, given: Mapping[str, str]) -> StructType:
        """The schema for whoever gave these options."""
        if MADE_FOR_A_TABLE not in given:
            return self.schema
        first, *others = self.schema.fields
        metadata = {**first.metadata, METADATA: dict(given)}
        return StructType([StructField(first.name, first.dataType, True, metadata), *others])

    def options(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """What was given, or if that is nothing, when the table was made."""
        if given or not self.schema.fields:
            return given
        for field in self.schema.fields:
            if METADATA in field.metadata:
                kept: Mapping[str, str] = field.metadata[METADATA]
                return kept
        return given
