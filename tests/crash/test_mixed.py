"""SIGKILL at random instants while a broker does a bit of everything; see
:mod:`tests.crash.mixed`."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS_PER_KILL_MAX = 100


def test_no_feature_breaks_its_promises_by_sigkill(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kills: int = request.config.getoption("mixed_kills")
    seed: int | None = request.config.getoption("crash_seed")
    command = [sys.executable, "-m", "tests.crash.mixed", "--kills", str(kills)]
    command += ["--directory", str(tmp_path)]
    if seed is not None:
        command += ["--seed", str(seed)]
    # A process of its own: broken sockets stay out of the test run.
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
