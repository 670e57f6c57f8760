"""A program with a Spark of its own, to be killed with its JVM."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


class PromiseBroken(Exception):
    """What was promised and is not so."""


class SparkProcess:
    """A Python program in a process group of its own. It says how far it is, a line at a time."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = open(log, "a", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.printed: list[str] = []
        """Every line that was read."""

    def wait_for(self, beginning: str, seconds: float) -> bool:
        """Return when it has said so, or has ended; it ends after so long."""
        timer = threading.Timer(seconds, self._signal)
        timer.start()
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.printed.append(line)
                if line.startswith(beginning):
                    return True
            return False
        finally:
            timer.cancel()

    def kill(self) -> None:
        """SIGKILL, to the JVM and the Python workers too; what it had said until then is read."""
        self._signal()
        self._process.wait()
        if self._process.stdout is not None and not self._process.stdout.closed:
            self.printed += self._process.stdout.readlines()
            self._process.stdout.close()
        self._log.close()

    def join(self, seconds: float) -> None:
        """Wait for its end. Raises :class:`PromiseBroken` when it fails."""
        self.wait_for("\0", seconds)
        self.kill()
        if self._process.returncode:
            raise PromiseBroken(
                f"{self._process.args} ended with exit status {self._process.returncode}"
            )

    def _signal(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
