"""What a replay brings: of the log, of the sealed tier and of both, each message once."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lake_kit import (
    ORDERS,
    amqp_entries,
    log_rows,
    offload,
    pulsar_batch,
    sealed,
    table_rows,
    write_ledgers,
)
from log_generator import START_MS, LogWriter, moment

from pyspark_arneb.errors import DataLossError
from pyspark_arneb.lake.erasure import ErasedKeys, erase
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.replay_plan import Plan
from pyspark_arneb.pipeline.replay_source import Choice, ReplaySource
from pyspark_arneb.pipeline.session import JobFailed
from pyspark_arneb.target import LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replayed(
    spark: "SparkSession", log: Path | None, choice: Choice, at_once: int = 1_000, **options: str
) -> list[bytes]:
    """The bodies of all pieces, in the order in which they are brought."""
    close_environments()
    location = None if log is None else Location(path=str(log), options=options)
    source = ReplaySource(spark, location, choice)
    plan = Plan.begin("r", {}, {}, source.stretches(), at_once)
    found: list[bytes] = []
    while plan.piece is not None:
        found += [bytes(row["value"]) for row in source.read(plan.piece).collect()]
        plan.move_on(0, at_once)
    return found


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, end)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three ledgers, of which two are sealed; a batch of Pulsar's is in the second one."""
    with LogWriter(tmp_path / "log") as writer:
        writer.create("orders")
        writer.append("orders", amqp_entries(20))
        writer.roll("orders")
        writer.append("orders", [pulsar_batch(5, start=20), pulsar_batch(15, start=25)])
        writer.roll("orders")
        writer.append("orders", amqp_entries(10, start=40))
    offload(tmp_path / "log", tmp_path / "lake")[0].round()
    return tmp_path / "log"


@pytest.fixture
def lake(log: Path) -> str:
    return str(log.parent / "lake")


def test_log_and_sealed_tier_together_are_each_message_once_and_in_order(
    spark: "SparkSession", log: Path, lake: str
) -> None:
    """Also of what both have, and where either is the only one that has it."""
    assert replayed(spark, log, Choice(["orders"], sealed=lake), 17) == numbers(0, 50)
    assert replayed(spark, None, Choice(["orders"], sealed=lake)) == numbers(0, 40)
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=3, entries=10)
        for ledger in (1, 2):
            writer.trim("orders", ledger)
    assert replayed(spark, log, Choice(["orders"])) == numbers(40, 50)
    assert replayed(spark, log, Choice(["orders"], sealed=lake)) == numbers(0, 50)


def test_times_choose_in_the_log_and_in_the_tier(
    spark: "SparkSession", log: Path, lake: str
) -> None:
    """Entries are a ms apart; of a batch all messages have the time of the first."""
    first, end = moment(START_MS + 10).isoformat(), moment(START_MS + 45).isoformat()
    choice = Choice(["orders"], first, end, sealed=lake)
    assert replayed(spark, log, choice) == numbers(10, 45)
    only = Choice(["orders"], first, moment(START_MS + 21).isoformat(), sealed=lake)
    assert replayed(spark, None, only) == numbers(10, 25)
    assert replayed(spark, log, Choice(["orders"], moment(START_MS + 60).isoformat())) == []


def test_offsets_choose_in_the_log_and_in_the_tier(
    spark: "SparkSession", log: Path, lake: str
) -> None:
    bounds = {
        "startingOffsets": json.dumps({"orders": "1:15"}),
        "endingOffsets": json.dumps({"orders": "3:4"}),
    }
    choice = Choice(["orders"], sealed=lake)
    assert replayed(spark, log, choice, **bounds) == numbers(15, 44)
    assert replayed(spark, log, Choice(["orders"]), **bounds) == numbers(15, 44)


def test_a_condition_is_one_of_all_columns_and_of_the_body(
    spark: "SparkSession", log: Path, lake: str
) -> None:
    choice = Choice(["orders"], where="key = 'key-1' AND cast(body AS int) > 30", sealed=lake)
    assert replayed(spark, log, choice) == [b"%d" % n for n in (31, 34, 37, 40, 43, 46, 49)]
    for condition in ("nothing > 3", "key = "):
        with pytest.raises(JobFailed, match="^--where: ") as caught:
            replayed(spark, log, Choice(["orders"], where=condition))
        assert "\n" not in str(caught.value)


def test_what_is_erased_is_not_brought_back_from_the_log(
    spark: "SparkSession", log: Path, lake: str
) -> None:
    erased = ErasedKeys.from_now([b"key-1"], START_MS + 10_000)
    erased.write_down(sealed(Path(lake)).target)
    erase(sealed(Path(lake)), erased)
    expected = [b"%d" % n for n in range(50) if n % 3 != 1]
    assert replayed(spark, log, Choice(["orders"], sealed=lake)) == expected


def test_what_was_lost_before_it_was_sealed_ends_a_replay_that_asks_for_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log, lake = tmp_path / "log", str(tmp_path / "lake")
    write_ledgers(log, 1)
    offload(log, tmp_path / "lake")[0].round()
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=2, entries=10)
        writer.roll("orders")
        writer.append("orders", amqp_entries(10, start=30))
        for ledger in (1, 2):
            writer.trim("orders", ledger)
    choice = Choice(["orders"], sealed=lake)
    with pytest.raises(JobFailed, match="10 messages of orders were removed before they were"):
        replayed(spark, log, choice)
    kept = numbers(0, 20) + numbers(30, 40)
    assert replayed(spark, log, choice, failOnDataLoss="false") == kept
    later = Choice(["orders"], moment(START_MS + 35).isoformat(), sealed=lake)
    assert replayed(spark, log, later) == numbers(35, 40)


def test_what_cannot_be_replayed_is_refused_by_name(
    spark: "SparkSession", log: Path, lake: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match='option "topic": no topic .*order; did you mean orders'):
        replayed(spark, log, Choice(["order"]))
    with pytest.raises(LakeError, match=f"no topic order in {lake}; there are: orders"):
        replayed(spark, None, Choice(["order"], sealed=lake))
    with pytest.raises(OptionError, match='option "startingTime": expected ms since'):
        replayed(spark, log, Choice(["orders"], "yesterday"))
    with pytest.raises(LakeError, match="expected a directory or a URI"):
        replayed(spark, log, Choice(["orders"], sealed="ftp://x"))
    with pytest.raises(JobFailed, match="expected --path, --url or --sealed"):
        replayed(spark, None, Choice(["orders"]))
    single = {"endingOffsetsByTimestamp": json.dumps({"orders": 5})}
    with pytest.raises(OptionError, match='"endingOffsetsByTimestamp": expected one time for all'):
        replayed(spark, log, Choice(["orders"]), **single)
    gone = {"startingOffsets": json.dumps({"orders": "9:0"})}
    with pytest.raises(DataLossError, match="orders"):
        replayed(spark, log, Choice(["orders"]), **gone)


def test_a_table_that_was_rewritten_meanwhile_gives_the_same(
    spark: "SparkSession", log: Path, lake: str
) -> None:
    """Files are merged and removed between two pieces."""
    source = ReplaySource(spark, None, Choice(["orders"], sealed=lake))
    plan = Plan.begin("r", {}, {}, source.stretches(), 7)
    assert plan.piece is not None
    before = source.read(plan.piece).collect()
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=3, entries=10)
        writer.roll("orders")
    work, _ = offload(log, Path(lake), kept_h=0)
    work.round()
    assert len(table_rows(Path(lake))) == len(log_rows(log, ORDERS)) == 50
    assert source.read(plan.piece).collect() == before
