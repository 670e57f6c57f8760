"""The data source that Spark finds under the name ``arneb``."""

from collections.abc import MutableMapping
from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_arneb.batch import BatchReader, PushdownReader
from pyspark_arneb.catalog_table import TableSchema
from pyspark_arneb.options import SnapshotTime, read_options
from pyspark_arneb.plan.planning import Plan, plan_read
from pyspark_arneb.resolving import resolved
from pyspark_arneb.schema import columns_in, columns_of, spark_schema, style_of
from pyspark_arneb.sink.columns import RowEncoder
from pyspark_arneb.sink.options import Delivery, for_writing, sink_options
from pyspark_arneb.sink.writers import (
    BatchWriter,
    DirectStreamWriter,
    DirectWriter,
    Publish,
    StreamWriter,
)
from pyspark_arneb.stream.options import any_read_options, batch_options, stream_options
from pyspark_arneb.stream.reader import StreamReader


class DefaultSource(DataSource):
    """An Arneb data directory as a table: one row a message, whichever protocol brought it.

    The options of a read and the columns are listed in docs/guide/spark.md, from
    :data:`pyspark_arneb.options.READ_OPTIONS` and :data:`pyspark_arneb.schema.STYLES`.

    Those of a streaming read are also in :data:`pyspark_arneb.stream.options.STREAM_OPTIONS`, those
    of a write in :data:`pyspark_arneb.sink.options.SINK_OPTIONS`.

    Settings of Kafka's and Pulsar's clients (``kafka.``, ``pulsar.``) are ignored.

    Examples
    --------
    >>> orders = spark.read.format("arneb").option("path", "arneb-data").option("topic", "orders")

    Count a topic; naming one column avoids decoding the others:

    >>> orders.option("columns", "entry_id").load().count()
    10000

    Amounts by day, from JSON bodies:

    >>> from pyspark.sql.functions import col, get_json_object, sum, to_date
    >>> amount = get_json_object(col("value").cast("string"), "$.amount").cast("decimal(12,2)")
    >>> orders.load().groupBy(to_date("publish_time")).agg(sum(amount)).show()

    In SQL:

    >>> spark.sql(
    ...     "CREATE TEMPORARY VIEW orders USING arneb "
    ...     "OPTIONS (path 'arneb-data', topic 'orders')"
    ... )
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)
        self._plan: Plan | None = None
        if "snapshot" in options:
            read = read_options(options)
            self._plan = plan_read(read) if read.snapshot is SnapshotTime.LOAD else None

    @classmethod
    def name(cls) -> str:
        return "arneb"

    def schema(self) -> StructType:
        options = resolved(any_read_options(self._given))
        return TableSchema(spark_schema(columns_of(options))).with_options(self._given)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = resolved(batch_options(TableSchema(schema).options(self._given)))
        columns = columns_in(schema, style_of(options))
        kind = PushdownReader if options.pushdown else BatchReader
        return kind(options, columns, self._plan)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        # For an INSERT Spark passes the table's schema, and none of its options.
        given = self._given or for_writing(TableSchema(schema).options({}))
        options = sink_options(given, overwrite=overwrite)
        encoder = RowEncoder(schema, options.target)
        if options.delivery is Delivery.AT_LEAST_ONCE:
            return DirectWriter(Publish(options, encoder))
        return BatchWriter(options, encoder)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        given = TableSchema(schema).options(self._given)
        options = sink_options(given, overwrite=overwrite, is_stream=True)
        encoder = RowEncoder(schema, options.target)
        if options.delivery is Delivery.AT_LEAST_ONCE:
            return DirectStreamWriter(Publish(options, encoder))
        return StreamWriter(options, encoder)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = stream_options(TableSchema(schema).options(self._given))
        options = replace(options, read=resolved(options.read))
        return StreamReader(options, columns_in(schema, style_of(options.read)))
