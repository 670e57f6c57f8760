"""SIGKILL at random instants breaks no promise; see :mod:`tests.crash.sigkill`."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
KILLS = 30
SECONDS_PER_KILL_MAX = 20


def test_nothing_promised_is_lost_by_sigkill(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Confirmed messages stay in their places, durable acks stay, the rest comes back."""
    kills: int = request.config.getoption("kills", default=KILLS)
    seed: int | None = request.config.getoption("crash_seed", default=None)
    command = [sys.executable, "-m", "tests.crash.sigkill", "--kills", str(kills)]
    command += ["--directory", str(tmp_path)]
    if seed is not None:
        command += ["--seed", str(seed)]
    # A process of its own: the clients' threads and broken sockets stay out of the test run.
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=kills * SECONDS_PER_KILL_MAX + 60,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
