"""Being a guest: which processors a reader on the broker's machine has, and how it leaves them to
the broker.

The rule: who reads a data directory steps back behind the broker before the first read: the Python
worker, and the JVM that it feeds. They stay so, for only the superuser may take that back: if Spark
uses them again for another query, that runs as nice.
"""

import ctypes
import os
import platform
import sys
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")

TASK_THREAD: Final = b"Executor task l"
"""What Linux keeps of the name of a thread that runs Spark's tasks: who has one is the JVM."""

GENERATIONS: Final = 3
"""How far above a worker its JVM is looked for: Spark's daemon is between the two, or is not."""

SLICE_NS: Final = 100_000_000
"""The longest that Linux takes.

Since its version 6.12 whoever wakes up and has a shorter slice is served at once. With equal slices
who has a processor keeps it until the next tick, up to 4 ms, however nice it is; a broker at full
speed goes to sleep some thousand times a second, and lost a fifth of its processor so. Rejected:
SCHED_IDLE, which gives way as fast, but gets next to nothing beside a machine that is full, also
while it has a transaction open."""

SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355}
"""The number of the system call, by machine."""


class Attributes(ctypes.Structure):
    """Linux's ``struct sched_attr``, in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("slice_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def step_back(niceness: int, proc: Path = PROC) -> None:
    """Let this process, and the JVM that it works for if there is one, be at least so nice, and
    give way at once to whoever wakes up. 0 leaves everything as it is."""
    if not niceness:
        return
    for process in (os.getpid(), jvm_above(os.getppid(), proc)):
        if process is not None:
            for thread in threads_of(process, proc):
                _step_back(thread, niceness)


def jvm_above(process: int, proc: Path = PROC) -> int | None:
    """The JVM whose task a worker does, by the worker's parent; None where there is none or the
    system does not say."""
    for _ in range(GENERATIONS):
        names = {thread: _name(process, thread, proc) for thread in threads_of(process, proc)}
        if TASK_THREAD in names.values():
            return process
        process = _parent(process, proc)
    return None


def threads_of(process: int, proc: Path = PROC) -> list[int]:
    """All that there are now: to Linux each of them is as nice as it is by itself."""
    try:
        return [int(each) for each in os.listdir(proc / str(process) / "task")]
    except OSError:  # not Linux, or gone
        return [0] if process == os.getpid() else []


def _name(process: int, thread: int, proc: Path) -> bytes:
    """Not as text: Linux cuts names after 15 bytes, in the middle of a character too."""
    try:
        return (proc / str(process) / "task" / str(thread) / "comm").read_bytes().rstrip(b"\n")
    except OSError:
        return b""


def _parent(process: int, proc: Path) -> int:
    """0 if nobody knows."""
    try:
        return int((proc / str(process) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _step_back(thread: int, niceness: int) -> None:
    try:
        nice = max(niceness, os.getpriority(os.PRIO_PROCESS, thread))
        os.setpriority(os.PRIO_PROCESS, thread, nice)
        if sys.platform == "linux" and os.sched_getscheduler(thread) == os.SCHED_OTHER:
            _give_way(thread, nice)
    except OSError:  # it has ended, or is another user's
        pass


def _give_way(thread: int, nice: int) -> None:
    """Ask for long slices. What Linux before 6.12 does not understand, it takes no notice of."""
    number = SCHED_SETATTR.get(platform.machine())
    if number is not None:
        wanted = Attributes(ctypes.sizeof(Attributes), os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, thread, ctypes.byref(wanted), 0)


def cores() -> int:
    """The log is on this machine's disk, so this machine's cores will read it."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(affinity(0)) if affinity else os.cpu_count() or 1
