"""The command line of a crash run: how many kills, which seed and directory; and the outcome.

The rule: a run can be repeated with its seed. A failed run keeps its data and prints where they
are.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from conformance.wire.running import run as run_scenario


class Lives(Protocol):
    """A broker that is killed repeatedly."""

    def kill_times(self, kills: int) -> Awaitable[None]:
        """Kill it that often; raises if anything is wrong."""
        ...

    def end(self) -> None:
        """Leave no process behind."""
        ...


def parser_of(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser with the options that all runs have."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--directory", type=Path, default=None, help="where to put the data and the log"
    )
    return parser


def play(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    make: Callable[[Path, int], Lives],
    failures: tuple[type[Exception], ...],
    parent: str | None = None,
) -> int:
    """Run what ``make`` creates from a directory and a seed. The exit status is 0 if every promise
    was kept; otherwise the data directory is kept and its name printed. ``parent`` is where a
    directory is made if none is given."""
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    directory: Path = options.directory or Path(tempfile.mkdtemp("", "arneb-crash-", parent))
    if (directory / "data").exists():
        parser.error(f"expected a directory without the data of an earlier run, got {directory}")
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {seed}, data in {directory}", flush=True)
    lives = make(directory, seed)
    began = time.monotonic()
    try:
        run_scenario(lives.kill_times(options.kills))
    except failures as failure:
        print(f"FAILED with seed {seed}, data kept in {directory}\n{failure!r}\n{failure}")
        return 1
    finally:
        lives.end()
    print(f"{options.kills} kills in {time.monotonic() - began:.0f} s, no promise broken")
    return 0
