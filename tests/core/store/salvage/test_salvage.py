"""A salvage gives no topic another's messages, and leaves nothing out."""

from pathlib import Path

import pytest
from pyroaring import BitMap

from arneb_core.api.entries.position import BEFORE_ALL, Position, position_at
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import CursorRecord, LedgerRecord, pack_holes
from arneb_core.store.format.schema import (
    PLACE_SUFFIX,
    CursorKind,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    holes_suffix,
)
from arneb_core.store.salvage.salvage import UNOWNED
from arneb_core.store.salvage.salvaged_cursor import SalvagedCursor
from arneb_core.store.salvage.salvaged_log import FoundBlock, SalvagedLog, put_together
from arneb_core.store.salvage.salvaging import salvage
from arneb_core.testing.damaged_kit import (
    LONG,
    PAGE_BYTES,
    acknowledged,
    logs_by_name,
    page_classes,
    wipe,
)
from arneb_core.testing.store_kit import StoreModel, commit_small, entry

PAGE_FLAGS_AT = 10
"""In a page: what kind of one it is."""

OPEN = {1: LedgerRecord(created_ms=1)}


def place(mark_delete: int, read_position: int) -> bytes:
    """A cursor's row in ledger 1."""
    return CursorRecord(position_at(1, mark_delete), position_at(1, read_position)).pack()


def log(entries: int, *, missing: tuple[int, int] | None = None) -> SalvagedLog:
    """Of a ledger with so many entries."""
    blocks = [FoundBlock(position_at(1, each), 1, 1, 1, each) for each in range(entries)]
    if missing is not None:
        del blocks[missing[0] : missing[1] + 1]
    records = {1: LedgerRecord(1, 2, entries, entries, entries)}
    return put_together(records, blocks, up_to=BEFORE_ALL, any_ledger=False, now_ms=3)  # type: ignore[arg-type]


def written(cursor: SalvagedCursor, into: SalvagedLog) -> dict[bytes, bytes]:
    return dict(cursor.rows(into, lambda _log, _place: 8))


# The cursor


@pytest.mark.parametrize("mark_delete", [-1, 0, 3, 9])
def test_a_cursor_stands_where_its_row_says(mark_delete: int) -> None:
    cursor = SalvagedCursor()
    cursor.take(CursorKind.PLACE, 0, place(mark_delete, 10))
    assert written(cursor, log(10)) == {PLACE_SUFFIX: place(mark_delete, 10)}


def test_of_old_rows_the_lowest_counts_and_nothing_is_passed_over() -> None:
    cursor = SalvagedCursor()
    cursor.take_old([place(5, 9), place(2, 4), place(7, 8)], goes_back=False)
    assert written(cursor, log(10)) == {PLACE_SUFFIX: place(2, 9)}


def test_a_cursor_goes_to_the_start_when_only_rows_from_before_a_seek_may_be_left() -> None:
    cursor = SalvagedCursor()
    cursor.take_old([place(5, 9)], goes_back=True)
    rows = written(cursor, log(10))
    assert rows == {PLACE_SUFFIX: CursorRecord(BEFORE_ALL, position_at(1, 9)).pack()}
    assert cursor.last_known == position_at(1, 8)


def test_a_cursor_of_which_nothing_is_left_begins_at_the_start() -> None:
    cursor = SalvagedCursor()
    cursor.take(CursorKind.HOLES, 1 << 16, pack_holes(BitMap([4])))
    assert written(cursor, log(10)) == {PLACE_SUFFIX: place(-1, 0)}


def test_what_was_acknowledged_one_by_one_stays_so() -> None:
    cursor = SalvagedCursor()
    cursor.take(CursorKind.PLACE, 0, place(2, 8))
    chunk = position_at(1, 0) >> 16
    cursor.take(CursorKind.HOLES, chunk, pack_holes(BitMap([1, 4, 6, 30])))
    assert written(cursor, log(10, missing=(6, 7))) == {
        PLACE_SUFFIX: place(2, 8),
        holes_suffix(chunk): pack_holes(BitMap([4, 6])),
    }


# The log


def test_of_two_blocks_at_one_place_the_longer_is_taken() -> None:
    blocks = [FoundBlock(position_at(1, 0), count, count, count, count) for count in (1, 4)]
    made = put_together(OPEN, blocks, up_to=BEFORE_ALL, any_ledger=False, now_ms=3)  # type: ignore[arg-type]
    assert made.blocks == [blocks[1]]
    assert not made.gaps


