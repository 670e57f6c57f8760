"""Blocks out of a damaged store: what a row says of one that is damaged is known."""

from pathlib import Path

import pytest

from arneb_core.api.entries.position import position_at
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.data_file.meta_pages import TAIL, TAIL_AT
from arneb_core.store.data_file.pages import NODE_BYTES, PageFile
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import LedgerRecord
from arneb_core.store.format.schema import Table, TopicId, entry_key
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.store.salvage.salvage import NAMELESS
from arneb_core.store.salvage.salvaging import salvage
from arneb_core.testing.damaged_kit import LONG, PAGE_BYTES, logs_by_name, page_classes
from arneb_core.testing.store_kit import StoreModel, entry


def make(path: Path, names: str, *, size: int) -> StoreModel:
    """Topics with two blocks each, of ledgers that are open."""
    model = StoreModel()
    with Store.open(path) as store:
        for number in (1, 2):
            changes = Changes()
            for name in names:
                if number == 1:
                    model.create_topic(changes, name)
                model.append(
                    changes, name, [entry(b"%s %d" % (name.encode(), number) + bytes(size))]
                )
            store.commit(changes)
    return model


def change(path: Path, at: int, data: bytes) -> None:
    with (path / "data.mdb").open("r+b") as file:
        file.seek(at)
        file.write(data)


def row_at(path: Path, key: bytes) -> int:
    """Where the row of ENTRIES with this key stands in the file."""
    [page] = page_classes(path)["leaf of entries"]
    start = page * PAGE_BYTES
    return (path / "data.mdb").read_bytes().index(key, start, start + PAGE_BYTES) - NODE_BYTES


def test_the_last_block_of_a_log_that_is_damaged_is_missing_and_its_place_not_given_out_again(
    tmp_path: Path,
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    model = make(data, "a", size=LONG)
    last = page_classes(data)["overflow of entries"][-1]
    change(data, last * PAGE_BYTES + 300, b"damaged")
    report = salvage(data, out)
    assert any("entries 1:1 to 1:1" in each for each in report.missing)
    kept = model.topics["a"].entries()[position_at(1, 0)]
    assert logs_by_name(out) == {"a": {position_at(1, 0): kept}}
    assert [each.kind for each in check(out)] == [FindingKind.GAP]
    with open_snapshot_environment(out) as environment, environment.snapshot() as snapshot:
        [(_, value)] = snapshot.scan(Table.LEDGERS, b"")
        assert LedgerRecord.unpack(value).entries == 2


def test_a_block_whose_row_names_a_missing_topic_is_kept_and_reported(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    model = make(data, "ab", size=10)
    key = entry_key(TopicId(2), position_at(1, 1))
    change(data, row_at(data, key) + NODE_BYTES, entry_key(TopicId(7), position_at(1, 1)))
    report = salvage(data, out)
    name = NAMELESS % 7
    assert any(name in each for each in report.missing)
    assert logs_by_name(out)[name] == {
        position_at(1, 1): model.topics["b"].entries()[position_at(1, 1)]
    }


def test_a_block_at_the_position_of_another_is_reported(tmp_path: Path) -> None:
    """The row of the first topic's second block now says the place of its first."""
    data, out = tmp_path / "data", tmp_path / "out"
    make(data, "ab", size=10)
    at = row_at(data, entry_key(TopicId(2), position_at(1, 1))) + NODE_BYTES
    change(data, at, entry_key(TopicId(1), position_at(1, 9)))
    report = salvage(data, out)
    assert report.missing


@pytest.mark.parametrize("fewer", [2, 4, -2])
def test_meta_pages_out_of_step_are_reported(tmp_path: Path, fewer: int) -> None:
    data = tmp_path / "data"
    make(data, "a", size=10)
    with Store.open(data) as store:
        for number in range(6):
            store.commit(Changes(puts=[(Table.META, b"a test's own", bytes([number]))]))
    file = (data / "data.mdb").read_bytes()
    places = [index * PAGE_BYTES + TAIL_AT for index in (0, 1)]
    newest = max(places, key=lambda place: TAIL.unpack_from(file, place)[1])
    last_page, transaction = TAIL.unpack_from(file, newest)
    change(data, newest, TAIL.pack(last_page, transaction - fewer))
    report = salvage(data, tmp_path / "out")
    assert any("meta page" in each for each in report.missing)


def test_a_value_whose_offset_is_after_the_end_of_every_file_is_not_read(tmp_path: Path) -> None:
    make(tmp_path / "data", "a", size=10)
    with PageFile(tmp_path / "data" / "data.mdb") as file:
        assert file.read(1 << 70, 10) == b""
        assert file.read(file.size - 4, 1 << 40) == file.read(file.size - 4, 4)
