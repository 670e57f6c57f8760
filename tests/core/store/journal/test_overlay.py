"""What the journal holds is read as if LMDB had it: entries, rows of cursors and of frontends."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, before, position_at
from arneb_core.store.checking.check import check
from arneb_core.store.commit.journal import ROWS_MAX, RUN_BYTES_MAX
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import CursorRecord, pack_trims
from arneb_core.store.format.schema import (
    FRONTEND_PREFIX,
    META_AHEAD,
    META_REPLICA,
    PLACE_SUFFIX,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
)
from arneb_core.store.journal.overlay import can_be_laid_over, laid_over
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.store_kit import StoreModel, commit_small, entry

A_CURSOR = cursor_prefix(TopicId(1), SubscriptionId(1)) + PLACE_SUFFIX
A_ROW = FRONTEND_PREFIX + b"amqp/binding"

LAID_OVER = {
    "nothing": Changes(),
    "entries": Changes([(TopicId(1), position_at(1, 0), [b""])]),
    "the place of a cursor": Changes(puts=[(Table.CURSORS, A_CURSOR, b"")]),
    "holes of a cursor that go": Changes(deletes=[(Table.CURSORS, A_CURSOR)]),
    "a row of a frontend's": Changes(puts=[(Table.CATALOG, A_ROW, None)]),
    "up to where a log is taken over": Changes(puts=[(Table.META, META_REPLICA, b"{}")]),
}
NOT_LAID_OVER = {
    "a topic": Changes(puts=[(Table.CATALOG, b"topic/t", b"")]),
    "a ledger": Changes(puts=[(Table.LEDGERS, b"l", b"")]),
    "what is written ahead": Changes(puts=[(Table.META, b"ahead", b"")]),
    "a topic that goes": Changes(deletes=[(Table.CATALOG, b"topic/t")]),
    "all rows of a cursor": Changes(prefixes=[(Table.CURSORS, b"c")]),
    "a trim": Changes(trims=[(TopicId(1), position_at(1, 0), position_at(1, 1))]),
    "a bucket of delayed entries": Changes(puts=[(Table.DELAYED, b"d", b"")]),
    "a cursor and a topic": Changes(
        puts=[(Table.CURSORS, A_CURSOR, b""), (Table.CATALOG, b"topic/t", b"")]
    ),
}


@pytest.mark.parametrize("what", LAID_OVER)
def test_what_is_read_key_by_key_can_be_laid_over(what: str) -> None:
    assert can_be_laid_over(LAID_OVER[what])


@pytest.mark.parametrize("what", NOT_LAID_OVER)
def test_what_says_how_others_are_read_cannot(what: str, store: Store) -> None:
    assert not can_be_laid_over(NOT_LAID_OVER[what])
    store.commit(Changes(puts=[(Table.CATALOG, FRONTEND_PREFIX, b"")]))
    store.prepare_tiny()
    assert store.commit_tiny(NOT_LAID_OVER[what]) is None


def where(runs: list[tuple[Position, list[bytes]]]) -> list[Position]:
    return [first for first, _ in runs]


@pytest.mark.parametrize("is_held", [False, True], ids=["in the journal", "held"])
def test_a_log_is_read_to_a_place_below_what_is_written_ahead(
    tmp_path: Path, is_held: bool
) -> None:
    topic, first, late, ahead = TopicId(1), position_at(1, 0), position_at(1, 1), position_at(3, 0)
    position = pack_trims([(topic, ahead, position_at(3, 9))])
    puts: list[tuple[Table, bytes, bytes | None]] = [(Table.META, META_AHEAD, position)]
    with Store.open(tmp_path) as store:
        store.prepare_holding()
        store.prepare_tiny()
        store.commit(Changes([(topic, first, [entry(b"in LMDB")])]))
        store.commit(Changes([(topic, ahead, [entry(b"of a unit")])], puts))
        meanwhile = Changes([(topic, late, [entry(b"meanwhile")])])
        assert store.hold(meanwhile, 100) if is_held else store.commit_tiny(meanwhile) is not None
        with store.snapshot() as snapshot:
            for last in (late, before(ahead), ahead, position_at(3, 9), position_at(4, 0)):
                assert where(list(snapshot.iter_blocks(topic, first, last))) == [first, late]
                found = snapshot.read_blocks(topic, first, bytes_max=1000, last=last)
                assert where(found) == [first, late]
            assert where(snapshot.read_positions(topic, [first, late], 1000)) == [first, late]
            assert where(list(snapshot.iter_blocks(topic, first, first))) == [first]


KEYS = st.binary(max_size=3)


@given(
    st.dictionaries(KEYS, st.binary(max_size=1)),
    st.dictionaries(KEYS, st.none() | st.binary(max_size=1)),
    st.binary(max_size=1),
)
def test_rows_are_laid_over_in_their_places(
    stored: dict[bytes, bytes], late: dict[bytes, bytes | None], prefix: bytes
) -> None:
    rows = iter(sorted((key, value) for key, value in stored.items() if key.startswith(prefix)))
    both = {key: value for key, value in (stored | late).items() if value is not None}
    expected = sorted((key, value) for key, value in both.items() if key.startswith(prefix))
    assert list(laid_over(rows, late, prefix)) == expected


NUMBERS = st.integers(0, 9)
EDITS = st.lists(
    st.tuples(
        st.sampled_from([Table.CURSORS, Table.CATALOG]),
        NUMBERS,
        st.none() | st.binary(max_size=2),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def commit_of(edits: list[tuple[Table, int, bytes | None, bool]]) -> Changes:
    changes = Changes()
    for table, number, value, is_deleted in edits:
        key = (FRONTEND_PREFIX if table is Table.CATALOG else b"") + b"%d" % number
        if is_deleted:
            changes.deletes.append((table, key))
        else:
            changes.puts.append((table, key, value))
    return changes


def all_of(snapshot: Snapshot) -> list[object]:
    """Rows of both tables, by every way of reading them."""
    found: list[object] = []
    for table in (Table.CURSORS, Table.CATALOG):
        rows = list(snapshot.scan(table))
        assert list(snapshot.keys(table, b"")) == [key for key, _ in rows]
        assert snapshot.rows(table) == len(rows)
        heads = {key[:-1] for key, _ in rows}
        for head in heads:
            assert list(snapshot.scan(table, head)) == [r for r in rows if r[0].startswith(head)]
        for number in range(10):
            key = (FRONTEND_PREFIX if table is Table.CATALOG else b"") + b"%d" % number
            assert snapshot.get(table, key) == dict(rows).get(key)
        found += rows
    return found


@given(before=EDITS, commits=st.lists(EDITS, max_size=5))
def test_a_takeover_changes_nothing_that_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[Table, int, bytes | None, bool]],
    commits: list[list[tuple[Table, int, bytes | None, bool]]],
) -> None:
    path = tmp_path_factory.mktemp("overlay")
    model: dict[tuple[Table, bytes], bytes | None] = {}
    with Store.open(path) as store:
        for index, edits in enumerate([before, *commits]):
            changes = commit_of(edits)
            for table, key in changes.deletes:
                model.pop((table, key), None)
            for table, key, value in changes.puts:
                model[table, key] = value
            if index:
                assert commit_small(store, changes).needs_takeover
            else:
                store.commit(changes)
                store.prepare_tiny()
        with store.snapshot() as snapshot:
            late = all_of(snapshot)
        assert len(late) == sum(value is not None for value in model.values())
        shutil.copytree(path, path / "killed")
        with open_snapshot_environment(path / "killed") as other, other.snapshot() as snapshot:
            assert all_of(snapshot) == late
        (path / "copy").mkdir()
        store.copy(path / "copy")
        store.commit(Changes())
        with store.snapshot() as snapshot:
            assert all_of(snapshot) == late
    with Store.open(path / "copy") as copy, copy.snapshot() as snapshot:
        assert all_of(snapshot) == late
    shutil.rmtree(path)


def test_a_killed_store_has_what_was_acknowledged(store: Store, tmp_path: Path) -> None:
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    number = model.subscribe(changes, "t", "s")
    model.append(changes, "t", [entry(b"a"), entry(b"b")])
    store.commit(changes)
    store.prepare_tiny()
    key = cursor_prefix(TopicId(1), number) + PLACE_SUFFIX
    position = CursorRecord(position_at(1, 0), position_at(1, 1)).pack()
    changes = Changes(puts=[(Table.CURSORS, key, position)])
    model.append(changes, "t", [entry(b"a letter")])
    assert commit_small(store, changes).needs_takeover
    killed = tmp_path / "killed"
    shutil.copytree(store.path, killed)
    assert check(killed) == []
    with Store.open(killed) as after:
        with after.snapshot() as snapshot:
            assert snapshot.get(Table.CURSORS, key) == position
        after.commit(Changes())
        with after.snapshot() as snapshot:
            assert snapshot.get(Table.CURSORS, key) == position


def test_the_journal_takes_so_many_rows_and_bytes_of_them(store: Store) -> None:
    store.commit(Changes(puts=[(Table.CATALOG, A_ROW, b"")]))
    store.prepare_tiny()
    few = Changes(puts=[(Table.CATALOG, A_ROW, b"")])
    long = Changes(puts=[(Table.CATALOG, A_ROW, bytes(RUN_BYTES_MAX))])
    assert store.commit_tiny(long) is None
    for _ in range(ROWS_MAX):
        assert store.commit_tiny(few) is not None
    assert store.commit_tiny(few) is None
    assert store.commit_tiny(Changes()) is not None
    store.commit(Changes())
    assert store.commit_tiny(few) is not None
