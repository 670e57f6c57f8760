"""A streaming query and its broker are killed: a short form of ``make soak-spark``."""

from pathlib import Path

from tests.crash.running import survives


def test_a_query_and_its_broker_are_killed_and_every_message_arrives_once(tmp_path: Path) -> None:
    survives("tests.spark_connector.stream.soak", 2, 7, tmp_path, seconds_per_kill_max=180)
