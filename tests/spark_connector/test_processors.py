"""Guests make room: they keep to the last processors while somebody who is not nice is at work."""

import os
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark_connector.test_guest import reader

from pyspark_arneb import batch, guest
from pyspark_arneb.options import read_options
from pyspark_arneb.processors import (
    CHECK_INTERVAL_S,
    WORK,
    Processors,
    left_to_others,
    ticks,
    used_by_others,
)

WORKER = os.getpid()
JVM = os.getppid()
"""Where a worker looks for it first."""

FIRST = 10_000_000
"""Of the further threads' numbers: above all that are processes."""


@dataclass
class FakeAffinity:
    """Threads that run where they are told to."""

    threads: dict[int, frozenset[int]]
    calls: int = 0

    def of(self, thread: int) -> frozenset[int]:
        return self.threads.get(thread, frozenset())

    def set(self, thread: int, to: Collection[int]) -> None:
        self.calls += 1
        self.threads[thread] = frozenset(to)


@dataclass
class Machine:
    """Four processors, a worker of two threads and a JVM of three, and a clock."""

    folder: Path
    now_s: float = 0.0
    ticks: list[list[int]] = field(default_factory=lambda: [[0] * 10 for _ in range(4)])

    def __post_init__(self) -> None:
        self.affinity = FakeAffinity({})
        for process, thread, name in (
            (WORKER, WORKER, "python"),
            (WORKER, FIRST, "io"),
            (JVM, JVM, "java"),
            (JVM, FIRST + 1, "Executor task l"),
            (JVM, FIRST + 2, "GC"),
        ):
            self.affinity.threads[thread] = ALL
            place = self.folder / str(process) / "task" / str(thread)
            place.mkdir(parents=True)
            (place / "comm").write_text(f"{name}\n")
        self.passes(0.0)

    def passes(self, seconds: float, *, others: float = 0.0, guests: float = 0.0) -> None:
        """Others and guests use so much of each processor meanwhile."""
        self.now_s += seconds
        for each in self.ticks:
            for column, part in ((0, others), (1, guests), (3, 1 - others - guests)):
                each[column] += round(100 * seconds * part)
        lines = [f"cpu{n} {' '.join(map(str, each))}" for n, each in enumerate(self.ticks)]
        (self.folder / "stat").write_text("\n".join(["cpu  9 9 9 9 9 9 9 9", *lines, "intr 9", ""]))

    def processors(self) -> Processors:
        return Processors(self.folder, self.affinity, lambda: self.now_s, self.folder / "stat")

    def kept_to(self) -> set[frozenset[int]]:
        """Where the worker's threads are, and those of its JVM that do something."""
        return {to for thread, to in self.affinity.threads.items() if thread != JVM}


ALL = frozenset(range(4))
HALF = frozenset({2, 3})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_guest_has_all_processors_as_long_as_only_guests_are_at_work(machine: Machine) -> None:
    mine = machine.processors()
    mine.begin()
    assert machine.kept_to() == {HALF}, "nothing is known of other readers yet"
    machine.passes(CHECK_INTERVAL_S, guests=1.0)
    mine.look()
    done = machine.affinity.calls
    for _ in range(5):
        machine.passes(CHECK_INTERVAL_S, guests=1.0)
        mine.look()
    assert machine.kept_to() == {ALL}
    assert machine.affinity.calls == done, "nothing must change while nobody else works"


def test_worker_and_jvm_keep_to_the_last_processors_while_others_work(machine: Machine) -> None:
    mine = machine.processors()
    mine.begin()
    machine.passes(1.0, others=0.1, guests=0.9)
    mine.look()
    assert machine.kept_to() == {frozenset({1, 2, 3})}
    machine.passes(1.0, others=0.8, guests=0.2)
    mine.look()
    assert machine.kept_to() == {HALF}, "readers must keep at least half of the processors"
    assert machine.affinity.threads[JVM] == ALL, "the JVM's first thread must keep all processors"
    machine.passes(1.0, guests=1.0)
    mine.look()
    assert machine.kept_to() == {ALL}


def test_when_a_read_ends_no_thread_stays_where_room_was_made(machine: Machine) -> None:
    mine = machine.processors()
    mine.begin()
    machine.passes(1.0, others=0.5)
    mine.look()
    mine.end()
    assert machine.kept_to() == {ALL}
    machine.passes(CHECK_INTERVAL_S / 2)
    mine.begin()
    assert machine.kept_to() == {HALF}, "what others needed a moment ago must still be known"


def test_a_read_that_goes_on_takes_its_jvm_back_after_another_has_ended(machine: Machine) -> None:
    one, other = machine.processors(), machine.processors()
    one.begin()
    other.begin()
    machine.passes(1.0, others=0.5)
    one.look()
    other.end()
    assert machine.kept_to() == {ALL}
    machine.passes(1.0, others=0.5)
    one.look()
    assert machine.kept_to() == {HALF}


def test_what_happens_between_reads_is_not_others_work(machine: Machine) -> None:
    mine = machine.processors()
    mine.begin()
    machine.passes(CHECK_INTERVAL_S, guests=1.0)
    mine.end()
    machine.passes(10.0, others=1.0)
    mine.begin()
    assert machine.kept_to() == {ALL}, "a reader that works alone must get all processors"
    machine.passes(CHECK_INTERVAL_S, guests=1.0)
    mine.look()
    assert machine.kept_to() == {ALL}


