"""Being a guest: how a reader on the broker's machine leaves the broker its processors.

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
