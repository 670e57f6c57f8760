"""A SIGKILL between a change and its answer leaves it done or not done; see
:mod:`tests.crash.administration`."""

from pathlib import Path

import pytest
from tests.crash.running import survives

KILLS = 3
SECONDS_PER_KILL_MAX = 30


def test_every_change_of_an_administrator_is_done_or_not_done(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed: int | None = request.config.getoption("crash_seed")
    module = "tests.crash.administration"
    survives(module, KILLS, seed, tmp_path, seconds_per_kill_max=SECONDS_PER_KILL_MAX)
