"""Reading a data directory in a child process.

The rule: LMDB may crash a process that reads a damaged file. So commands that must always answer
(``arneb check``, ``arneb topics``) read in a child, which reports its step and its findings on
standard output, one JSON object per line; if it crashes, the parent knows where.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from arneb_core.api.errors import StoreDamaged, StoreUnusable, describe

AT: Final = "at"
FOUND: Final = "found"
REFUSED: Final = "refused"
FAILED: Final = "failed"
DONE: Final = "done"

Say = Callable[[Any], None]
"""Sends one JSON value to the parent."""


class ReadingFailed(StoreDamaged):
    """The child did not end properly; the text says how, and :attr:`at` in which step."""

    def __init__(self, at: str, how: str) -> None:
        super().__init__(f"{how} while reading {at}")
        self.at = at
        self.how = how


def read_in_child(module: str, path: Path) -> Iterator[Any]:
    """Yield what ``python -m module path`` finds, as it finds it.

    Raises :class:`.StoreUnusable` as the child did, and :class:`ReadingFailed`.
    """
    at, done = str(path), False
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            [sys.executable, "-m", module, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
        ) as child,
    ):
        assert child.stdout is not None, "it was asked for"
        try:
            for line in child.stdout:
                kind, value = json.loads(line)
                if kind == AT:
                    at = value
                elif kind == FOUND:
                    yield value
                elif kind == REFUSED:
                    raise StoreUnusable(value)
                elif kind == FAILED:
                    raise ReadingFailed(at, value)
                else:
                    done = True
        except GeneratorExit:
            child.kill()
            raise
        status = child.wait()
        complaints.seek(0)
        output = complaints.read().decode("utf-8", "replace")
    if not done:
        raise ReadingFailed(at, _end(status, output))
    sys.stderr.write(output)  # what was logged


def speak(read: Callable[[Path, Say, Say], None]) -> None:
    """Run the child's side: ``read`` gets the path, and functions that report its step and its
    findings."""

    def say(kind: str, value: object = None) -> None:
        sys.stdout.write(json.dumps([kind, value]) + "\n")
        sys.stdout.flush()

    try:
        read(Path(sys.argv[1]), lambda value: say(AT, value), lambda value: say(FOUND, value))
    except StoreUnusable as error:
        say(REFUSED, str(error))
    except Exception as error:
        # Damaged rows can say anything, so any exception may come of reading them.
        say(FAILED, describe(error))
    else:
        say(DONE)


def _end(status: int, output: str) -> str:
    """Describe the end of a child that did not report it itself."""
    if status < 0:
        how = f"LMDB ended the process with {signal.Signals(-status).name}"
    else:
        how = f"the process ended with status {status}"
    lines = output.strip().splitlines()
    return f"{how} ({' '.join(lines[-1].split())})" if lines else how
