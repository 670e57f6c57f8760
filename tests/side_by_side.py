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
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ALONE: Final = "alone"
"""The marker of what is measured. It comes last, when nothing else is left."""

TOGETHER: Final = ("tests/spark_connector/",)
"""Folders that share something too dear for each worker to have one (a JVM): one worker runs all
of them, and as that takes the longest, first."""

LOCKS: Final = "LOCKS_OF_TESTS"
"""The environment variable that tells the workers where their run has its locks."""


class Scheduler(LoadScopeScheduling):
    """Gives a worker a file of tests at a time, or one of the folders of :data:`TOGETHER`.

    Not xdist's own groups: they are lost with pytest 9.2, which has no ``_nodeid``.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        # Files in the order of collection, not those with the most tests first.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return _unit_of(nodeid)


def _unit_of(nodeid: str) -> str:
    for folder in TOGETHER:
        if nodeid.startswith(folder):
            return folder
    return nodeid.partition("::")[0]


def is_divided(config: pytest.Config) -> bool:
    """Whether this run has several workers."""
    return config.getoption("dist", "no") != "no" or LOCKS in os.environ


def make_locks(config: pytest.Config) -> None:
    """In the process that starts the workers, before it does."""
    if is_divided(config) and LOCKS not in os.environ:
        os.environ[LOCKS] = folder = tempfile.mkdtemp(prefix="locks-of-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def put_in_order(items: list[pytest.Item]) -> None:
    """The long first, so that nobody waits for them in the end; what is to be alone last."""
    items.sort(
        key=lambda item: (
            item.get_closest_marker(ALONE) is not None,
            _unit_of(item.nodeid) not in TOGETHER,
        )
    )


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
