"""Snapshots: exact reading, isolation, other threads, other processes, copies, memory."""

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import AFTER_ALL, Position, ledger_of, position_at
from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.store.checking.check import check
from arneb_core.store.data_file.page_release import FORGET_BYTES
from arneb_core.store.environment import Store
from arneb_core.store.format.block import cut_run
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, TopicId
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.store_kit import StoreModel, assert_holds, entry, read_log

KEY = b"frontend/key"
NO_TOPIC = TopicId(99)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, StoreModel]:
    """Three topics: blocks of uneven sizes over three ledgers, one block, nothing."""
    store, model = Store.open(tmp_path_factory.mktemp("library") / "data"), StoreModel()
    changes = Changes()
    for name in ("many", "one", "none"):
        model.create_topic(changes, name)
    model.append(changes, "one", [entry(b"only")])
    for ledger in range(3):
        for size in (1, 4, 2, 7):
            bodies = [entry(bytes([ledger, size, index])) for index in range(size)]
            model.append(changes, "many", bodies)
            store.commit(changes)
            changes = Changes()
        model.close_ledger(changes, "many")
    store.commit(changes)
    return store, model


PLACES = st.builds(position_at, st.integers(1, 5), st.integers(-1, 16))


@given(data=st.data())
def test_reading_places_gives_those_that_are_there(
    library: tuple[Store, StoreModel], data: st.DataObject
) -> None:
    store, model = library
    topic = model.topics[data.draw(st.sampled_from(sorted(model.topics)))]
    wanted = sorted(data.draw(st.sets(PLACES, max_size=20)))
    bytes_max = data.draw(st.integers(1, 2_000))
    there = topic.entries()
    expected = [(position, [there[position]]) for position in wanted if position in there]
    with store.snapshot() as snapshot:
        found = snapshot.read_positions(topic.id, wanted, bytes_max)
    assert found == expected[: len(found)]
    if found != expected:
        sizes = [len(each[0]) for _, each in found]
        assert sum(sizes) >= bytes_max > sum(sizes[:-1])


def test_reading_places_lets_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.store.reading.snapshot.BLOCKS_READ_MAX", 3)
    with Store.open(tmp_path / "data") as store:
        model, changes = StoreModel(), Changes()
        model.create_topic(changes, "t")
        for number in range(6):
            model.append(changes, "t", [entry(b"%d" % number), entry(b"and")])
            store.commit(changes)
            changes = Changes()
        topic = model.topics["t"]
        positions = sorted(topic.entries())
        with store.snapshot() as snapshot:
            found = snapshot.read_positions(topic.id, positions, 1 << 20)
        assert [position for position, _ in found] == positions[:6]


@given(data=st.data())
def test_reading_blocks_gives_exactly_the_range(
    library: tuple[Store, StoreModel], data: st.DataObject
) -> None:
    store, model = library
    topic = model.topics[data.draw(st.sampled_from(sorted(model.topics)))]
    first, last = data.draw(PLACES), data.draw(st.none() | PLACES)
    bytes_max = data.draw(st.integers(1, 2_000))
    expected = {
        position: body
        for position, body in topic.entries().items()
        if first <= position and (last is None or position <= last)
    }
    with store.snapshot() as snapshot:
        runs = snapshot.read_blocks(topic.id, first, bytes_max=bytes_max, last=last)
        found = {
            Position(position + index): body
            for position, entries in runs
            for index, body in enumerate(entries)
        }
        assert all(entries for _, entries in runs)
        assert list(found.items()) == list(expected.items())[: len(found)]
        assert bool(found) == bool(expected)
        if len(found) < len(expected):
            # What was read counts, and that is whole blocks.
            read = [*found.values(), *_before(topic.entries(), first)]
            assert sum(map(len, read)) + 4 * len(read) + 24 * len(runs) >= bytes_max
        end = AFTER_ALL if last is None else last
        whole = [
            body for _, entries in snapshot.iter_blocks(topic.id, first, end) for body in entries
        ]
        assert whole == list(expected.values())


def _before(entries: dict[Position, bytes], first: Position) -> list[bytes]:
    """What may share a block with the entry at ``first``."""
    ledger = position_at(ledger_of(first), 0)
    return [body for position, body in entries.items() if ledger <= position < first]


