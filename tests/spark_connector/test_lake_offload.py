"""The offload: every closed ledger once, whatever comes in between, and nothing foreign touched."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
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
from log_generator import LogWriter, full_topic

from pyspark_arneb.lake import data_file, sealing
from pyspark_arneb.lake.erasure import FOLDER, ErasedKeys, erase, forget
from pyspark_arneb.lake.offload import COLUMNS
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.target import LakeError, Target, decoded, encoded, tables_in

PARTS = [full_topic(f"many-partition-{n}") for n in range(2)]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A log of three closed ledgers and a growing one, and an empty lake."""
    log, lake = tmp_path / "log", tmp_path / "lake"
    write_ledgers(log, 3)
    return log, lake


def grow(
    log: Path, change: Callable[[LogWriter], None], ledger: int = 4, entries: int = 10
) -> None:
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=ledger, entries=entries)
        change(writer)


@given(st.text(min_size=1, max_size=12).filter(lambda name: name.encode("utf-8", "replace")))
def test_a_topics_name_survives_as_a_path(name: str) -> None:
    path = encoded(name)
    assert decoded(path) == name
    assert set(path) <= set("~._-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
    assert path[0] not in "._"


def test_each_closed_ledger_goes_once_and_a_growing_one_does_not(places: tuple[Path, Path]) -> None:
    log, lake = places
    work, seen = offload(log, lake)
    assert (work.round().ledgers, work.round().ledgers) == (3, 0)
    assert [(each.first, each.last, each.rows) for each in seen] == [(1, 3, 60)]
    assert table_rows(lake) == log_rows(log, through=3)
    assert tables_in(Target.of(str(lake))) == [ORDERS]
    grow(log, lambda writer: writer.roll("orders"))
    assert offload(log, lake)[0].round().rows == 10
    assert table_rows(lake) == log_rows(log)


def test_batches_partitions_and_ledgers_of_many_files_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    with LogWriter(log) as writer:
        for number, name in enumerate(PARTS):
            writer.create(name)
            for start in range(0, 3000, 300):
                batches = [pulsar_batch(30, start=start + n) for n in range(number, 300, 30)]
                writer.append(name, batches)
            writer.roll(name)
    monkeypatch.setattr(sealing, "LEDGER_BYTES", 40_000)
    monkeypatch.setattr(data_file, "GROUP_BYTES", 10_000)
    done = offload(log, lake, merge=False)[0].round()
    assert (done.ledgers, done.rows) == (2, 6000)
    assert len(sealed(lake, PARTS[0]).files()) == 4
    assert table_rows(lake, PARTS[0]) == log_rows(log, *PARTS)
    assert tables_in(Target.of(str(lake))) == [full_topic("many")]


def test_two_offloads_at_once_bring_a_ledger_once(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lake = places
    written = sealing.write_data_file
    first, _ = offload(log, lake)

    def write_and_be_second(*arguments: Any) -> Any:
        monkeypatch.setattr(sealing, "write_data_file", written)
        made = written(*arguments)
        assert offload(log, lake)[0].round().ledgers == 3
        return made

    monkeypatch.setattr(sealing, "write_data_file", write_and_be_second)
    assert first.round().ledgers == 0
    assert table_rows(lake) == log_rows(log, through=3)
    assert len(list((lake / "public/default/orders").glob("*.parquet"))) == 1


def test_a_file_that_does_not_hold_what_was_written_is_not_committed(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lake = places
    read = data_file.read_file

    def read_wrongly(table: Target, name: str) -> Any:
        for batch in read(table, name):
            keys = pa.array([b"other"] * batch.num_rows, pa.binary())
            place = batch.schema.get_field_index("key")
            yield batch.set_column(place, "key", keys)

    monkeypatch.setattr(data_file, "read_file", read_wrongly)
    with pytest.raises(LakeError, match="does not hold the rows that were written: key differ"):
        offload(log, lake)[0].round()
    monkeypatch.undo()
    assert sealed(lake).files() == []
    assert not list((lake / "public/default/orders").glob("*.parquet"))
    assert offload(log, lake)[0].round().ledgers == 3


def test_a_damaged_page_is_noticed_when_it_is_read(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake, compression="none")[0].round()
    (path,) = (lake / "public/default/orders").glob("*.parquet")
    whole = path.read_bytes()
    body = b"\x02\0\0\x0047"
    assert whole.count(body) == 1
    path.write_bytes(whole.replace(body, b"\x02\0\0\x0074"))
    table = sealed(lake)
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        list(data_file.read_file(table.target, table.files()[0].path))


def test_what_was_trimmed_before_it_was_out_is_not_passed_over(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake)[0].round()

    def lose(writer: LogWriter) -> None:
        writer.roll("orders")
        writer.append("orders", amqp_entries(4, start=100))
        writer.roll("orders")
        writer.append("orders", amqp_entries(1, start=104))
        for ledger in (1, 2, 3, 4):
            writer.trim("orders", ledger)

    grow(log, lose)
    with pytest.raises(
        LakeError, match="orders: 10 messages after what is in the table are no longer in"
    ):
        offload(log, lake)[0].round()
    assert offload(log, lake, skip_lost=True)[0].round().rows == 4


def test_a_gap_in_a_ledger_stops_the_offload_unless_it_may_be_skipped(
    places: tuple[Path, Path],
) -> None:
    log, lake = places
    grow(log, lambda writer: writer.trim("orders", 2, keep_record=True))
    with pytest.raises(
        LakeError, match="orders from 2:0 to before 2:20 .*would be missing in the table"
    ):
        offload(log, lake)[0].round()
    assert sealed(lake).files() == []
    assert offload(log, lake, skip_lost=True)[0].round().rows == 40


def test_another_topic_of_the_same_name_is_refused(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    other = tmp_path / "other"
    with LogWriter(other) as writer:
        writer.create("first")
        writer.create("orders")
        writer.append("orders", amqp_entries(3))
        writer.roll("orders")
    with pytest.raises(LakeError, match=f"holds another topic {ORDERS}"):
        offload(other, lake)[0].round()


def test_targets_that_are_not_ours_are_refused_and_left_alone(places: tuple[Path, Path]) -> None:
    log, lake = places
    place = lake / "public/default/orders"
    place.mkdir(parents=True)
    (place / "report.txt").write_text("not ours")
    with pytest.raises(LakeError, match=r"holds report\.txt and is no table"):
        offload(log, lake)[0].round()
    (place / "report.txt").unlink()
    write_deltalake(place, pa.table({"a": [1]}))
    with pytest.raises(LakeError, match="is a table that Arneb did not make"):
        offload(log, lake)[0].round()
    assert DeltaTable(place).version() == 0
    (lake / "file").write_text("")
    with pytest.raises(LakeError, match="file"):
        offload(log, lake / "file")[0].round()


def test_a_damaged_table_is_one_line(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    commits = sorted((lake / "public/default/orders/_delta_log").glob("*.json"))
    commits[0].write_text("{nothing")
    with pytest.raises(LakeError) as refused:
        offload(log, lake)[0].round()
    assert "\n" not in str(refused.value)
    assert str(lake) in str(refused.value)


def test_a_table_of_another_format_is_refused(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    table = DeltaTable(lake / "public/default/orders")
    table.alter.set_table_properties({"arneb.format": "2"}, raise_if_not_exists=False)
    with pytest.raises(LakeError, match="has format 2, this version knows 1"):
        offload(log, lake)[0].round()


def test_columns_that_a_table_lacks_are_added_and_others_types_are_refused(
    places: tuple[Path, Path],
) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    target = Target.of(str(lake))
    table = sealed(lake)
    wider = table.schema.append(pa.field("later", pa.map_(pa.string(), pa.int64())))
    assert "later" in SealedTable.open_or_create(target, ORDERS, wider).schema.names
    # An older version goes on beside a newer one's columns.
    grow(log, lambda writer: writer.roll("orders"))
    assert offload(log, lake)[0].round().rows == 10
    rows = table_rows(lake)
    assert [row.pop("later") for row in rows] == [None] * 70
    assert rows == log_rows(log)
    narrower = pa.schema([("key", pa.int64())])
    with pytest.raises(LakeError, match="has a column key of binary, expected int64"):
        SealedTable.open_or_create(target, ORDERS, narrower)


def test_erased_keys_go_from_the_files_and_do_not_come_back(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    table = sealed(lake)
    erased = ErasedKeys.from_now([b"key-1", b"unknown"], 1 << 42)
    erased.write_down(table.target)
    assert erase(table, erased) == 20
    assert erase(table, erased) == 0
    forget(table)
    files = list((lake / "public/default/orders").glob("*.parquet"))
    assert len(files) == 1
    assert b"key-1" not in files[0].read_bytes()
    assert b"key-1" not in b"".join(
        path.read_bytes() for path in (lake / "public/default/orders" / FOLDER).iterdir()
    )
    # Rows of before the erasure that are sealed later.
    grow(log, lambda writer: writer.roll("orders"))
    offload(log, lake)[0].round()
    assert table_rows(lake) == [row for row in log_rows(log) if row["key"] != b"key-1"]


def test_a_ledger_of_which_everything_is_erased_counts_as_out(tmp_path: Path) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    with LogWriter(log) as writer:
        writer.create("orders")
        writer.append("orders", amqp_entries(5, keys=1))
        writer.roll("orders")
    schema = pa.schema([(column.name, column.type) for column in COLUMNS])
    table = SealedTable.open_or_create(Target.of(str(lake)), ORDERS, schema)
    ErasedKeys.from_now([b"key-0"], 1 << 42).write_down(table.target)
    work, _ = offload(log, lake)
    assert (work.round().ledgers, work.round().ledgers) == (1, 0)
    assert sealed(lake).files() == []


def test_what_is_published_after_an_erasure_stays(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    table = sealed(lake)
    half = log_rows(log)[30]["publish_time"]
    erased = ErasedKeys.from_now([b"key-0"], round(half.timestamp() * 1000))
    assert erase(table, erased) == 11
    assert table_rows(lake) == [
        row
        for row in log_rows(log, through=3)
        if row["key"] != b"key-0" or row["publish_time"] > half
    ]


def test_an_erasure_while_a_ledger_is_written_reaches_it(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lake = places
    written = sealing.write_data_file

    def write_and_erase(table: Target, *arguments: Any) -> Any:
        made = written(table, *arguments)
        erased = ErasedKeys.from_now([b"key-2"], 1 << 42)
        erased.write_down(table)
        assert erase(sealed(lake), erased) == 0
        return made

    monkeypatch.setattr(sealing, "write_data_file", write_and_erase)
    offload(log, lake)[0].round()
    assert table_rows(lake) == [row for row in log_rows(log, through=3) if row["key"] != b"key-2"]


def test_a_damaged_list_of_erased_keys_is_not_passed_over(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    folder = lake / "public/default/orders" / FOLDER
    folder.mkdir()
    (folder / "x.parquet").write_text("no digests")
    grow(log, lambda writer: writer.roll("orders"))
    with pytest.raises(LakeError, match="is no list of erased keys"):
        offload(log, lake)[0].round()


def test_files_of_killed_offloads_go_in_the_end(places: tuple[Path, Path]) -> None:
    log, lake = places
    offload(log, lake)[0].round()
    table = sealed(lake)
    abandoned = lake / "public/default/orders" / "0000000002-abandoned.parquet"
    abandoned.write_bytes(b"half of a file")
    assert table.vacuum(1) == 0
    assert abandoned.exists()
    assert table.vacuum(0) == 1
    assert not abandoned.exists()
    assert table_rows(lake) == log_rows(log, through=3)
