"""Kills at random instants: see :mod:`lake_crash`."""

from pathlib import Path

from lake_crash import LakeCrash


def test_nothing_is_lost_or_doubled_when_offload_and_broker_are_killed(tmp_path: Path) -> None:
    crash = LakeCrash(tmp_path, seed=11)
    crash.run(kills=5)
    assert len(crash.confirmed) > 100
