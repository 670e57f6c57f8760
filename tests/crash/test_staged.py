"""SIGKILL between stage, commit and answer publishes every batch once; see
:mod:`tests.crash.staged`."""

from pathlib import Path

import pytest
from tests.crash.running import survives

SECONDS_PER_KILL_MAX = 20


def test_every_batch_is_published_once_whenever_the_broker_is_killed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kills: int = request.config.getoption("kills")
    seed: int | None = request.config.getoption("crash_seed")
    survives("tests.crash.staged", kills, seed, tmp_path, seconds_per_kill_max=SECONDS_PER_KILL_MAX)
