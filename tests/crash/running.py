"""A crash run as a test: in a process of its own, so that broken sockets and the clients' threads
stay out of the test run."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def survives(
    module: str,
    kills: int,
    seed: int | None,
    directory: Path,
    *options: str,
    seconds_per_kill_max: int,
) -> None:
    """Fail with the run's whole output unless every promise was kept."""
    command = [sys.executable, "-m", module, "--kills", str(kills), "--directory", str(directory)]
    command += options
    if seed is not None:
        command += ["--seed", str(seed)]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=kills * seconds_per_kill_max + 60,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
