"""Tests on several workers at once: which of them share a worker, and which want the machine.

The rule: a test that asserts how long something took (marked ``alone``) runs while no other does;
all the rest run beside each other, a file of tests on one worker, in the order of collection.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

ALONE: Final = "alone"
"""The marker, and the group, of what is measured: it comes last, when nothing else is left."""

DEAR_FIXTURES: Final = ("spark",)
"""What each worker would otherwise have to start for itself (a JVM): who asks for it runs on one
worker, and as that takes the longest, first."""

LOCKS: Final = "ARNEB_TESTS_LOCKS"
"""The environment variable that tells the workers where their run has its locks."""


def is_divided(config: pytest.Config) -> bool:
    """Whether this run has several workers."""
    return config.getoption("dist", "no") != "no" or LOCKS in os.environ


def make_locks(config: pytest.Config) -> None:
    """In the process that starts the workers, before it does."""
    if is_divided(config) and LOCKS not in os.environ:
        os.environ[LOCKS] = folder = tempfile.mkdtemp(prefix="arneb-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def give_groups(items: list[pytest.Item]) -> None:
    """Put into one group what one worker is to run, the groups in a good order."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (groups[item] == ALONE, groups[item] not in DEAR_FIXTURES))


def _group(item: pytest.Item) -> str:
    if item.get_closest_marker(ALONE) is not None:
        return ALONE
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in DEAR_FIXTURES:
            return str(fixture)
    return item.nodeid.partition("::")[0]


@contextmanager
def beside_others(item: pytest.Item) -> Iterator[None]:
    """Hold the machine while a test runs: all of it if it must be alone, else a share.

    There are two locks: who waits for the machine holds the first, so that no new share is given
    out meanwhile. A lock of a file goes with its process, however that ends.
    """
    is_alone = item.get_closest_marker(ALONE) is not None
    folder = Path(os.environ[LOCKS])
    with open(folder / "turn", "w") as turn, open(folder / "machine", "w") as machine:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield
