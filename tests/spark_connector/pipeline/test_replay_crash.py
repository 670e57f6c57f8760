"""Replays are killed: a short form of ``make soak-replay``."""

from pathlib import Path

from tests.crash.running import survives


def test_a_replay_that_is_killed_loses_nothing_and_brings_nothing_twice(tmp_path: Path) -> None:
    module = "tests.spark_connector.pipeline.replay_crash"
    survives(module, 3, 7, tmp_path, seconds_per_kill_max=180)
