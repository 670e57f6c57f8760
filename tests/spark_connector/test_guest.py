"""Readers are guests on the broker's machine: they step back before they read, and for as long as
the process lives."""

import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_arneb import batch
from pyspark_arneb.batch import BatchReader, LogPartition
from pyspark_arneb.guest import SCHED_SETATTR, SLICE_NS
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.options import ReadOptions, read_options
from pyspark_arneb.processes import jvm_above
from pyspark_arneb.service.connection import Address

NICE = """
import os
# 0 is what leaves everything as it is, and whoever runs the tests may be less nice than that.
os.setpriority(os.PRIO_PROCESS, 0, max(os.nice(0), 1))
"""

STEPS = """
from pyspark_arneb.guest import step_back
before = os.nice(0)
for further in (0, 3, 1, 3):
    step_back(before + further)
    print(os.nice(0) - before)
"""


def test_a_worker_steps_back_so_far_and_never_comes_forward_again() -> None:
    command = [sys.executable, "-c", NICE + STEPS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "3", "3", "3"]


ONES_JVM = """
import subprocess, sys, threading
from pathlib import Path

def named(name):
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)

named("java")
over, ready = threading.Event(), threading.Barrier(4)

def thread(name):
    named(name)
    ready.wait()
    over.wait()

for name in (sys.argv[1], "Thread-4", "stream execution thread"[:15]):
    threading.Thread(target=thread, args=[name]).start()
ready.wait()
before = os.nice(0)
worker = f"from pyspark_arneb.guest import step_back; step_back({before + 3})"
if sys.argv[2] == "daemon":
    run = f"subprocess.run([sys.executable, '-c', {worker!r}], check=True)"
    worker = f"import subprocess, sys; {run}"
subprocess.run([sys.executable, "-c", worker], check=True)
for each in sorted(os.listdir("/proc/self/task"), key=int):
    print(os.getpriority(os.PRIO_PROCESS, int(each)) - before)
over.set()
"""


@pytest.mark.parametrize("between", ["daemon", "nobody"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Executor task launch worker-0", ["3", "3", "0", "0"]),
        ("else", ["0", "0", "0", "0"]),
    ],
)
def test_the_jvm_of_a_worker_lowers_its_priority_too_except_the_threads_that_start_workers(
    name: str, expected: list[str], between: str
) -> None:
    command = [sys.executable, "-c", NICE + ONES_JVM, name[:15], between]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


def test_names_that_linux_cut_within_a_character_are_passed_over(tmp_path: Path) -> None:
    threads = {70: "auslieferungsüberwachung".encode()[:14], 71: b"Executor task l"}
    for thread, name in threads.items():
        place = tmp_path / "70" / "task" / str(thread)
        place.mkdir(parents=True)
        (place / "comm").write_bytes(name + b"\n")
    place = tmp_path / "80"
    place.mkdir()
    (place / "stat").write_bytes(b"80 (d\xc3) S 70 80 80 0 -1")
    assert jvm_above(80, tmp_path) == 70


SLICES = """
import ctypes, platform, threading
from pyspark_arneb.guest import SCHED_SETATTR, Attributes, step_back

def slice_of(thread):
    found = Attributes()
    number = SCHED_SETATTR[platform.machine()] + 1  # that of sched_getattr
    assert not ctypes.CDLL(None).syscall(number, thread, ctypes.byref(found), 48, 0)
    return found.slice_ns

over = threading.Event()
other = threading.Thread(target=over.wait)
other.start()
usual = slice_of(0)
step_back(0)
assert slice_of(0) == usual, "0 leaves everything as it is"
step_back(os.nice(0) + 1)
print(*(slice_of(thread) for thread in (0, other.native_id)))
over.set()
"""


@pytest.mark.skipif(
    platform.machine() not in SCHED_SETATTR
    or tuple(map(int, platform.release().split(".")[:2])) < (6, 12),
    reason="Linux has slices that are asked for since its version 6.12",
)
def test_all_threads_of_a_worker_give_way_at_once_to_woken_threads() -> None:
    command = [sys.executable, "-c", NICE + SLICES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(SLICE_NS)] * 2


@pytest.mark.parametrize(
    ("given", "expected"), [({}, 10), ({"nice": "0"}, 0), ({"nice": "19"}, 19)]
)
def test_a_reader_of_a_directory_lowers_its_priority_as_the_option_says(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: int
) -> None:
    steps: list[int] = []

    def guest(niceness: int) -> AbstractContextManager[Callable[[], None]]:
        steps.append(niceness)
        return nullcontext(lambda: None)

    monkeypatch.setattr(batch, "guest", guest)
    options = read_options({"path": "/nowhere", "topic": "t", **given})
    assert list(reader(options).read(LogPartition())) == []
    assert steps == [expected]
    away = replace(options, location=Remote(Address("http://127.0.0.1:1")))
    assert list(reader(away).read(LogPartition())) == []
    assert steps == [expected, 0], "readers over HTTP must not be made nice"


def reader(options: ReadOptions) -> BatchReader:
    assert isinstance(options.location, Directory | Remote)
    return BatchReader(options, [], None)
