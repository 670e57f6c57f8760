"""Disk interrupts: which are the disk's, and when the loop is taken to the processor they reach."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.store.commit.disk_interrupts import (
    INTERRUPTS_MIN,
    LOOK_WRITES,
    MOST,
    DiskInterrupts,
    Linux,
    count_files,
)


class Threads:
    """A thread on a processor of a machine, which stays where it is put."""

    def __init__(self, at: int = 0, *, idle: bool = True) -> None:
        self.at = at
        self.idle = idle
        self.moves: list[int] = []

    def processor(self) -> int:
        return self.at

    def is_any_idle(self) -> bool:
        return self.idle

    def move(self, processor: int) -> None:
        self.at = processor
        self.moves.append(processor)


class Counts:
    """The files of a disk's interrupts."""

    def __init__(self, directory: Path, processors: int = 2, interrupts: int = 2) -> None:
        self.files = [directory / f"count{number}" for number in range(interrupts)]
        # Before the broker started, they went to the last processor.
        self._counts = [[0] * (processors - 1) + [1_000_000] for _ in self.files]
        self._write()

    def add(self, *since: int, interrupt: int = 1) -> None:
        """Count so many more interrupts of each processor."""
        row = self._counts[interrupt]
        self._counts[interrupt] = [then + more for then, more in zip(row, since, strict=True)]
        self._write()

    def _write(self) -> None:
        for file, row in zip(self.files, self._counts, strict=True):
            file.write_text(",".join(map(str, row)) + "\n")


def write(interrupts: DiskInterrupts, times: int = LOOK_WRITES) -> None:
    for _ in range(times):
        interrupts.written()


def looked(directory: Path, threads: Threads, *since: int) -> DiskInterrupts:
    """Interrupts that were looked at twice, and came ``since`` in between."""
    counts = Counts(directory, len(since))
    interrupts = DiskInterrupts(counts.files, threads)
    write(interrupts)
    assert not threads.moves, "expected no move at the first look, which knows nothing"
    counts.add(*since)
    write(interrupts)
    return interrupts


def test_the_loop_goes_where_the_disk_interrupts(tmp_path: Path) -> None:
    threads = Threads(at=0)
    interrupts = looked(tmp_path, threads, 0, 2 * LOOK_WRITES)
    assert threads.moves == [1]
    assert repr(interrupts) == "<DiskInterrupts 2 of the disk, 1 moves>"


def test_it_is_taken_there_again_when_the_system_has_moved_it(tmp_path: Path) -> None:
    threads, counts = Threads(at=0), Counts(tmp_path)
    interrupts = DiskInterrupts(counts.files, threads)
    for _ in range(4):
        counts.add(0, 2 * LOOK_WRITES)
        write(interrupts)
        threads.at = 0
    assert threads.moves == [1] * 3


def test_it_looks_once_in_so_many_writes(tmp_path: Path) -> None:
    threads, counts = Threads(at=0), Counts(tmp_path)
    interrupts = DiskInterrupts(counts.files, threads)
    write(interrupts)
    counts.add(0, 2 * LOOK_WRITES)
    write(interrupts, LOOK_WRITES - 1)
    assert not threads.moves
    interrupts.written()
    assert threads.moves == [1]


@pytest.mark.parametrize(
    ("at", "idle", "since"),
    [
        pytest.param(1, True, (0, 2 * LOOK_WRITES), id="it is there"),
        pytest.param(0, False, (0, 2 * LOOK_WRITES), id="no processor is idle"),
        pytest.param(0, True, (0, INTERRUPTS_MIN - 1), id="they are not of these writes"),
        pytest.param(0, True, (LOOK_WRITES, LOOK_WRITES), id="several processors have them"),
        pytest.param(2, True, (100, 100, 1800, 0), id="the one that writes has them"),
    ],
)
def test_it_stays_where_it_is(tmp_path: Path, at: int, idle: bool, since: tuple[int, ...]) -> None:
    threads = Threads(at, idle=idle)
    looked(tmp_path, threads, *since)
    assert not threads.moves


@given(st.lists(st.integers(0, 4 * LOOK_WRITES), min_size=1, max_size=8), st.data())
def test_it_goes_only_where_nearly_all_interrupts_went(
    tmp_path_factory: pytest.TempPathFactory, since: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(since) - 1))
    threads = Threads(at)
    looked(tmp_path_factory.mktemp("counts"), threads, *since)
    goals = [
        each
        for each, count in enumerate(since)
        if each != at and sum(since) >= INTERRUPTS_MIN and count >= MOST * sum(since)
    ]
    assert threads.moves == goals


def test_interrupts_of_all_kinds_count_together(tmp_path: Path) -> None:
    threads, counts = Threads(at=0, idle=True), Counts(tmp_path)
    interrupts = DiskInterrupts(counts.files, threads)
    write(interrupts)
    counts.add(0, LOOK_WRITES, interrupt=0)
    counts.add(LOOK_WRITES, 0, interrupt=1)
    write(interrupts)
    assert not threads.moves


