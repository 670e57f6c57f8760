"""The data source inside Spark: found, planned, read, and consistent while a broker writes."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from log_generator import START_MS, LogWriter, amqp_entry, moment, pulsar_entry
from log_writer import COMMIT_ENTRIES, LEDGER_ENTRIES, WriterProcess
from pamqp.commands import Basic

from arneb_core.api.entries.codec import Message
from arneb_core.store.checking.check import check
from arneb_pulsar.codec import encode_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


AMQP = [
    amqp_entry(
        b'{"amount": %d}' % n,
        routing_key=b"order.new",
        properties=Basic.Properties(headers={"n": n}, delivery_mode=2),
        publish_time_ms=START_MS + n,
    )
    for n in range(3)
]
PULSAR = pulsar_entry(
    encode_messages(
        [
            Message(
                b'{"amount": %d}' % n,
                key=b"k",
                properties={"n": str(n)},
                event_time_ms=START_MS + n,
                publish_time_ms=START_MS + 9,
                producer_name="shop",
                sequence_id=n,
            )
            for n in (3, 4)
        ]
    ),
    messages=2,
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Topic ``orders``: three messages of AMQP and a batch of two of Pulsar, in two ledgers."""
    log = tmp_path_factory.mktemp("mixed") / "log"
    with LogWriter(log) as writer:
        writer.create("orders")
        writer.append("orders", AMQP)
        writer.roll("orders")
        writer.append("orders", [PULSAR])
        writer.create("empty")
    yield log
    assert check(log) == []


def table(spark: "SparkSession", log: Path, **options: object) -> "DataFrame":
    return reader(spark, log, **options).load()


def reader(spark: "SparkSession", log: Path, **options: object) -> "DataFrameReader":
    found = spark.read.format("arneb").option("path", str(log))
    for name, value in options.items():
        found = found.option(name, str(value))
    return found


def test_spark_finds_the_source_and_reads_both_protocols(
    spark: "SparkSession", mixed: Path
) -> None:
    """Nothing is registered: the package's name is enough."""
    frame = table(spark, mixed, topic="orders", includeProperties=True)
    assert frame.columns == [
        "topic", "partition", "ledger_id", "entry_id", "batch_index", "message_id", "key",
        "value", "publish_time", "event_time", "producer_name", "sequence_id", "flags",
        "exchange", "ordering_key", "deliver_at", "expires_at", "schema_version",
        "dead_letter_reason", "first_death_reason", "first_death_queue", "first_death_exchange",
        "properties",
    ]  # fmt: skip
    rows = sorted(frame.collect(), key=lambda row: (row.ledger_id, row.entry_id, row.batch_index))
    places = [(row.ledger_id, row.entry_id, row.batch_index) for row in rows]
    assert places == [(1, 0, -1), (1, 1, -1), (1, 2, -1), (2, 0, 0), (2, 0, 1)]
    assert [bytes(row["value"]) for row in rows] == [b'{"amount": %d}' % n for n in range(5)]
    assert [bytes(row["key"]) for row in rows] == [b"order.new"] * 3 + [b"k"] * 2
    assert [row.properties["n"] for row in rows] == list("01234")
    assert [row.producer_name for row in rows] == [None] * 3 + ["shop"] * 2
    assert [row.publish_time.timestamp() for row in rows] == [
        moment(START_MS + n).timestamp() for n in (0, 1, 2, 9, 9)
    ]
    assert rows[4].event_time.timestamp() == moment(START_MS + 4).timestamp()


def test_spark_sql_reads_it_as_a_view(spark: "SparkSession", mixed: Path) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING arneb "
        f"OPTIONS (path '{mixed}', topic 'orders', columns 'topic,value')"
    )
    (row,) = spark.sql(
        "SELECT count(*), sum(get_json_object(cast(value AS string), '$.amount')) FROM orders "
        "WHERE topic = 'persistent://public/default/orders'"
    ).collect()
    assert tuple(row) == (5, 10.0)


def test_a_narrow_schema_reads_only_its_columns(spark: "SparkSession", mixed: Path) -> None:
    narrow = reader(spark, mixed, topic="orders").schema("entry_id long, topic string")
    frame = narrow.load()
    assert frame.columns == ["entry_id", "topic"]
    assert sorted(row.entry_id for row in frame.collect()) == [0, 0, 0, 1, 2]
    assert table(spark, mixed, topic="empty").count() == 0


def test_jobs_written_for_kafka_and_pulsar_find_their_columns(
    spark: "SparkSession", mixed: Path
) -> None:
    kafka = table(
        spark, mixed, subscribe="orders", columnStyle="kafka", includeHeaders=True,
        startingOffsets="earliest",
    )  # fmt: skip
    last = kafka.selectExpr("cast(value AS string)", "topic", "offset", "headers[0].value AS n")
    assert tuple(max(last.collect(), key=lambda row: row.offset)) == (
        '{"amount": 4}',
        "orders",
        (2 << 36) + 1,
        b"4",
    )
    pulsar = table(spark, mixed, topic="orders", columnStyle="pulsar")
    names = pulsar.select("__messageProperties.n").collect()
    assert sorted(row.n for row in names) == list("01234")


