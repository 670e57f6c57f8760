"""Merging: which neighbours go together, and that no row changes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lake_kit import log_rows, offload, sealed, table_rows, write_ledgers

from arneb_core.api.entries.position import LedgerId
from pyspark_arneb.lake import merging, sealing
from pyspark_arneb.lake.merging import merge, plan_merges
from pyspark_arneb.lake.table import SealedFile

FILES = st.lists(st.tuples(st.integers(-1, 1), st.integers(1, 200)), max_size=40)


def files_of(sizes: list[tuple[int, int]]) -> list[SealedFile]:
    return [
        SealedFile(f"{number}", size, 1, partition, LedgerId(number), LedgerId(number))
        for number, (partition, size) in enumerate(sorted(sizes, key=lambda pair: pair[0]))
    ]


@given(FILES)
def test_what_is_merged_are_neighbours_of_one_log_that_fit_into_a_file(
    sizes: list[tuple[int, int]],
) -> None:
    files = files_of(sizes)
    for group in plan_merges(files, bytes_max=100, files_min=4):
        start = files.index(group[0])
        assert len(group) > 1
        assert files[start : start + len(group)] == group
        assert len({file.partition for file in group}) == 1
        assert sum(file.bytes for file in group) <= 100


@given(FILES)
def test_merging_comes_to_an_end(sizes: list[tuple[int, int]]) -> None:
    files = files_of(sizes)
    for _ in range(len(files) + 1):
        groups = plan_merges(files, bytes_max=100, files_min=4)
        if not groups:
            break
        for group in groups:
            place = files.index(group[0])
            whole = SealedFile(
                "merged",
                sum(file.bytes for file in group),
                len(group),
                group[0].partition,
                group[0].first,
                group[-1].last,
            )
            files[place : place + len(group)] = [whole]
    assert plan_merges(files, bytes_max=100, files_min=4) == []


def test_small_files_become_one_and_no_row_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    write_ledgers(log, 9, entries=4)
    monkeypatch.setattr(sealing, "FILE_BYTES", 1)
    offload(log, lake, merge=False)[0].round()
    table = sealed(lake)
    assert len(table.files()) == 9
    assert merge(table).before == 9
    (whole,) = table.files()
    assert (whole.first, whole.last, whole.rows) == (1, 9, 36)
    assert table_rows(lake) == log_rows(log, through=9)
    assert merge(table).before == 0


def test_of_two_merges_at_once_one_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    write_ledgers(log, 9, entries=4)
    monkeypatch.setattr(sealing, "FILE_BYTES", 1)
    offload(log, lake, merge=False)[0].round()
    table, other = sealed(lake), sealed(lake)
    written = merging.write_data_file

    def write_and_be_second(*arguments: object) -> object:
        monkeypatch.setattr(merging, "write_data_file", written)
        made = written(*arguments)  # type: ignore[arg-type]
        assert merge(other).before == 9
        return made

    monkeypatch.setattr(merging, "write_data_file", write_and_be_second)
    assert merge(table).before == 0
    assert table_rows(lake) == log_rows(log, through=9)
    assert len(sealed(lake).files()) == 1
