"""How processes and threads on this machine are related, from Linux's ``/proc``.

The rule: this module only reads. Whatever the system does not reveal counts as absent.
"""

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")

TASK_THREAD: Final = b"Executor task l"
"""The name, as Linux cuts it, of a thread that runs Spark's tasks: the process that has one is the
JVM."""

STARTING: Final = (b"Thread-", b"stream executio")
"""Prefixes of the names of threads in which a query is planned: those that serve the driver's
Python, and those of streaming queries. They start Spark's workers for sources and sinks of
streams."""

GENERATIONS: Final = 3
"""How many ancestors of a worker are searched for the JVM: Spark's daemon may be between the
two."""


def jvm_above(process: int, proc: Path = PROC) -> int | None:
    """Return the JVM whose task a worker runs, given the worker's parent; None if there is none or
    the system does not tell."""
    for _ in range(GENERATIONS):
        names = {thread: _name(process, thread, proc) for thread in threads_of(process, proc)}
        if TASK_THREAD in names.values():
            return process
        process = _parent(process, proc)
    return None


def threads_of(process: int, proc: Path = PROC) -> list[int]:
    """Return all current threads of a process: Linux keeps a niceness for each thread."""
    try:
        return [int(each) for each in os.listdir(proc / str(process) / "task")]
    except OSError:  # not Linux, or gone
        return [0] if process == os.getpid() else []


def plans_queries(process: int, thread: int, proc: Path = PROC) -> bool:
    """Return whether a JVM's thread is one of those that start workers."""
    return _name(process, thread, proc).startswith(STARTING)


def _name(process: int, thread: int, proc: Path) -> bytes:
    """Return a thread's name, as bytes: Linux cuts names after 15 bytes, possibly inside a
    character."""
    try:
        return (proc / str(process) / "task" / str(thread) / "comm").read_bytes().rstrip(b"\n")
    except OSError:
        return b""


def _parent(process: int, proc: Path) -> int:
    """Return the parent of a process; 0 if unknown."""
    try:
        return int((proc / str(process) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0