def test_filters_are_pushed_down_on_request(spark: "SparkSession", mixed: Path) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    chosen = table(spark, mixed, topic="orders", pushdown=True).where("ledger_id = 2")
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        chosen.count()
    spark.conf.set(setting, "true")
    try:
        chosen = table(spark, mixed, topic="orders", pushdown=True).where("ledger_id = 2")
        assert chosen.count() == 2
        assert chosen.rdd.getNumPartitions() == 1
        plan = chosen._jdf.queryExecution().toString()
        assert ") Filter" not in plan.split("== Physical Plan ==")[1]
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize("pushdown", [False, True])
def test_a_time_beyond_what_python_has_gives_no_wrong_rows(
    spark: "SparkSession", mixed: Path, pushdown: bool
) -> None:
    """PySpark 4.3 refuses it where filters are pushed down, before the source is asked."""
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, str(pushdown).lower())
    try:
        for where, rows in (
            ("publish_time < timestamp'+12000-01-01'", 5),
            ("publish_time > timestamp'-0100-01-01'", 5),
            ("publish_time >= timestamp'+12000-01-01'", 0),
            ("publish_time <= timestamp'9999-12-31 23:59:59.999999'", 5),
        ):
            found = table(spark, mixed, topic="orders", pushdown=pushdown).where(where)
            try:
                assert found.count() == rows, where
            except Exception as refusal:
                assert pushdown and "OverflowError: date value out of range" in str(refusal)
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topic": "a/b"}, 'option "topic": expected topic'),
        ({"topic": "orders", "startingOfsets": "x"}, 'did you mean "startingOffsets"'),
        ({"topic": "nothing"}, "no topic persistent://public/default/nothing; there are"),
        ({"topic": "orders", "columns": "body"}, "no column 'body'; there are topic"),
    ],
)
def test_refusals_reach_the_user_with_their_reason(
    spark: "SparkSession", mixed: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(Exception, match=reason):
        table(spark, mixed, **options).count()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[..., WriterProcess]]:
    """Starts a process that writes topics; the store is checked when it has ended."""
    log = tmp_path / "log"

    def start(*topics: str) -> WriterProcess:
        return WriterProcess(log, topics)

    yield start
    assert check(log) == []


def number_of(ledger: int, entry: int) -> int:
    return (ledger - 1) * LEDGER_ENTRIES + entry


def test_every_query_sees_whole_commits_of_all_topics_while_they_are_written(
    spark: "SparkSession", tmp_path: Path, writing: Callable[..., WriterProcess]
) -> None:
    """Each commit writes both topics, so in one snapshot both have the same entries."""
    frame = None
    seen = 0
    with writing("a", "b") as writer:
        writer.tell("append", "a,b", COMMIT_ENTRIES)
        writer.tell("stream", "a,b", 0)
        for _ in range(3):
            frame = table(
                spark, tmp_path / "log", topics="a,b", columns="topic,entry_id", minPartitions=3
            )
            counts = Counter(row.topic for row in frame.collect())
            (count,) = set(counts.values())
            assert len(counts) == 2
            assert count % COMMIT_ENTRIES == 0
            assert count > seen
            seen = count
        total = int(writer.tell("roll", "a,b").split()[1])
    assert seen < total
    assert frame is not None
    assert frame.count() == 2 * seen, "a DataFrame keeps the snapshot of its first query"
    assert table(spark, tmp_path / "log", topics="a,b").count() == 2 * total


def test_a_log_that_is_trimmed_while_it_is_read_gives_only_true_rows(
    spark: "SparkSession", tmp_path: Path, writing: Callable[..., WriterProcess]
) -> None:
    with writing("a") as writer:
        writer.tell("stream", "a", 3)
        for _ in range(3):
            frame = table(spark, tmp_path / "log", topic="a", failOnDataLoss=False)
            rows = frame.select("ledger_id", "entry_id", "value").collect()
            places = [(row.ledger_id, row.entry_id) for row in rows]
            assert len(set(places)) == len(places)
            for row in rows:
                assert int(row["value"]) == number_of(row.ledger_id, row.entry_id)
        writer.tell("append", "a", 1)


def test_a_snapshot_of_load_is_kept_by_all_queries_and_its_loss_is_noticed(
    spark: "SparkSession", tmp_path: Path, writing: Callable[..., WriterProcess]
) -> None:
    log = tmp_path / "log"
    with writing("a") as writer:
        writer.tell("append", "a", 600)
        writer.tell("roll", "a")
        writer.tell("append", "a", 400)
        strict = table(spark, log, topic="a", snapshot="load")
        lenient = table(spark, log, topic="a", snapshot="load", failOnDataLoss=False)
        writer.tell("append", "a", 7)
        assert strict.count() == 1000
        assert table(spark, log, topic="a").count() == 1007
        assert strict.alias("x").join(strict.alias("y"), "message_id").count() == 1000
        writer.tell("trim", "a", 1)
        with pytest.raises(Exception, match=r"data loss: .*/a from 1:0 to before 1:600 "):
            strict.count()
        assert lenient.count() == 400
        assert table(spark, log, topic="a").count() == 407
