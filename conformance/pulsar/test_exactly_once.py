"""Consume, process and produce with the Java client while it and the broker are killed: the short
form of ``make soak-exactly-once``."""

from pathlib import Path

import pytest
from conformance.pulsar import exactly_once

KILLS = 4
SEED = 9
"""The seed that decides what is killed and when."""


def test_each_task_has_one_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactly_once, "TASKS_PER_KILL", 50)
    with exactly_once.ExactlyOnce(tmp_path, SEED) as played:
        outcome = played.play(KILLS)
    assert "'broker'" in outcome
    assert "'client'" in outcome
    assert outcome.endswith("each with one result")
