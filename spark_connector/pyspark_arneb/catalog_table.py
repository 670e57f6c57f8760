"""Tables in Spark's catalogue: how the source gets their options back.

The rule: Spark 4.3 passes the options of ``CREATE TABLE … USING arneb OPTIONS (…)`` to the source
when the table is created. When the table is read it passes only the schema. So the schema made for
a table carries the options in the metadata of its first column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructField, StructType

from pyspark_arneb.option_table import MADE_FOR_A_TABLE, OptionError

METADATA: Final = "arneb.options"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A schema, and the options that it may carry."""

    schema: StructType

    def with_options(self, given: Mapping[str, str]) -> StructType:
        """Return the schema; with the options in it if the catalogue gave them."""
        if MADE_FOR_A_TABLE not in given:
            return self.schema
        first, *others = self.schema.fields
        metadata = {**first.metadata, METADATA: dict(given)}
        return StructType([StructField(first.name, first.dataType, True, metadata), *others])

    def options(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """Return the options given, or if there are none, those from when the table was created.

        Raises :class:`.OptionError` if there are none of these either."""
        if given or not self.schema.fields:
            return given
        for field in self.schema.fields:
            if METADATA in field.metadata:
                kept: Mapping[str, str] = field.metadata[METADATA]
                return kept
        raise OptionError(
            "service.url",
            "Spark has given no options. A table of the catalogue keeps them only if it is created "
            'with USING and OPTIONS alone, without a list of columns (option "columns") and '
            "without AS SELECT (INSERT afterwards); a stream is not written with toTable but with "
            'format("arneb") and options',
        )
