"""The data source that Spark finds under the name ``arneb``."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from pyspark_arneb.batch import BatchReader, Plan, PushdownReader, plan_read
from pyspark_arneb.options import SnapshotTime, read_options
from pyspark_arneb.schema import columns_in, columns_of, spark_schema


class DefaultSource(DataSource):
    """An Arneb data directory as a table: one row a message, whichever protocol brought it.

    ======================= ================ ==================================================
    option                  default          meaning
    ======================= ================ ==================================================
    path                    required         the broker's data directory; also ``load(path)``
    topic                   one of the three one topic: ``orders`` (of ``public/default``),
                                             ``tenant/namespace/topic`` or the full name; a
                                             partitioned topic's name means its partitions
    topics, subscribe       one of the three several, separated by commas
    topicsPattern,          one of the three a regular expression that the whole name matches,
    subscribePattern                         in any of these forms
    startingOffsets         earliest         first entry read: earliest, latest, or JSON
                                             ``{"orders": "12:400"}`` (ledger:entry); topics not
                                             named there start at the earliest
    endingOffsets           latest           first entry not read: latest or JSON
    startingTime,           none             publish time from which on entries are read: ms
    startingTimestamp                        since the epoch or ISO 8601; wins over offsets
    endingTime,             none             publish time at which reading ends, exclusive
    endingTimestamp
    minPartitions           cores            hint: at least so many partitions
    maxRecordsPerPartition  none             hint: at most so many messages in one
    failOnDataLoss          true             retention overtook the read: fail, or skip and log
    includeProperties,      false; pulsar    add the column of properties or headers, the
    includeHeaders          style: true      dearest to decode
    columns                 all              names separated by commas: read only these.
                                             ``.schema("topic string, value binary")`` as well
    columnStyle             arneb            arneb, kafka or pulsar: whose column names to use
    pushdown                false            take filters on topic, partition and ledger; needs
                                             ``spark.sql.python.filterPushdown.enabled``
    snapshot                query            when the rows are fixed: by Spark's planning, which
                                             is at the DataFrame's first query; or load: at once
    ======================= ================ ==================================================

    Settings that begin with ``kafka.`` or ``pulsar.`` are ignored. The columns are described
    in docs/internals/spark.md.

    Examples
    --------
    >>> orders = spark.read.format("arneb").option("path", "arneb-data").option("topic", "orders")

    Count a topic; naming one column spares decoding the others:

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
        self._read_options = read_options(options)
        self._plan: Plan | None = None
        if self._read_options.snapshot is SnapshotTime.LOAD:
            self._plan = plan_read(self._read_options)

    @classmethod
    def name(cls) -> str:
        return "arneb"

    def schema(self) -> StructType:
        return spark_schema(columns_of(self._read_options))

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = columns_in(schema, self._read_options.style)
        kind = PushdownReader if self._read_options.pushdown else BatchReader
        return kind(self._read_options, columns, self._plan)
