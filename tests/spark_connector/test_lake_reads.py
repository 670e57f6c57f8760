"""A read of what retention has removed, from the sealed tier: the rows that the log would give."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lake_kit import amqp_entries, offload, sealed, write_ledgers
from log_generator import START_MS, LogWriter
from pyspark.sql.datasource import EqualTo

from arneb_core.store.format.schema import TopicId
from pyspark_arneb.batch import PushdownReader
from pyspark_arneb.errors import DataLossError
from pyspark_arneb.lake.erasure import ErasedKeys, erase
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.schema import columns_of
from pyspark_arneb.stream.options import batch_options


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Bodies 0 to 69: ledgers 1 to 3 of twenty are sealed and trimmed, the fourth is neither."""
    log, lake = tmp_path / "log", tmp_path / "lake"
    write_ledgers(log, 3)
    offload(log, lake)[0].round()
    trim(log, 1, 2, 3)
    yield log, lake
    close_environments()


def trim(log: Path, *ledgers: int) -> None:
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=4, entries=10)
        for ledger in ledgers:
            writer.trim("orders", ledger)


def reader(log: Path, lake: Path, **given: str) -> PushdownReader:
    close_environments()
    options = batch_options(
        {
            "path": str(log),
            "topic": "orders",
            "sealed": str(lake),
            "startingOffsets": '{"orders": "1:5"}',
            **given,
        }
    )
    return PushdownReader(options, columns_of(options))


def rows(reader: PushdownReader) -> list[dict[str, Any]]:
    return [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def bodies(reader: PushdownReader, value: str = "value") -> list[int]:
    return sorted(int(row[value]) for row in rows(reader))


def test_what_is_sealed_and_what_is_left_follow_each_other(places: tuple[Path, Path]) -> None:
    assert bodies(reader(*places)) == list(range(5, 70))


@pytest.mark.parametrize(("ledger", "found"), [(1, range(5, 20)), (2, range(20, 40))])
def test_a_filter_that_is_taken_holds_for_what_is_sealed(
    places: tuple[Path, Path], ledger: int, found: range
) -> None:
    asked = reader(*places)
    assert list(asked.pushFilters([EqualTo(("ledger_id",), ledger)])) == []
    assert bodies(asked) == list(found)


@pytest.mark.parametrize("until", [30, 65, 1 << 60])
def test_a_time_at_which_a_read_ends_holds_for_what_is_sealed(
    places: tuple[Path, Path], until: int
) -> None:
    found = bodies(reader(*places, endingTime=str(START_MS + until)))
    assert found == list(range(5, min(until, 70)))


def test_a_time_at_which_a_read_begins_holds_for_what_was_trimmed_meanwhile(
    tmp_path: Path,
) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    write_ledgers(log, 3)
    offload(log, lake)[0].round()
    asked = reader(log, lake, startingOffsets="earliest", startingTime=str(START_MS + 27))
    parts = asked.partitions()
    trim(log, 1, 2, 3)
    found = [
        row["value"] for part in parts for each in asked.read(part) for row in each.to_pylist()
    ]
    assert sorted(map(int, found)) == list(range(27, 70))
    close_environments()


def test_columns_of_pulsar_s_names_and_in_another_case(places: tuple[Path, Path]) -> None:
    assert bodies(reader(*places, columnStyle="pulsar")) == list(range(5, 70))
    assert bodies(reader(*places, columns="VALUE,entry_id")) == list(range(5, 70))


@pytest.mark.parametrize(
    ("name", "value"), [("columnStyle", "kafka"), ("valueAs", "string"), ("valueAs", "schema")]
)
def test_what_the_sealed_tier_has_not_is_refused(
    places: tuple[Path, Path], name: str, value: str
) -> None:
    with pytest.raises(OptionError, match=f'option "{name}": the sealed tier has'):
        reader(*places, **{name: value})


def test_another_topic_s_table_is_not_read(places: tuple[Path, Path]) -> None:
    """Ledgers of a topic that was recreated have the numbers of the old one's."""
    log, lake = places
    other = log.parent / "other"
    with LogWriter(other) as writer:
        writer.create("first")
        writer.create("orders")
        for start in (100, 200):
            writer.append("orders", amqp_entries(20, start=start))
            writer.roll("orders")
        writer.append("orders", amqp_entries(1, start=300))
        writer.trim("orders", 1)
    assert sealed(lake).topic_id(-1) == TopicId(1)
    with pytest.raises(DataLossError, match="retention removed it"):
        rows(reader(other, lake))
    assert bodies(reader(other, lake, failOnDataLoss="false")) == [*range(200, 220), 300]


def test_what_the_log_never_had_is_no_less_lost(places: tuple[Path, Path]) -> None:
    ask = {"startingOffsets": '{"orders": "3:20"}', "endingOffsets": '{"orders": "4:50"}'}
    with pytest.raises(DataLossError, match="its log ends at 4:10"):
        rows(reader(*places, **ask))


def test_ledgers_that_were_gone_before_the_tier_was_begun_are_lost(tmp_path: Path) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    write_ledgers(log, 3)
    trim(log, 1)
    offload(log, lake)[0].round()
    trim(log, 2, 3)
    with pytest.raises(DataLossError, match="from 1:5 to before 2:0"):
        rows(reader(log, lake))
    assert bodies(reader(log, lake, failOnDataLoss="false")) == list(range(20, 70))
    close_environments()


def test_what_was_erased_is_no_loss(places: tuple[Path, Path]) -> None:
    table = sealed(places[1])
    erased = ErasedKeys.from_now([b"key-0", b"key-1", b"key-2"], START_MS + 19)
    erased.write_down(table.target)
    erase(table, erased)
    assert bodies(reader(*places)) == list(range(20, 70))
