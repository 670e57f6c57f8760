"""A topic as one Spark table: sealed files and the live tail are together what the log is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lake_kit import ORDERS, Row, amqp_entries, log_rows, offload, place, sealed, write_ledgers
from log_generator import LogWriter

from pyspark_arneb import table
from pyspark_arneb.lake import sealing
from pyspark_arneb.lake.erasure import ErasedKeys, erase, forget
from pyspark_arneb.lake.offload import COLUMNS
from pyspark_arneb.lake.spark_table import sealed_part, tail_partitions
from pyspark_arneb.lake.spark_table import table as lake_table
from pyspark_arneb.lake.view import View, view_of
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.target import LakeError, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


EVERY = ",".join(column.name for column in COLUMNS)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A log of three closed ledgers and a growing one, and an empty lake."""
    log, lake = tmp_path / "log", tmp_path / "lake"
    write_ledgers(log, 3)
    yield log, lake
    close_environments()


def rows(frame: "DataFrame") -> list[Row]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=place)


def whole(spark: "SparkSession", log: Path, lake: Path, **options: object) -> "DataFrame":
    close_environments()
    return table(spark, "orders", lake=str(lake), path=str(log), **options)


def view_of_orders(log: Path, lake: Path) -> View:
    close_environments()
    return view_of(ORDERS, Directory(str(log)).open(), [ORDERS], Target.of(str(lake)))


