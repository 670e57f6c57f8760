"""All scenarios, in lanes beside one another: ``python -m conformance [PYTEST ARGUMENTS]``.

The rule: each lane is one run of pytest with brokers of its own, so lanes share nothing but the
machine. Most scenarios wait (for a client's patience, for a time to live, for a Java process to
start), and lanes wait at the same time; other people's suites are half of it all. What is fetched
by Maven, which keeps one store for all, is in one lane. Failures are told when they happen, and
once more at the end.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import Final

HERE: Final = Path(__file__).parent
LANES: Final = {
    "amqp": ("amqp", "celery"),
    "pulsar": ("pulsar", "clients", "differential", "bad_input"),
    "suites": ("suites/test_suites.py",),
    "aiopika": ("suites/test_suite_of_aio_pika.py",),
}
NOTHING_CHOSEN: Final = 5
"""What pytest ends with when the arguments choose none of a lane's scenarios."""


class Lane:
    """One run of pytest, and what it says."""

    def __init__(self, name: str, parts: Sequence[str], arguments: Sequence[str]) -> None:
        self.name = name
        self.failed: list[str] = []
        self.last = ""
        self.status = -1
        self.took_s = 0.0
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-summary"]
            + [str(HERE / part) for part in parts]
            + list(arguments),
            cwd=HERE.parent,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "90"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def follow(self, terminal: Lock) -> None:
        """Pass on what it says until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.last = line.strip() or self.last
            if line.startswith("FAILED "):
                self.failed.append(line.split()[1])
            with terminal:
                print(f"{self.name:>7} | {line}", end="", flush=True)
        self.status = self._process.wait()
        self.took_s = time.monotonic() - self._began

    def end(self) -> None:
        """End it early, as the keyboard would."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)

    @property
    def is_good(self) -> bool:
        """Nothing failed."""
        return self.status in (0, NOTHING_CHOSEN)


def main(arguments: Sequence[str]) -> int:
    """Run all lanes; 1 when something failed, 5 when there was nothing to run."""
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
        print(f"{lane.name}: {lane.last} ({lane.took_s / 60:.1f} minutes)")
        for scenario in lane.failed:
            print(f"  FAILED {scenario}")
    if all(lane.status == NOTHING_CHOSEN for lane in lanes):
        return NOTHING_CHOSEN
    return 0 if all(lane.is_good for lane in lanes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
