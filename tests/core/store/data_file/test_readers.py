"""Readers of the store: long ones are named and told to end, and the broker keeps its slots."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio

from arneb_core.api.core import Unit
from arneb_core.engine.engine import open_engine
from arneb_core.store.data_file.opening import READERS_MAX
from arneb_core.store.data_file.readers import (
    ASKED_NAME,
    HELD_BYTES_MIN,
    ReaderWatch,
    parse_readers,
)
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table

SIZE = 1 << 20

READER = """
import sys, time
from arneb_core.store.format.schema import Table
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
with open_snapshot_environment(sys.argv[1]) as environment, environment.snapshot() as snapshot:
    print("reading", flush=True)
    sys.stdin.readline()
    while True:
        for _ in snapshot.scan(Table.META): pass
"""

GREEDY = """
import sys, lmdb
env = lmdb.open(sys.argv[1], readonly=True, lib_version=0, max_spare_txns=0)
taken = []
try:
    while True: taken.append(env.begin())
except lmdb.ReadersFullError:
    print(len(taken), flush=True)
sys.stdin.readline()
"""


@contextmanager
def another(code: str, path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process, which goes on when it is sent a line."""
    with subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def churn(store: Store, size: int) -> None:
    """Write so many bytes over and over again."""
    for number in range(size // SIZE):
        row = (Table.CATALOG, b"frontend/churn", bytes([number % 250]) * SIZE)
        store.commit(Changes(puts=[row]))


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_long_reader_is_named_with_what_it_costs(store: Store) -> None:
    clock = Clock()
    watch = ReaderWatch(store.path, store.readers, limit_s=300, clock=clock)
    churn(store, 4 * SIZE)
    with another(READER, store.path) as reader:
        assert line(reader) == "reading"
        assert watch.look() == []
        assert watch.long == ()
        churn(store, 8 * SIZE)
        clock.now += 250
        assert watch.look() == []
        [found] = watch.long
        assert (found.pid, found.age_s) == (reader.pid, 250)
        assert 7 * SIZE <= found.held_bytes <= 10 * SIZE
        clock.now += 100
        assert watch.look() == [], "a reader that keeps few pages was told to end"
        churn(store, HELD_BYTES_MIN)
        assert [each.pid for each in watch.look()] == [reader.pid]
        assert watch.look() == [], "named twice"
        assert (store.path / ASKED_NAME).exists()
    store.reader_check()
    assert watch.look() == []
    assert watch.long == ()
    assert not (store.path / ASKED_NAME).exists()


def test_a_reader_that_was_asked_to_end_gives_its_pages_back(store: Store) -> None:
    """In one transaction after the other it would never be seen for long."""
    clock = Clock()
    watch = ReaderWatch(store.path, store.readers, limit_s=1, clock=clock)
    with another(READER, store.path) as reader:
        assert line(reader) == "reading"
        watch.look()
        churn(store, 2 * HELD_BYTES_MIN)
        clock.now += 2
        assert len(watch.look()) == 1
        go_on(reader)
        _, complaint = reader.communicate(timeout=30)
    assert "StoreUnusable" in complaint or "AskedToEnd" in complaint
    assert "the broker asked for its pages back" in complaint
    assert parse_readers(store.readers()) == []


def test_short_reads_of_ours_are_never_named(store: Store) -> None:
    clock = Clock()
    watch = ReaderWatch(store.path, store.readers, limit_s=1, clock=clock)
    for _ in range(5):
        with store.snapshot():
            watch.look()
        churn(store, SIZE)
        clock.now += 100
        assert watch.look() == []
        assert watch.long == ()


def test_a_process_that_takes_every_slot_does_not_stop_the_brokers_reads(store: Store) -> None:
    with another(GREEDY, store.path) as greedy:
        taken = int(line(greedy))
        assert READERS_MAX - 20 < taken < READERS_MAX
        for _ in range(50):
            with store.snapshot() as one, store.snapshot() as two, store.snapshot() as three:
                for each in (one, two, three):
                    assert each.get(Table.META, b"format") is not None
            store.commit(Changes(puts=[(Table.CATALOG, b"frontend/a", b"")]))
    store.reader_check()


def test_requests_of_a_killed_broker_are_removed(store: Store) -> None:
    (store.path / ASKED_NAME).write_text(f"[[{os.getpid()}, 1]]")
    ReaderWatch(store.path, store.readers)
    assert not (store.path / ASKED_NAME).exists()


@pytest.mark.real_time
async def test_the_engine_names_a_stuck_reader_in_its_log_and_its_statistics(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with open_engine(data_dir, reader_limit_s=0.2) as engine:
            with another(READER, data_dir) as reader:
                assert await trio.to_thread.run_sync(line, reader) == "reading"
                with trio.fail_after(30):
                    while not caplog.records:
                        for number in range(4):
                            value = bytes([number]) * SIZE
                            await engine.committed(Unit(metadata=[("churn", value)]))
                        await trio.lowlevel.checkpoint()
                [found] = engine.statistics().long_readers
                assert found.pid == reader.pid
    assert re.search(rf"process {reader.pid} has been reading the store for \d+ s", caplog.text)
    with suppress(FileNotFoundError):
        assert not (data_dir / ASKED_NAME).exists()
