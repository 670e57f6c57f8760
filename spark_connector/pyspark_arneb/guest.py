"""Being a guest: which processors a reader on the broker's machine has, and how it leaves them to
the broker.

The rule: a Python worker that reads a data directory steps back behind the broker before its first
read. It stays so, for only the superuser may take that back: if Spark uses the worker again for
another query's Python, that runs as nice.
"""

import os


def step_back(niceness: int) -> None:
    """Let this process be at least so nice."""
    missing = niceness - os.nice(0)
    if missing > 0:
        os.nice(missing)


def cores() -> int:
    """The log is on this machine's disk, so this machine's cores will read it."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(affinity(0)) if affinity else os.cpu_count() or 1
