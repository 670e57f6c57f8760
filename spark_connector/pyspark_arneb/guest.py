"""Being a guest: how a reader on the broker's machine leaves its processors to the broker.

The rule: a process that reads a data directory lowers its priority below the broker's before the
first read, and makes room for others while it reads: the Python worker and the JVM that it feeds.
Both keep the lower priority afterwards, because only the superuser may raise it again: another
query in the same processes runs at it too.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark_arneb.processes import PROC, jvm_above, plans_queries, threads_of
from pyspark_arneb.processors import processors

SLICE_NS: Final = 100_000_000
"""The longest slice that Linux accepts.

Since Linux 6.12 a waking thread with a shorter slice runs at once. With equal slices the running
thread keeps the processor until the next tick, up to 4 ms, however nice it is; a broker at full
speed sleeps some thousand times a second, and lost a fifth of its processor that way. Rejected:
SCHED_IDLE, which gives way as fast, but gets almost no time on a fully loaded machine, even while
it has a transaction open.
"""

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


@contextmanager
def guest(niceness: int) -> Iterator[Callable[[], None]]:
    """Be a guest while the block runs. The block is given a function to call now and then, which
    makes room for others. A niceness of 0 changes nothing."""
    if not niceness:
        yield lambda: None
        return
    step_back(niceness)
    mine = processors()
    mine.begin()
    try:
        yield mine.look
    finally:
        mine.end()


def step_back(niceness: int, proc: Path = PROC) -> None:
    """Raise the niceness of this process, and of the JVM that it works for if there is one, to at
    least ``niceness``, and give way at once to waking threads. 0 changes nothing.

    Threads of the JVM that plan queries are left alone: they do little, and what they start
    inherits their niceness. Spark gives a stream's worker ten seconds to start, which no setting
    changes; where others leave no processor free, a nice worker takes longer, and the query would
    fail.
    """
    if not niceness:
        return
    for process in (os.getpid(), jvm_above(os.getppid(), proc)):
        if process is not None:
            for thread in threads_of(process, proc):
                if process == os.getpid() or not plans_queries(process, thread, proc):
                    _step_back(thread, niceness)


def _step_back(thread: int, niceness: int) -> None:
    try:
        nice = max(niceness, os.getpriority(os.PRIO_PROCESS, thread))
        os.setpriority(os.PRIO_PROCESS, thread, nice)
        if sys.platform == "linux" and os.sched_getscheduler(thread) == os.SCHED_OTHER:
            _give_way(thread, nice)
    except OSError:  # it has ended, or is another user's
        pass


def _give_way(thread: int, nice: int) -> None:
    """Ask for long slices. Linux before 6.12 ignores them."""
    number = SCHED_SETATTR.get(platform.machine())
    if number is not None:
        wanted = Attributes(ctypes.sizeof(Attributes), os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, thread, ctypes.byref(wanted), 0)
