"""Who belongs to whom among this machine's processes, as Linux tells it in ``/proc``.

The rule: nobody is asked and nothing is changed; what the system does not say is nobody's.
"""

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")

TASK_THREAD: Final = b"Executor task l"
"""What Linux keeps of the name of a thread that runs Spark's tasks: who has one is the JVM."""

STARTING: Final = (b"Thread-", b"stream executio")
"""How the names of threads begin in which a query is planned: those that serve the driver's Python,
and those of streaming queries. They start Spark's workers for sources and sinks of streams."""

GENERATIONS: Final = 3
"""How far above a worker its JVM is looked for: Spark's daemon is between the two, or is not."""


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


def plans_queries(process: int, thread: int, proc: Path = PROC) -> bool:
    """Whether a thread of a JVM is one of those that start workers."""
    return _name(process, thread, proc).startswith(STARTING)


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