def test_a_block_goes_after_what_a_cursor_knows_though_that_ends_inside_it() -> None:
    made = put_together(OPEN, [], up_to=position_at(1, 4), any_ledger=False, now_ms=3)  # type: ignore[arg-type]
    block = FoundBlock(position_at(1, 2), 8, 8, 800, 0)
    assert made.gaps == [(position_at(1, 0), position_at(1, 4))]
    assert made.misses(block.first, block.last)
    made.fill(block)
    assert made.gaps == [(position_at(1, 0), position_at(1, 1))]
    assert made.blocks == [block]
    assert made.open_end == position_at(1, 10)
    assert (made.ledgers[1].entries, made.ledgers[1].messages) == (10, 10)  # type: ignore[index]


# The whole


def make(path: Path, logs: dict[str, tuple[int, bool]]) -> StoreModel:
    """Topics of one long block each: of how many entries, and whether its ledger is closed."""
    model, changes = StoreModel(), Changes()
    for name, (count, closed) in logs.items():
        model.create_topic(changes, name)
        body = LONG // count + 1
        entries = [entry(b"%s %d %s" % (name.encode(), each, bytes(body))) for each in range(count)]
        model.append(changes, name, entries)
        if closed:
            model.close_ledger(changes, name)
    with Store.open(path) as store:
        store.commit(changes)
    return model


def test_a_block_that_may_be_of_two_topics_is_given_to_neither(tmp_path: Path) -> None:
    model = make(tmp_path / "data", {"a": (2, False), "b": (3, False), "c": (2, True)})
    wipe(tmp_path / "data", page_classes(tmp_path / "data")["leaf of entries"])
    report = salvage(tmp_path / "data", tmp_path / "out")
    found = logs_by_name(tmp_path / "out")
    assert sorted(found.pop(UNOWNED).values()) == sorted(
        each for topic in model.topics.values() for each in topic.entries().values()
    )
    assert found == {"a": {}, "b": {}, "c": {}}
    assert any("of which topic 7 entries are" in line for line in report.missing)


def test_a_block_that_only_one_topic_misses_is_given_to_that(tmp_path: Path) -> None:
    model = make(tmp_path / "data", {"a": (2, True), "b": (4, True)})
    wipe(tmp_path / "data", page_classes(tmp_path / "data")["leaf of entries"])
    salvage(tmp_path / "data", tmp_path / "out")
    found = logs_by_name(tmp_path / "out")
    # The two of a could be the first two of b; the four of b have no place in a.
    assert found["b"] == model.topics["b"].entries()
    assert found["a"] == {}
    assert sorted(found[UNOWNED].values()) == sorted(model.topics["a"].entries().values())


def test_messages_of_a_topic_of_which_nothing_else_is_left_are_not_left_out(tmp_path: Path) -> None:
    model = make(tmp_path / "data", {"a": (2, False)})
    pages = page_classes(tmp_path / "data")
    wipe(tmp_path / "data", pages["leaf of entries"] + pages["leaf of catalog"])
    salvage(tmp_path / "data", tmp_path / "out")
    found = logs_by_name(tmp_path / "out")
    entries = [*model.topics["a"].entries().values()]
    assert found.keys() == {UNOWNED}
    assert [*found[UNOWNED].values()] == entries


def test_a_cursor_whose_row_is_in_the_middle_of_a_lost_block_takes_it_to_its_own_topic(
    tmp_path: Path,
) -> None:
    """Else it went to the other topic, which could have it, too."""
    path = tmp_path / "data"
    model, changes = StoreModel(), Changes()
    for name in ("a", "b"):
        model.create_topic(changes, name)
        number = model.subscribe(changes, name, "s")
    model.append(changes, "a", [entry(b"%d" % each + bytes(LONG)) for each in range(3)])
    model.append(changes, "b", [entry(b"short")])
    changes.puts.append(
        (Table.CURSORS, cursor_prefix(model.topics["a"].id, number) + PLACE_SUFFIX, place(0, 2))
    )
    with Store.open(path) as store:
        store.commit(changes)
    wipe(path, page_classes(path)["leaf of entries"])
    salvage(path, tmp_path / "out")
    found = logs_by_name(tmp_path / "out")
    assert found["b"] == {}
    entries = sorted(model.topics["a"].entries().values())
    assert sorted([*found["a"].values(), *found[UNOWNED].values()]) == entries