def as_spark(log_side: list[Row]) -> list[Row]:
    """Rows as Arrow gives them, in the forms that Spark gives."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return dict(value)
        if isinstance(value, bytes):
            return bytearray(value)
        return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value

    return [{name: plain(value) for name, value in row.items()} for row in log_side]


def test_the_table_is_the_log_before_and_after_ledgers_are_sealed(
    spark: "SparkSession", places: tuple[Path, Path]
) -> None:
    log, lake = places
    expected = as_spark(log_rows(log))
    assert len(expected) == 70
    assert rows(whole(spark, log, lake, columns=EVERY)) == expected
    assert offload(log, lake)[0].round().ledgers == 3
    found = whole(spark, log, lake, columns=EVERY)
    assert rows(found) == expected
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "PythonScan" in plan or "BatchScan arneb" in plan


def test_files_are_read_while_one_task_reads_a_short_tail(
    spark: "SparkSession", places: tuple[Path, Path]
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    found = whole(spark, log, lake)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert plan.index("BatchScan arneb") < plan.index("FileScan parquet"), (
        "the scan of the log must come first, since it takes longest"
    )
    files = sealed_part(spark, view_of_orders(log, lake)).rdd.getNumPartitions()
    assert found.rdd.getNumPartitions() == files + 1
    assert whole(spark, log, lake, minPartitions=4).rdd.getNumPartitions() == files + 4


def test_of_a_topic_that_is_sealed_whole_only_files_are_read(
    spark: "SparkSession", places: tuple[Path, Path]
) -> None:
    log, lake = places
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=4, entries=10)
        writer.roll("orders")
    offload(log, lake)[0].round()
    found = whole(spark, log, lake)
    assert found.count() == 70
    assert "BatchScan arneb" not in found._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize(
    ("tail", "sealed_rows", "at_once", "tasks"),
    [(5, 95, 2, 1), (50, 50, 2, 2), (5, 95, 16, 2), (0, 100, 8, 1), (100, 1, 8, 8)],
)
def test_a_tail_is_as_many_tasks_as_its_part_of_the_work(
    places: tuple[Path, Path], tail: int, sealed_rows: int, at_once: int, tasks: int
) -> None:
    view = view_of_orders(*places)
    (extent,) = view.extents
    spans = [replace(extent.ledgers[0], messages=tail)] if tail else []
    view = replace(view, sealed_rows=sealed_rows, extents=(replace(extent, ledgers=tuple(spans)),))
    assert tail_partitions(view, at_once) == tasks


def test_a_frame_shows_the_same_rows_when_its_tail_was_sealed_and_trimmed(
    spark: "SparkSession", places: tuple[Path, Path]
) -> None:
    log, lake = places
    expected = as_spark(log_rows(log))
    assert offload(log, lake)[0].round().ledgers == 3
    before = whole(spark, log, lake, columns=EVERY)
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=4, entries=10)
        writer.roll("orders")
        writer.append("orders", amqp_entries(5, start=100))
    assert offload(log, lake)[0].round().ledgers == 1
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=5, entries=5)
        for ledger in (1, 2, 3, 4):
            writer.trim("orders", ledger)
    close_environments()
    assert rows(before) == expected
    after = rows(whole(spark, log, lake, columns=EVERY))
    assert after[:70] == expected
    assert len(after) == 75


def test_what_the_table_has_and_the_snapshot_had_not_is_left_out(
    spark: "SparkSession", places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    expected = as_spark(log_rows(log))
    close_environments()

    def open_later(target: Target, topic: str) -> Any:
        # The log was looked at; before the table is, all of it and more is sealed.
        monkeypatch.undo()
        close_environments()
        with LogWriter(log) as writer:
            writer.adopt("orders", ledger=4, entries=10)
            writer.append("orders", amqp_entries(7, start=500))
            writer.roll("orders")
        assert offload(log, lake)[0].round().ledgers == 1
        return sealed(lake, topic)

    monkeypatch.setattr("pyspark_arneb.lake.view.SealedTable.open", open_later)
    found = rows(whole(spark, log, lake, columns=EVERY))
    assert found == expected


def test_erased_keys_are_seen_neither_in_the_files_nor_in_the_tail(
    spark: "SparkSession", places: tuple[Path, Path]
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    there = sealed(lake)
    erased = ErasedKeys.from_now([b"key-1"], 1 << 42)
    erased.write_down(there.target)
    assert erase(there, erased) == 20
    forget(there)
    expected = [row for row in as_spark(log_rows(log)) if row["key"] != b"key-1"]
    assert rows(whole(spark, log, lake, columns=EVERY)) == expected
    assert [row["value"] for row in rows(whole(spark, log, lake))] == [
        row["value"] for row in expected
    ]
    only = whole(spark, log, lake, columns="value")
    assert sorted(row["value"] for row in only.collect()) == sorted(
        row["value"] for row in expected
    )


def test_what_was_removed_before_it_was_sealed_is_not_passed_over(
    spark: "SparkSession", places: tuple[Path, Path]
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=4, entries=10)
        writer.roll("orders")
        writer.append("orders", amqp_entries(5, start=100))
        writer.trim("orders", 4)
    with pytest.raises(LakeError, match="10 messages of .*orders were removed before they were"):
        whole(spark, log, lake)
    assert whole(spark, log, lake, failOnDataLoss=False).count() == 65


def test_spark_skips_what_statistics_exclude(
    spark: "SparkSession", places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lake = places
    monkeypatch.setattr(sealing, "FILE_BYTES", 1)
    offload(log, lake)[0].round()
    found = whole(spark, log, lake).where("ledger_id = 2").select("entry_id", "value")
    assert len(found.collect()) == 20
    executed = found._jdf.queryExecution().executedPlan()
    plan = executed.toString()
    assert "PushedFilters: [IsNotNull(ledger_id), EqualTo(ledger_id,2)]" in plan
    assert "ReadSchema: struct<ledger_id:bigint,entry_id:bigint,value:binary>" in plan
    leaves = executed.collectLeaves()
    scans = [leaves.apply(i) for i in range(leaves.size())]
    (files,) = [scan for scan in scans if "FileScan parquet" in scan.toString()]
    assert files.metrics().get("numFiles").get().value() == 3
    assert files.metrics().get("numOutputRows").get().value() == 20, "it read one row group"


def test_what_the_session_says_need_not_be_given(
    spark: "SparkSession", places: tuple[Path, Path]
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    spark.conf.set("spark.arneb.lake", str(lake))
    spark.conf.set("spark.arneb.path", str(log))
    try:
        assert lake_table(spark, "orders").count() == 70
    finally:
        spark.conf.unset("spark.arneb.lake")
        spark.conf.unset("spark.arneb.path")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lake": ""}, 'option "lake": is required'),
        ({"lake": "ftp://somewhere"}, 'option "lake": expected a directory or a URI'),
        ({"startingOffsets": "earliest"}, 'option "startingOffsets": the table is whole'),
        ({"columnStyle": "kafka"}, 'option "columnStyle": the sealed tier has'),
        ({"valueAs": "string"}, 'option "valueAs": the sealed tier has bytes'),
        ({"startingTime": "0"}, 'option "startingTime": the table is whole'),
        ({"columns": "nothing"}, "no column 'nothing'"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(
    spark: "SparkSession", places: tuple[Path, Path], options: dict[str, str], message: str
) -> None:
    log, lake = places
    with pytest.raises(OptionError) as refused:
        table(spark, "orders", **{"lake": str(lake), "path": str(log), **options})
    assert message in str(refused.value)


def test_a_recreated_topic_is_not_one_table_with_the_old_one(
    spark: "SparkSession", places: tuple[Path, Path], tmp_path: Path
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    other = tmp_path / "other"
    with LogWriter(other) as writer:
        writer.create("first")
        writer.create("orders")
        writer.append("orders", amqp_entries(3))
    with pytest.raises(LakeError, match=f"holds another topic {ORDERS}"):
        whole(spark, other, lake)
