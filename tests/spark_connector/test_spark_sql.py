"""The table in Spark's SQL: tables, views, paths, nulls, typed values, queues by their names."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from log_generator import START_MS, LogWriter, amqp_entry, pulsar_entry

from arneb_core.api.entries.codec import Message
from arneb_core.store.checking.check import check
from arneb_pulsar.codec import encode_messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Queue ``a/b%c`` of vhost ``shop`` with JSON, and a compacted topic ``keyed`` with a null."""
    path = tmp_path_factory.mktemp("sql") / "log"
    with LogWriter(path) as writer:
        writer.create("persistent://public/shop/a%2Fb%25c")
        bodies = [amqp_entry(b'{"n": %d}' % n, publish_time_ms=START_MS + n) for n in range(4)]
        writer.append("persistent://public/shop/a%2Fb%25c", bodies)
        writer.create("keyed")
        tombstone = Message(b"", key=b"k", publish_time_ms=START_MS, is_null=True)
        empty = Message(b"", key=b"k", publish_time_ms=START_MS)
        for message in (tombstone, empty):
            writer.append("keyed", [pulsar_entry(encode_messages([message]))])
    yield path
    assert check(path) == []


@pytest.mark.parametrize("what", ["TABLE", "TEMPORARY VIEW"])
@pytest.mark.parametrize("form", ["{path}", "file:{path}"])
def test_a_table_and_a_view_have_the_rows_of_their_options(
    spark: "SparkSession", log: Path, what: str, form: str
) -> None:
    text = form.format(path=log)
    spark.sql(f"CREATE {what} keyed USING arneb OPTIONS (path '{text}', topic 'keyed')")
    try:
        rows = spark.sql("SELECT entry_id, value IS NULL AS gone FROM keyed ORDER BY 1").collect()
        assert [tuple(row) for row in rows] == [(0, True), (1, False)]
    finally:
        spark.sql(f"DROP {what.removeprefix('TEMPORARY ')} keyed")


def test_a_view_of_the_catalogue_is_one_of_a_table(spark: "SparkSession", log: Path) -> None:
    """Spark's own rule: only a temporary view has ``USING``."""
    spark.sql(f"CREATE TABLE kept USING arneb OPTIONS (path '{log}', topic 'keyed')")
    spark.sql("CREATE VIEW first_of_it AS SELECT entry_id FROM kept WHERE entry_id = 0")
    try:
        assert [row.entry_id for row in spark.table("first_of_it").collect()] == [0]
        (found,) = [each for each in spark.catalog.listTables() if each.name == "first_of_it"]
        assert (found.tableType, found.isTemporary) == ("VIEW", False)
        with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
            spark.sql(f"CREATE VIEW v USING arneb OPTIONS (path '{log}', topic 'keyed')")
    finally:
        spark.sql("DROP VIEW first_of_it")
        spark.sql("DROP TABLE kept")


def test_a_table_may_have_properties_and_a_comment(spark: "SparkSession", log: Path) -> None:
    """Spark hands a source the properties together with the options."""
    spark.sql(
        f"CREATE TABLE noted USING arneb OPTIONS (path '{log}', topic 'keyed', COLUMNS 'entry_id') "
        "COMMENT 'by key' TBLPROPERTIES ('Team' = 'shop', 'column' = 'none', 'x.y' = '1')"
    )
    try:
        assert spark.table("noted").columns == ["entry_id"]
        assert spark.table("noted").count() == 2
        assert spark.sql("DESCRIBE noted").head()[:2] == ("entry_id", "bigint")
        assert [row.tableName for row in spark.sql("SHOW TABLES LIKE 'noted'").collect()] == [
            "noted"
        ]
    finally:
        spark.sql("DROP TABLE noted")
    with pytest.raises(Exception, match='no such option; did you mean "columns"'):
        spark.sql(
            f"CREATE TABLE n USING arneb OPTIONS (path '{log}', topic 'keyed', column 'entry_id') "
            "TBLPROPERTIES ('Team' = 'shop')"
        )


def test_a_table_without_its_options_says_how_they_are_kept(
    spark: "SparkSession", log: Path
) -> None:
    """Spark drops the options of a table that is created with a list of columns."""
    spark.sql(
        f"CREATE TABLE listed (entry_id BIGINT) USING arneb OPTIONS (path '{log}', topic 'keyed')"
    )
    try:
        with pytest.raises(Exception, match="without a list of columns"):
            spark.table("listed").count()
    finally:
        spark.sql("DROP TABLE listed")
    with pytest.raises(Exception, match="without AS SELECT .INSERT afterwards"):
        spark.sql(
            "CREATE TABLE selected USING arneb OPTIONS ('service.url' 'http://h:1', topic 't') "
            "AS SELECT X'76' AS value"
        )


def test_a_path_at_home_is_found(spark: "SparkSession", log: Path) -> None:
    home = os.path.relpath(log, Path.home())
    assert spark.read.format("arneb").load(f"~/{home}", topic="keyed").count() == 2
    spark.sql(
        "CREATE TEMPORARY VIEW at_home USING arneb "
        f"OPTIONS (path '~/{home}', topic 'keyed', COLUMNS 'Entry_Id,VALUE')"
    )
    assert spark.table("at_home").columns == ["entry_id", "value"]
    assert spark.sql("SELECT count(*) FROM at_home").head()[0] == 2


def test_a_queue_is_read_by_its_own_name_and_its_json_by_its_fields(
    spark: "SparkSession", log: Path
) -> None:
    frame = spark.read.format("arneb").load(
        str(log), queue="a/b%c", vhost="shop", valueAs="json", valueSchema="n int"
    )
    assert frame.selectExpr("sum(value.n)").head()[0] == 6


def test_filters_on_rows_leave_out_what_spark_would_leave_out(
    spark: "SparkSession", log: Path
) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        later = "publish_time > timestamp '2026-01-01 00:00:00.002'"
        for condition, expected in {
            "entry_id >= 1 AND entry_id < 3": [1, 2],
            "key = X'6f7264657273'": [0, 1, 2, 3],
            "key = X'00'": [],
            later: [3],
            f"{later} OR entry_id = 0": [0, 3],
        }.items():
            # A new table each time: Spark keeps the filters of a table's query for those after it.
            frame = spark.read.format("arneb").load(
                str(log), queue="a/b%c", vhost="shop", pushdown="true"
            )
            rows = frame.where(condition).select("entry_id").collect()
            assert sorted(row.entry_id for row in rows) == expected, condition
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": "hdfs://nn/data", "topic": "keyed"}, 'option "path": expected .* service.url'),
        ({"topic": "keyd"}, "no topic persistent://public/default/keyd; did you mean keyed[?]"),
        ({"topic": "keyed", "startingOffsets": '{"keyed": "5:0"}'}, "its log ends at 1:2"),
        ({"topic": "keyed", "startingOffsets": '{"keyed": "1:0@9"}'}, "with the id 9, is gone"),
    ],
)
def test_a_refusal_says_in_one_line_what_is_wrong(
    spark: "SparkSession", log: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(Exception, match=reason) as refusal:
        spark.read.format("arneb").options(**{"path": str(log), **options}).load().count()
    assert "Traceback" in str(refusal.value) or len(str(refusal.value).splitlines()) < 20
