"""SIGKILL at random instants while a broker does a bit of everything; see
:mod:`tests.crash.mixed`."""

from pathlib import Path

import pytest
from tests.crash.running import survives

SECONDS_PER_KILL_MAX = 100


def test_no_feature_breaks_its_promises_by_sigkill(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kills: int = request.config.getoption("mixed_kills")
    seed: int | None = request.config.getoption("crash_seed")
    survives("tests.crash.mixed", kills, seed, tmp_path, seconds_per_kill_max=SECONDS_PER_KILL_MAX)
