"""A worker process started by the scenarios, and the diary of what it has done."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

HERE = Path(__file__).parent
PATIENCE_S = 120.0
ANSWER_S = 5.0
"""How long workers may take to answer remote control before they are asked again."""

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, within_s: float = PATIENCE_S) -> T:
    """Call ``condition`` repeatedly until its result is true, and return that."""
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"{what}: not within {within_s} s"
        time.sleep(0.05)
    return found


class Worker:
    """``celery worker`` with its child processes, as a context manager."""

    def __init__(
        self, app, name: str, log: Path, *, concurrency: int = 2, queues: str = ""
    ) -> None:
        self._app = app
        self.name = f"{name}@scenarios"
        # No worker outlives the scenarios.
        setpriv = shutil.which("setpriv")
        command = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        command += [
            sys.executable, "-m", "celery", "--app", "app", "worker", "--pool", "prefork",
            "--concurrency", str(concurrency), "--hostname", self.name, "--loglevel", "INFO",
            "--without-mingle", "--heartbeat-interval", "1",
        ]  # fmt: skip
        if queues:
            command += ["--queues", queues]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=HERE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def __enter__(self) -> Self:
        wait_until(self.answers, f"{self.name} answers")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def answers(self) -> bool:
        """Whether remote control reaches it."""
        assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}"
        return bool(self._app.control.ping(destination=[self.name], timeout=ANSWER_S))

    def kill(self) -> None:
        """Send SIGKILL to the worker and its children at the same time."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Diary:
    """What the tasks have written: one line each, with the name and the time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def times(self, name: str) -> list[float]:
        """When each run of the task of that name finished its work."""
        return [float(when) for what, when in self._lines() if what == name]

    def names(self, prefix: str) -> list[str]:
        """The names that begin with ``prefix``, in the order of the diary."""
        return [what for what, _ in self._lines() if what.startswith(prefix)]

    def _lines(self) -> list[list[str]]:
        text = self._path.read_text() if self._path.exists() else ""
        return [line.split() for line in text.splitlines()]