@given(position=PLACES)
def test_last_position_is_the_last_entry_up_to_there(
    library: tuple[Store, StoreModel], position: Position
) -> None:
    store, model = library
    with store.snapshot() as snapshot:
        for topic in model.topics.values():
            known = topic.entries()
            assert snapshot.last_position(topic.id) == max(known, default=None)
            expected = max((other for other in known if other <= position), default=None)
            assert snapshot.last_position(topic.id, position) == expected
        assert snapshot.last_position(NO_TOPIC) is None
        assert snapshot.last_position(TopicId(0)) is None


@given(st.integers(0, 9), st.integers(1, 9), st.integers(0, 20), st.none() | st.integers(0, 20))
def test_cutting_a_run_keeps_what_lies_in_the_range(
    position: int, count: int, first: int, last: int | None
) -> None:
    entries = [b"%d" % at for at in range(position, position + count)]
    kept = [body for body in entries if first <= int(body) and (last is None or int(body) <= last)]
    low, found = cut_run(
        Position(position), entries, Position(first), None if last is None else Position(last)
    )
    assert found == kept
    if kept:
        assert low == int(kept[0])


def test_scan_gives_a_prefix_in_key_order(store: Store) -> None:
    names = [b"", b"a", b"a\0", b"a\xff", b"a\xff\xff", b"b"]
    rows = [(Table.CATALOG, b"frontend/" + name, b"v" + name) for name in reversed(names)]
    store.commit(Changes(puts=list(rows)))
    with store.snapshot() as snapshot:
        assert [value[1:] for _, value in snapshot.scan(Table.CATALOG)] == names
        found = [value[1:] for _, value in snapshot.scan(Table.CATALOG, b"frontend/a")]
        assert found == names[1:5]
        assert list(snapshot.scan(Table.CATALOG, b"frontend/c")) == []
        assert list(snapshot.scan(Table.DELAYED)) == []


def test_a_snapshot_sees_nothing_later(store: Store) -> None:
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    model.append(changes, "t", [entry(b"1")])
    store.commit(changes)
    topic = model.topics["t"]
    with store.snapshot() as before:
        changes = Changes()
        model.append(changes, "t", [entry(b"2")])
        model.put(changes, KEY, b"late")
        store.commit(changes)
        assert read_log(before, topic) == {position_at(1, 0): entry(b"1")}
        assert before.get(Table.CATALOG, KEY) is None
        with store.snapshot() as after:
            assert_holds(after, model)


def test_a_snapshot_sees_what_is_trimmed_meanwhile(store: Store) -> None:
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    for _ in range(2):
        model.append(changes, "t", [entry(os.urandom(9_000))] * 50)
        store.commit(changes)
        changes = Changes()
        model.close_ledger(changes, "t")
    store.commit(changes)
    topic = model.topics["t"]
    with store.snapshot() as snapshot:
        before = read_log(snapshot, topic)
        for _ in range(5):  # so that the pages would have been used again
            changes = Changes()
            model.append(changes, "t", [entry(os.urandom(9_000))] * 50)
            model.close_ledger(changes, "t")
            model.drop_ledger(changes, "t")
            store.commit(changes)
        assert [body for _, run in snapshot.iter_blocks(topic.id) for body in run] == [
            *before.values()
        ]


def test_snapshots_are_read_in_threads_while_commits_go_on(store: Store) -> None:
    model, changes = StoreModel(), Changes()
    topic = model.create_topic(changes, "t")
    store.commit(changes)
    stop = threading.Event()
    problems: list[str] = []

    def read() -> None:
        while not stop.is_set():
            with store.snapshot() as snapshot:
                last = snapshot.last_position(topic.id)
                count = sum(len(run) for _, run in snapshot.iter_blocks(topic.id))
                expected = 0 if last is None else (last & 0xFFFFFFFF) + 1
                if count != expected:
                    problems.append(f"expected {expected} entries, got {count}")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(100):
        changes = Changes()
        model.append(changes, "t", [entry(b"%d" % number)] * 5)
        store.commit(changes)
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []


def test_closing_waits_for_snapshots(data_dir: Path) -> None:
    store = Store.open(data_dir)
    opened, close = threading.Event(), threading.Event()
    seen: list[int] = []

    def read() -> None:
        with store.snapshot() as snapshot:
            opened.set()
            assert close.wait(10)
            seen.append(snapshot.rows(Table.META))

    reader = threading.Thread(target=read)
    reader.start()
    assert opened.wait(10)
    threading.Timer(0.05, close.set).start()
    store.close()
    reader.join()
    assert seen == [1]


