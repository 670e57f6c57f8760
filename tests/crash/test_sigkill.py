"""SIGKILL at random instants breaks no promise; see :mod:`tests.crash.sigkill`."""

from pathlib import Path

import pytest
from tests.crash.running import survives

SECONDS_PER_KILL_MAX = 20


def test_nothing_promised_is_lost_by_sigkill(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Confirmed messages keep their places, durable acks persist, and everything else comes
    back."""
    kills: int = request.config.getoption("kills")
    seed: int | None = request.config.getoption("crash_seed")
    survives(
        "tests.crash.sigkill", kills, seed, tmp_path, seconds_per_kill_max=SECONDS_PER_KILL_MAX
    )