def test_reads_that_are_shorter_than_a_look_see_it_together(machine: Machine) -> None:
    mine = machine.processors()
    kept = []
    for _ in range(5):
        mine.begin()
        kept.append(machine.kept_to())
        machine.passes(CHECK_INTERVAL_S / 2, guests=1.0)
        mine.look()
        mine.end()
        machine.passes(1.0, others=1.0)
    assert kept == [{HALF}, {HALF}, {ALL}, {ALL}, {ALL}]
    for _ in range(2):
        mine.begin()
        machine.passes(CHECK_INTERVAL_S / 2, others=0.5)
        mine.end()
    mine.begin()
    assert machine.kept_to() == {HALF}


def test_processor_times_are_not_read_more_often_than_the_kernel_updates_them(
    machine: Machine,
) -> None:
    mine = machine.processors()
    mine.begin()
    machine.passes(CHECK_INTERVAL_S / 2, guests=1.0)
    mine.look()
    assert machine.kept_to() == {HALF}
    machine.passes(CHECK_INTERVAL_S / 2, guests=1.0)
    mine.look()
    assert machine.kept_to() == {ALL}


def test_where_one_that_made_room_was_killed_the_next_has_all_again(machine: Machine) -> None:
    for thread in machine.affinity.threads.keys() - {JVM}:
        machine.affinity.threads[thread] = frozenset({3})
    mine = machine.processors()
    assert mine.all() == ALL
    mine.begin()
    machine.passes(CHECK_INTERVAL_S, guests=1.0)
    mine.look()
    assert machine.kept_to() == {ALL}


def test_where_the_system_says_nothing_nothing_is_changed(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    mine = Processors(nowhere, FakeAffinity({}), lambda: 0.0, nowhere / "stat")
    mine.begin()
    mine.look()
    mine.end()
    assert mine.all() == frozenset()


@given(st.floats(0, 1000), st.integers(1, 1000))
def test_others_are_left_what_they_use_and_guests_at_least_half(used: float, have: int) -> None:
    left = left_to_others(used, have)
    assert 0 <= left <= have / 2
    assert (left == 0) == (used < WORK or have == 1)
    assert left >= min(used, have // 2) or used < WORK


def test_only_the_time_of_processes_at_normal_priority_on_the_same_processors_counts(
    machine: Machine,
) -> None:
    before = ticks(machine.folder / "stat")
    machine.passes(10.0, others=0.25, guests=0.5)
    after = ticks(machine.folder / "stat")
    assert used_by_others(before, after, ALL) == pytest.approx(1.0)
    assert used_by_others(before, after, {2, 99}) == pytest.approx(0.25)
    assert used_by_others({}, after, ALL) == used_by_others(after, after, ALL) == 0


def test_a_read_makes_room_at_every_batch_and_gives_it_back(
    monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    mine = machine.processors()
    monkeypatch.setattr(batch, "guest", guest.guest)
    monkeypatch.setattr(guest, "step_back", lambda niceness: None)
    monkeypatch.setattr(guest, "processors", lambda: mine)
    monkeypatch.setattr(batch.BatchReader, "_rows", lambda self, partition: iter("abc"))
    found = []
    for _ in reader(read_options({"path": "/nowhere", "topic": "t"})).read(batch.LogPartition()):
        found.append(machine.kept_to())
        machine.passes(1.0, others=0.5 if len(found) > 1 else 0)
    assert found == [{HALF}, {ALL}, {HALF}]
    assert machine.kept_to() == {ALL}
    rude = reader(read_options({"path": "/nowhere", "topic": "t", "nice": "0"}))
    assert [machine.kept_to() for _ in rude.read(batch.LogPartition())] == 3 * [{ALL}]


THREADS = """
import os, subprocess, sys, threading
from pathlib import Path

over, ready = threading.Event(), threading.Event()

def task():
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("Executor task l")
    ready.set()
    over.wait()

threading.Thread(target=task).start()
ready.wait()
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
over.set()
"""

ROOM = """
import os
from pathlib import Path
from pyspark_arneb.processors import Processors

stat, have, now_s = Path("stat"), sorted(os.sched_getaffinity(0)), 0

def others_have_spent(ticks):
    stat.write_text("".join(f"cpu{n} {ticks} {100 * now_s} 0 0 0 0 0 0 0 0\\n" for n in have))

def say():
    jvm = os.getppid()
    assert os.sched_getaffinity(jvm) == set(have)
    threads = {int(each) for each in os.listdir(f"/proc/{jvm}/task")} - {jvm} | {0}
    (found,) = {tuple(sorted(os.sched_getaffinity(each))) for each in threads}
    print("all" if list(found) == have else "some")

mine = Processors(now_s=lambda: now_s, stat=stat)
others_have_spent(0)
mine.begin()
say()
now_s = 1
mine.look()
say()
others_have_spent(100)
now_s = 2
mine.look()
say()
mine.end()
say()
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="who has one processor cannot leave another",
)
def test_linux_moves_a_worker_and_its_jvm_and_gives_them_back_what_they_had(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", THREADS, ROOM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["some", "all", "some", "all"]