def test_a_cursor_that_went_back_is_not_moved_forward_by_its_old_row(tmp_path: Path) -> None:
    path, model, changes = tmp_path / "data", StoreModel(), Changes()
    model.create_topic(changes, "a")
    number = model.subscribe(changes, "a", "s")
    model.append(changes, "a", [entry(b"%d" % each) for each in range(10)])
    key = cursor_prefix(TopicId(1), number) + PLACE_SUFFIX
    with Store.open(path) as store:
        store.commit(changes)
        for mark_delete in (5, 8, 2):
            store.commit(Changes(puts=[(Table.CURSORS, key, place(mark_delete, 10))]))
    pages = page_classes(path)
    wipe(path, pages["leaf of cursors"] + pages["root of freelist"])
    report = salvage(path, tmp_path / "out")
    assert acknowledged(tmp_path / "out") == {"a": {"s": set()}}
    assert any("subscription 's': where it stood" in line for line in report.missing)


def test_rows_of_the_journal_are_laid_over_unless_nothing_tells_how_old_they_are(
    tmp_path: Path,
) -> None:
    path, model, changes = tmp_path / "data", StoreModel(), Changes()
    model.create_topic(changes, "a")
    number = model.subscribe(changes, "a", "s")
    model.append(changes, "a", [entry(b"%d" % each) for each in range(10)])
    prefix = cursor_prefix(TopicId(1), number)
    chunk = position_at(1, 0) >> 16
    model.put(changes, b"frontend/old", b"")
    changes.puts += [
        (Table.CURSORS, prefix + PLACE_SUFFIX, place(0, 10)),
        (Table.CURSORS, prefix + holes_suffix(chunk), pack_holes(BitMap([3]))),
    ]
    with Store.open(path) as store:
        store.commit(changes)
        store.prepare_tiny()
        late = Changes(
            puts=[(Table.CURSORS, prefix + PLACE_SUFFIX, place(5, 10))],
            deletes=[(Table.CURSORS, prefix + holes_suffix(chunk))],
        )
        model.put(late, b"frontend/old", None)
        model.put(late, b"frontend/new", b"")
        assert commit_small(store, late).needs_takeover
    salvage(path, tmp_path / "whole")
    with Store.open(tmp_path / "whole") as store, store.snapshot() as snapshot:
        assert [*snapshot.scan(Table.CATALOG, b"frontend/")] == [(b"frontend/new", b"")]
    assert acknowledged(tmp_path / "whole") == {"a": {"s": {position_at(1, at) for at in range(6)}}}
    with (path / "data.mdb").open("r+b") as file:
        for page in (0, 1):
            file.seek(page * PAGE_BYTES + PAGE_FLAGS_AT)
            file.write(b"\xff\xff")
    report = salvage(path, tmp_path / "out")
    with Store.open(tmp_path / "out") as store, store.snapshot() as snapshot:
        assert [*snapshot.scan(Table.CATALOG, b"frontend/")] == [(b"frontend/old", b"")]
    assert any("rows of cursors and metadata that the journal" in each for each in report.missing)


def test_cursors_below_a_lost_branch_page_are_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "data"
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "a")
    model.append(changes, "a", [entry(b"%d" % each) for each in range(20)])
    stood: dict[str, set[Position]] = {}
    chunk = position_at(1, 0) >> 16
    for each in range(150):
        name = f"s{each}"
        prefix = cursor_prefix(TopicId(1), SubscriptionId(model.subscribe(changes, "a", name)))
        changes.puts.append((Table.CURSORS, prefix + PLACE_SUFFIX, place(each % 10, 15)))
        changes.puts.append((Table.CURSORS, prefix + holes_suffix(chunk), pack_holes(BitMap([12]))))
        stood[name] = {position_at(1, at) for at in [*range(each % 10 + 1), 12]}
    with Store.open(path) as store:
        store.commit(changes)
    pages = page_classes(path)
    assert len(pages["leaf of cursors"]) > 1
    wipe(path, pages["branch of cursors"])
    report = salvage(path, tmp_path / "out")
    assert not [line for line in report.missing if "where it stood" in line]
    assert acknowledged(tmp_path / "out")["a"] == stood
