"""The commands on a damaged directory, as real processes, and how they may end.

The rule: whatever the damage, no command is killed by a signal or prints a traceback. If it cannot
do its work, it prints one line and exits with status 2.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SECONDS_MAX: Final = 60
READY: Final = "amqp ready on"

STATUSES: Final = {"check": {0, 1, 2}, "topics": {0, 2}, "serve": {0, 2}, "salvage": {0, 1, 2}}
"""The exit statuses according to ``arneb COMMAND --help``."""


@contextmanager
def copy_of(directory: Path) -> Iterator[Path]:
    """A copy of a data directory, as a start would find it."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name, "data")
        # A killed broker leaves its socket behind, which cannot be copied.
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*.sock"))
        yield copy


def run(command: str, *arguments: Path) -> tuple[int, str, str]:
    """Run a command and check what holds for every command; the result is exit status, output and
    error output."""
    options = [str(each) for each in arguments]
    if command == "serve":
        status, out, err = _serve(options)
    else:
        done = subprocess.run(
            [sys.executable, "-m", "arneb", command, *options],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        status, out, err = done.returncode, done.stdout, done.stderr
    outcome = f"{command}: status {status}\n{out}\n{err}"
    assert status in STATUSES[command], outcome
    assert "Traceback" not in err + out, outcome
    if status == 2:
        refusals = [line for line in err.splitlines() if line.startswith("arneb: ")]
        assert len(refusals) == 1, outcome
        assert command == "serve" or len(err.splitlines()) == 1, outcome
    return status, out, err


def _serve(options: list[str]) -> tuple[int, str, str]:
    """Start the broker, and stop it normally as soon as it is ready."""
    listeners = ("--amqp=127.0.0.1:0", "--pulsar=127.0.0.1:0", "--http=off", "--http-pulsar=off")
    command = [sys.executable, "-m", "arneb", "serve", "--data-dir", *options, *listeners]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        out = ""
        for line in broker.stdout:
            out += line
            if line.startswith("pulsar ready"):
                broker.send_signal(signal.SIGTERM)
                break
        try:
            more, err = broker.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            broker.kill()
            raise
    return broker.returncode, out + more, err