def test_closing_under_an_open_snapshot_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.store.data_file.live.SNAPSHOTS_WAIT_S", 0.0)
    with store.snapshot(), pytest.raises(RuntimeError, match="1 snapshots are still open"):
        store.close()
    store.commit(Changes(puts=[(Table.CATALOG, KEY, b"still open")]))


# Other processes

READ = """
import sys
from arneb_core.store.format.schema import Table, TopicId
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
with open_snapshot_environment(sys.argv[1]) as environment:
    print("ready", flush=True)
    for line in sys.stdin:
        with environment.snapshot() as snapshot:
            print(sum(len(run) for _, run in snapshot.iter_blocks(TopicId(1))), flush=True)
"""


def test_another_process_reads_beside_the_writer(store: Store) -> None:
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    store.commit(changes)
    with subprocess.Popen(
        [sys.executable, "-c", READ, store.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for count in range(1, 6):
            changes = Changes()
            model.append(changes, "t", [entry(bytes(50_000))] * 20)
            store.commit(changes)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{20 * count}\n"


HOLD = """
import sys
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
environment = open_snapshot_environment(sys.argv[1])
with environment.snapshot():
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_the_slot_of_a_killed_reader_is_freed(store: Store) -> None:
    store.commit(Changes(puts=[(Table.CATALOG, KEY, b"")]))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, store.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert store.reader_check() == 0
        process.kill()
    assert store.reader_check() == 1
    assert store.reader_check() == 0


def test_nothing_to_read_is_unusable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="holds no Arneb store"):
        open_snapshot_environment(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_in_the_writers_process_is_refused(store: Store) -> None:
    with pytest.raises(StoreUnusable, match="already open in this process"):
        open_snapshot_environment(store.path)


def _read_in_child(path: Path) -> None:
    with open_snapshot_environment(path) as environment, environment.snapshot() as snapshot:
        assert snapshot.get(Table.CATALOG, KEY) == b"v"


def test_a_forked_child_opens_its_own(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        store.commit(Changes(puts=[(Table.CATALOG, KEY, b"v")]))
    _read_in_child(data_dir)
    # As pyspark's daemon does.
    child = multiprocessing.get_context("fork").Process(target=_read_in_child, args=(data_dir,))
    child.start()
    child.join()
    assert child.exitcode == 0


# Copies


@pytest.mark.parametrize("compact", [False, True])
def test_a_hot_copy_is_a_store_as_of_then(store: Store, tmp_path: Path, compact: bool) -> None:
    model, changes = StoreModel(), Changes()
    model.create_topic(changes, "t")
    model.append(changes, "t", [entry(b"%d" % number) for number in range(100)])
    store.commit(changes)
    target = tmp_path / "copy"
    target.mkdir()
    with store.snapshot():
        store.copy(target, compact=compact)
    store.commit(Changes(puts=[(Table.CATALOG, KEY, b"later")]))
    assert check(target) == []
    with Store.open(target) as copy, copy.snapshot() as snapshot:
        assert_holds(snapshot, model)


def test_a_copy_over_something_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="cannot copy"):
        store.copy(tmp_path / "absent")
    store.copy(tmp_path)
    with pytest.raises(StoreFailed, match="File exists"):
        store.copy(tmp_path)


# Memory


def resident_bytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Rss in smaps_rollup")


def read_all(snapshot: Snapshot, topic_id: TopicId) -> int:
    position, count = Position(0), 0
    while runs := snapshot.read_blocks(topic_id, position, bytes_max=1 << 20):
        count += sum(len(run) for _, run in runs)
        position = Position(runs[-1][0] + len(runs[-1][1]))
    return count


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux only")
def test_reading_a_backlog_does_not_make_the_process_grow(store: Store) -> None:
    model, changes = StoreModel(), Changes()
    topic = model.create_topic(changes, "t")
    body = entry(bytes(10_000))
    for _ in range(10):
        model.append(changes, "t", [body] * 800)
        store.commit(changes)
        changes = Changes()
    assert store.size_bytes > 4 * FORGET_BYTES
    with store.snapshot() as snapshot:
        before = resident_bytes()
        assert read_all(snapshot, topic.id) == 8_000
        assert resident_bytes() - before < 2 * FORGET_BYTES
