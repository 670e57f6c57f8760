"""Other engines on the sealed tier: DuckDB, Polars and pyarrow have the rows, and skip files."""

from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from lake_kit import log_rows, offload, place, sealed, write_ledgers

from pyspark_arneb.lake import sealing


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three ledgers, each in a file of its own."""
    write_ledgers(tmp_path / "log", 3)
    monkeypatch.setattr(sealing, "FILE_BYTES", 1)
    offload(tmp_path / "log", tmp_path / "lake", merge=False)[0].round()
    return tmp_path / "lake"


def test_duckdb_reads_the_files_with_its_own_reader(lake: Path) -> None:
    files = sealed(lake).file_uris()
    assert len(files) == 3
    rows = duckdb.read_parquet(files).to_arrow_table().to_pylist()
    expected = log_rows(lake.parent / "log", through=3)
    names = ("ledger_id", "entry_id", "message_id", "key", "value", "publish_time", "properties")
    shown = sorted(rows, key=place)
    for name in names[:-2]:
        assert [row[name] for row in shown] == [row[name] for row in expected]
    assert [row["publish_time"].timestamp() for row in shown] == [
        row["publish_time"].timestamp() for row in expected
    ]


def test_polars_reads_the_table_and_only_the_files_that_it_needs(lake: Path) -> None:
    polars = pytest.importorskip("polars")
    place_of = str(lake / "public/default/orders")
    wanted = polars.scan_delta(place_of).filter(polars.col("ledger_id") == 2)
    assert wanted.select(polars.len()).collect().item() == 20
    values = wanted.sort("entry_id").select("value").collect()["value"].to_list()
    assert values == [b"%d" % n for n in range(20, 40)]


def test_pyarrow_opens_only_the_files_that_statistics_do_not_exclude(lake: Path) -> None:
    data = sealed(lake).dataset()
    assert len(list(data.get_fragments())) == 3
    assert len(list(data.get_fragments(filter=ds.field("ledger_id") == 2))) == 1
    late = data.to_table(["publish_time"])["publish_time"].to_pylist()
    behind = ds.field("publish_time") > max(late) + timedelta(seconds=1)
    assert list(data.get_fragments(filter=behind)) == []