@pytest.mark.parametrize("content", ["", "many,of,them\n", None])
def test_what_cannot_be_read_is_not_read_again(tmp_path: Path, content: str | None) -> None:
    threads, counts = Threads(at=0), Counts(tmp_path)
    interrupts = DiskInterrupts(counts.files, threads)
    write(interrupts)
    if content is None:
        counts.files[0].unlink()
    else:
        counts.files[0].write_text(content)
    write(interrupts)
    counts.add(0, 2 * LOOK_WRITES)
    write(interrupts, 3 * LOOK_WRITES)
    assert not threads.moves
    assert repr(interrupts) == "<DiskInterrupts 0 of the disk, 0 moves>"


# The system


class Machine:
    """A machine's sysfs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def controller(self, name: str, *interrupts: int) -> Path:
        """A controller with these interrupts."""
        path = self.root / "devices" / "pci0000:00" / name
        for interrupt in interrupts:
            self._file(path / "msi_irqs" / str(interrupt), "msi\n")
            self._file(self._count(interrupt), "0,0\n")
        return path

    def disk(self, path: Path, number: str, *slaves: Path) -> Path:
        """A block device."""
        path.mkdir(parents=True)
        for slave in slaves:
            (path / "slaves").mkdir(exist_ok=True)
            (path / "slaves" / slave.name).symlink_to(slave)
        link = self.root / "dev" / "block" / number
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
        return path

    def files(self, major: int, minor: int) -> list[Path]:
        return count_files(os.makedev(major, minor), self.root)

    def counts(self, *interrupts: int) -> list[Path]:
        return list(map(self._count, interrupts))

    def _count(self, interrupt: int) -> Path:
        return self.root / "kernel" / "irq" / str(interrupt) / "per_cpu_count"

    @staticmethod
    def _file(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_partition_has_the_interrupts_of_its_disk(machine: Machine) -> None:
    controller = machine.controller("0000:00:02.0", 9, 10, 36)
    machine.controller("0000:00:03.0", 40)
    disk = machine.disk(controller / "virtio1" / "block" / "vda", "254:0")
    machine.disk(disk / "vda1", "254:1")
    assert machine.files(254, 1) == machine.files(254, 0) == machine.counts(9, 10, 36)


def test_a_device_of_several_disks_has_the_interrupts_of_all(machine: Machine) -> None:
    first = machine.disk(machine.controller("a", 20) / "block" / "sda", "8:0")
    second = machine.disk(machine.controller("b", 30) / "block" / "sdb", "8:16")
    virtual = machine.root / "devices" / "virtual" / "block"
    mirror = machine.disk(virtual / "md0", "9:0", first, second)
    machine.disk(virtual / "dm-0", "253:0", mirror)
    assert machine.files(253, 0) == machine.counts(20, 30)


def test_an_interrupt_that_is_not_counted_is_left_out(machine: Machine) -> None:
    controller = machine.controller("a", 20, 21)
    machine.counts(20)[0].unlink()
    machine.disk(controller / "block" / "sda", "8:0")
    assert machine.files(8, 0) == machine.counts(21)


def test_what_is_on_no_disk_has_none(machine: Machine) -> None:
    machine.disk(machine.root / "devices" / "virtual" / "block" / "loop0", "7:0")
    assert machine.files(7, 0) == machine.files(0, 42) == []


def test_a_directory_that_is_gone_has_none(tmp_path: Path) -> None:
    assert repr(DiskInterrupts.of(tmp_path / "gone")) == "<DiskInterrupts 0 of the disk, 0 moves>"


def test_the_thread_is_taken_to_a_processor_and_may_leave_it() -> None:
    threads, allowed = Linux(), os.sched_getaffinity(0)
    for processor in allowed:
        threads.move(processor)
        assert os.sched_getaffinity(0) == allowed
        assert threads.processor() in allowed


def test_it_is_not_taken_where_it_may_not_run() -> None:
    allowed = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def with_one() -> None:
        mine = {min(allowed)}
        os.sched_setaffinity(0, mine)
        Linux().move(max(allowed) + 1)
        Linux().move(max(allowed))
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=with_one)  # its processors are its own
    thread.start()
    thread.join()
    assert seen == [{min(allowed)}]


@pytest.mark.parametrize(("runnable", "is_idle"), [(1, True), (3, True), (4, False), (17, False)])
def test_a_processor_is_idle_while_fewer_threads_run_than_there_are(
    monkeypatch: pytest.MonkeyPatch, runnable: int, is_idle: bool
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"0.4 0.1 0.0 %d/345 1234\n" % runnable)
    assert Linux().is_any_idle() is is_idle
