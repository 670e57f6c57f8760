"""Commits: all or nothing, in the promised order, and trims in bounded steps."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arneb_core.api.entries.position import AFTER_ALL, Position, position_at
from arneb_core.store.commit import transaction
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.schema import META_TRIMS, Table, TopicId, topic_prefix
from arneb_core.testing.store_kit import StoreModel, assert_holds, entry

KEY = b"frontend/key"
TOPIC = TopicId(1)


def get(store: Store, key: bytes = KEY) -> bytes | None:
    with store.snapshot() as snapshot:
        return snapshot.get(Table.CATALOG, key)


def positions(store: Store, topic_id: TopicId = TOPIC) -> list[Position]:
    """Every entry that is there, whatever the ledgers say."""
    with store.snapshot() as snapshot:
        return [
            Position(first + index)
            for _, value in snapshot.scan(Table.ENTRIES, topic_prefix(topic_id))
            for first, entries in [snapshot.decode(value)]
            for index in range(len(entries))
        ]


@contextmanager
def trimming(store: Store, *, blocks: int) -> Iterator[None]:
    """Of the log of :func:`make_log` so many blocks go meanwhile."""
    before = len(positions(store))
    yield
    assert before - len(positions(store)) == 2 * blocks


def make_log(store: Store, runs: int, ledgers: int = 1) -> StoreModel:
    """Topic 1 with ``runs`` blocks of two entries in each of its ledgers."""
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    store.commit(changes)
    for ledger in range(ledgers):
        for run in range(runs):
            changes = Changes()
            model.append(changes, "t", [entry(b"%d" % run), entry(b"%d" % ledger)])
            store.commit(changes)
        changes = Changes()
        model.close_ledger(changes, "t")
        store.commit(changes)
    return model


def test_a_commit_survives_reopening(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        model = make_log(store, runs=3, ledgers=2)
    with Store.open(data_dir) as store, store.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_commit_is_there_after_a_kill(data_dir: Path, tmp_path: Path) -> None:
    """What another process would find if this one ended now."""
    with Store.open(data_dir) as store:
        model = make_log(store, runs=3)
        image = tmp_path / "image"
        shutil.copytree(data_dir, image)
    with Store.open(image) as store, store.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_report_counts_blocks_after_splitting(store: Store) -> None:
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    model.append(changes, "t", [entry(bytes(1000))] * 600)
    report = store.commit(changes)
    assert report.blocks == 3
    assert 600 * 1040 < report.bytes_written < 600 * 1050
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_nothing_to_commit_touches_nothing(store: Store) -> None:
    before = store.statistics()
    assert store.commit(Changes()) == CommitReport(0, 0, 0)
    assert store.statistics().last_transaction == before.last_transaction


def test_a_put_wins_over_a_delete(store: Store) -> None:
    store.commit(Changes(puts=[(Table.CATALOG, KEY, b"new")], deletes=[(Table.CATALOG, KEY)]))
    assert get(store) == b"new"


def test_puts_of_one_key_are_applied_in_their_order(store: Store) -> None:
    row = (Table.CATALOG, KEY)
    store.commit(Changes(puts=[(*row, b"1"), (*row, None), (*row, b"2")]))
    assert get(store) == b"2"
    store.commit(Changes(puts=[(*row, b"3"), (*row, None)]))
    assert get(store) is None


def test_what_is_not_there_can_be_deleted(store: Store) -> None:
    store.commit(Changes(deletes=[(Table.CATALOG, KEY)], puts=[(Table.CATALOG, KEY, None)]))
    assert get(store) is None


def test_a_prefix_takes_the_rows_of_its_own_commit_too(store: Store) -> None:
    rows: list[tuple[Table, bytes, bytes | None]]
    rows = [(Table.CATALOG, b"frontend/%s" % name, b"x") for name in (b"a", b"b1", b"b2", b"c")]
    store.commit(Changes(puts=rows[:2]))
    store.commit(Changes(puts=rows[2:], prefixes=[(Table.CATALOG, b"frontend/b")]))
    with store.snapshot() as snapshot:
        left = [key for key, _ in snapshot.scan(Table.CATALOG)]
    assert left == [b"frontend/a", b"frontend/c"]


def test_an_empty_prefix_is_refused(store: Store) -> None:
    with pytest.raises(AssertionError, match="empty CATALOG"):
        store.commit(Changes(prefixes=[(Table.CATALOG, b"")]))


def test_long_keys_are_found_under_their_whole_name(store: Store) -> None:
    """AMQP: exchange, queue and routing key are 255 bytes each."""
    keys = [b"frontend/" + bytes([letter]) * size for letter in b"ab" for size in (400, 502, 760)]
    store.commit(Changes(puts=[(Table.CATALOG, key, b"v" + key) for key in keys]))
    with store.snapshot() as snapshot:
        assert dict(snapshot.scan(Table.CATALOG)) == {key: b"v" + key for key in keys}
        for key in keys:
            assert snapshot.get(Table.CATALOG, key) == b"v" + key
            assert snapshot.get(Table.CATALOG, key + b"?") is None
            found = {found for found, _ in snapshot.scan(Table.CATALOG, key)}
            assert found == {other for other in keys if other.startswith(key)}
    store.commit(Changes(deletes=[(Table.CATALOG, keys[2])], puts=[(Table.CATALOG, keys[5], None)]))
    with store.snapshot() as snapshot:
        assert len(list(snapshot.scan(Table.CATALOG))) == 4


def test_a_block_is_never_written_over_and_nothing_else_of_the_commit_is(store: Store) -> None:
    make_log(store, runs=1)
    again = Changes(
        blocks=[(TOPIC, position_at(1, 0), [entry(), entry()])], puts=[(Table.CATALOG, KEY, b"")]
    )
    with pytest.raises(AssertionError, match="already"):
        store.commit(again)
    assert get(store) is None
    store.commit(Changes(puts=[(Table.CATALOG, KEY, b"fine")]))


def test_two_commits_at_once_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(self: object, *args: object) -> None:
        inside.set()
        assert go_on.wait(10)

    monkeypatch.setattr(transaction.Transaction, "apply", slow)
    changes = Changes(puts=[(Table.CATALOG, KEY, b"")])
    writer = threading.Thread(target=store.commit, args=(changes,))
    writer.start()
    assert inside.wait(10)
    with pytest.raises(RuntimeError, match="two commits at once"):
        store.commit(changes)
    go_on.set()
    writer.join()


# Trims


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        ((1, 0), (1, 9), []),
        ((1, 0), (1, 4), [4, 5, 6, 7, 8, 9]),
        ((1, 1), (1, 9), [0, 1]),
        ((1, 2), (1, 7), [0, 1, 8, 9]),
        ((1, 3), (1, 6), [0, 1, 2, 3, 6, 7, 8, 9]),
        ((1, 3), (1, 4), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ((1, 8), (9, 0), [0, 1, 2, 3, 4, 5, 6, 7]),
        ((2, 0), (9, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ((0, 0), (0, 9), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_a_trim_takes_the_blocks_wholly_inside(
    tmp_path: Path, first: tuple[int, int], last: tuple[int, int], left: list[int]
) -> None:
    with Store.open(tmp_path / "data") as store:
        make_log(store, runs=5)
        other = TopicId(2)
        store.commit(Changes(blocks=[(other, position_at(1, 0), [b""])]))
        report = store.commit(Changes(trims=[(TOPIC, position_at(*first), position_at(*last))]))
        assert report.trims_left == 0
        assert positions(store) == [position_at(1, index) for index in left]
        assert positions(store, other) == [position_at(1, 0)]


def test_trims_go_on_in_later_commits_until_they_are_done(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "TRIM_BLOCKS_MAX", 4)
    with Store.open(data_dir) as store:
        model = make_log(store, runs=5, ledgers=3)
        changes = Changes()
        model.drop_ledger(changes, "t")
        model.drop_ledger(changes, "t")
        with trimming(store, blocks=4):
            report = store.commit(changes)
        assert report.trims_left == 2
        assert store.statistics().trims_left == 2
        with store.snapshot() as snapshot:
            assert_holds(snapshot, model)
    with Store.open(data_dir) as store:  # the rest is not forgotten
        with trimming(store, blocks=4):
            report = store.commit(Changes(trims=changes.trims))  # asked again: harmless
        assert report.trims_left == 1
        with trimming(store, blocks=2):
            report = store.commit(Changes())
        assert report.trims_left == 0
        assert positions(store) == list(model.topics["t"].entries())
        with store.snapshot() as snapshot:
            assert snapshot.get(Table.META, META_TRIMS) is None
        transaction_before = store.statistics().last_transaction
        store.commit(Changes())
        assert store.statistics().last_transaction == transaction_before


def test_a_trim_is_bounded_in_time_but_always_gets_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_log(store, runs=5, ledgers=2)
    monkeypatch.setattr(transaction, "TRIM_S_MAX", -1.0)
    changes = Changes()
    model.drop_ledger(changes, "t")
    with trimming(store, blocks=1):
        assert store.commit(changes) == CommitReport(0, 0, 1)
    for left in (1, 1, 1, 0):
        with trimming(store, blocks=1):
            assert store.commit(Changes()) == CommitReport(0, 0, left)


def test_a_deleted_topic_goes_wholly(store: Store) -> None:
    model = make_log(store, runs=3, ledgers=2)
    changes = Changes()
    model.create_topic(changes, "other")
    model.append(changes, "other", [entry(b"stays")])
    model.subscribe(changes, "other", "s")
    store.commit(changes)
    changes = Changes()
    model.subscribe(changes, "t", "s")
    model.delete_topic(changes, "t")
    assert store.commit(changes).trims_left == 0
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)
        assert {table: snapshot.rows(table) for table in Table} == {
            Table.META: 2,
            Table.CATALOG: 2,
            Table.LEDGERS: 1,
            Table.CURSORS: 1,
            Table.DELAYED: 0,
            Table.ENTRIES: 1,
            Table.BODIES: 0,
            Table.REFERENCES: 0,
            Table.GAPS: 0,
        }


def test_a_block_that_cannot_be_read_is_trimmed_like_the_others(store: Store) -> None:
    """Else one bad block would fail every commit from then on."""
    make_log(store, runs=2)
    with store.snapshot() as snapshot:
        (key, _), *_ = snapshot.scan(Table.ENTRIES)
    store.commit(Changes(puts=[(Table.ENTRIES, key, b"rubbish")]))
    store.commit(
        Changes(
            trims=[(TOPIC, position_at(1, 0), AFTER_ALL)],
            prefixes=[(Table.LEDGERS, key[:4])],
        )
    )
    assert positions(store) == []


def test_the_file_does_not_grow_under_a_steady_load(store: Store) -> None:
    """Appended, trimmed, appended: pages are used again."""
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    sizes = []
    for _ in range(12):
        for _ in range(4):
            model.append(changes, "t", [entry(os.urandom(8_000))] * 60)
            store.commit(changes)
            changes = Changes()
        model.close_ledger(changes, "t")
        model.drop_ledger(changes, "t")
        sizes.append(store.size_bytes)
    assert sizes[-1] <= sizes[4] * 1.3


WRITE = """
import itertools, sys
from arneb_core.store.format.changes import Changes
from arneb_core.store.environment import Store
from arneb_core.testing.store_kit import StoreModel, entry
store, model, changes = Store.open(sys.argv[1]), StoreModel(), Changes()
model.create_topic(changes, "t")
for number in itertools.count():
    model.append(changes, "t", [entry(b"%d" % number)] * 3)
    store.commit(changes)
    changes = Changes()
    print(number, flush=True)
"""


def test_what_was_reported_is_there_after_sigkill(data_dir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, data_dir], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "200\n":
                process.kill()
            reported = int(line)
    with Store.open(data_dir) as store:
        found = positions(store)
        assert found == [position_at(1, index) for index in range(len(found))]
        assert len(found) % 3 == 0
        assert reported < len(found) // 3 <= reported + 2
