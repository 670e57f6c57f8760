"""Runs all scenarios, in parallel lanes: ``python -m conformance [PYTEST ARGUMENTS]``.

The rule: each lane is one run of pytest with brokers of its own, so lanes share nothing but the
machine. Most scenarios spend their time waiting (for a client's timeout, a TTL, the start of a Java
process), and lanes wait at the same time. Other people's test suites are half of the work.
Everything that Maven fetches is in one lane, because Maven has one shared repository. Failures are
reported when they happen, and once more at the end. If a client's library crashes a lane, as
Pulsar's wheel does now and then, the lane continues where it was.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from conformance.toolbox import PLAYED

HERE: Final = Path(__file__).parent
LANES: Final = {
    "amqp": ("amqp", "celery", "management"),
    "pulsar": (
        "pulsar",
        "suites/test_suite_of_pulsar_client_go.py",
        "clients",
        "shards",
        "differential",
        "bad_input",
    ),
    "suites": ("suites/test_suites.py",),
    "aiopika": ("suites/test_suite_of_aio_pika.py",),
}
CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS})
NOTHING_CHOSEN: Final = 5
"""pytest's exit status when the arguments select none of a lane's scenarios."""


CRASHES_MAX: Final = 3
"""Per lane. A scenario that crashes its lane every time is not a matter of luck."""


class Lane:
    """One run of pytest and its output."""

    def __init__(self, name: str, parts: Sequence[str], arguments: Sequence[str]) -> None:
        self.name = name
        self.failed: list[str] = []
        self.last = ""
        self.status = -1
        self.took_s = 0.0
        self.crashes = 0
        self._began = time.monotonic()
        self._command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        self._command += ["--no-summary", *(str(HERE / part) for part in parts), *arguments]
        self._played = tempfile.NamedTemporaryFile(prefix=f"conformance-{name}-")  # noqa: SIM115
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        environment = {"PYTHONUNBUFFERED": "1", "COLUMNS": "90", PLAYED: self._played.name}
        return subprocess.Popen(
            self._command,
            cwd=HERE.parent,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def follow(self, terminal: Lock) -> None:
        """Pass on its output until it ends."""
        while True:
            assert self._process.stdout is not None
            with self._process.stdout as output:
                for line in output:
                    self._pass_on(line, terminal)
            self.status = self._process.wait()
            if -self.status not in CRASHES or self.crashes == CRASHES_MAX:
                break
            self.crashes += 1
            self._pass_on("AGAIN from where it crashed\n", terminal)
            self._process = self._start()
        self._played.close()
        self.took_s = time.monotonic() - self._began

    def _pass_on(self, line: str, terminal: Lock) -> None:
        self.last = line.strip() or self.last
        if line.startswith("FAILED "):
            self.failed.append(line.split()[1])
        with terminal:
            print(f"{self.name:>7} | {line}", end="", flush=True)

    def end(self) -> None:
        """End it early, as Ctrl-C would."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, including before a crash."""
        return self.status in (0, NOTHING_CHOSEN) and not self.failed


def main(arguments: Sequence[str]) -> int:
    """Run all lanes; the result is 1 if something failed, 5 if there was nothing to run."""
    terminal = Lock()
    lanes = [Lane(name, parts, arguments) for name, parts in LANES.items()]
    followers = [Thread(target=lane.follow, args=(terminal,)) for lane in lanes]
    for follower in followers:
        follower.start()
    try:
        for follower in followers:
            follower.join()
    except KeyboardInterrupt:
        for lane in lanes:
            lane.end()
        for follower in followers:
            follower.join()
    for lane in lanes:
        crashed = f", {lane.crashes} crashes" if lane.crashes else ""
        print(f"{lane.name}: {lane.last} ({lane.took_s / 60:.1f} minutes{crashed})")
        for scenario in lane.failed:
            print(f"  FAILED {scenario}")
    if all(lane.status == NOTHING_CHOSEN for lane in lanes):
        return NOTHING_CHOSEN
    return 0 if all(lane.is_good for lane in lanes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
