"""Bars: on a terminal, and nothing at all where there is none."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_arneb.pipeline.progress import Stages, counted

PROGRAM = """
from pyspark_arneb.pipeline.progress import counted
with counted("offloading", "rows") as count:
    for done in range(0, 50, 10):
        count(done, 40)
        print("line", done)
"""


def program(error: int, output: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"}
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        environment.pop(name, None)
    command = [sys.executable, "-c", PROGRAM]
    subprocess.run(command, env=environment, stdout=output, stderr=error, check=True)


def test_a_terminal_shows_how_much_is_done_and_a_file_has_the_lines(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with (tmp_path / "lines").open("w") as lines:
        program(theirs, lines.fileno())
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break  # how the end of a terminal looks
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert b"offloading" in shown and b"40/40" in shown and b"rows" in shown
    assert (tmp_path / "lines").read_text() == "".join(f"line {n}\n" for n in range(0, 50, 10))


def test_where_there_is_no_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    with counted("offloading", "rows") as count:
        count(1, 2)
    assert errors.getvalue() == ""


def stage(number: int, done: int, total: int) -> Any:
    return SimpleNamespace(stage_id=number, num_completed_tasks=done, num_tasks=total)


def test_a_bar_counts_the_tasks_of_all_stages_that_spark_connect_reported() -> None:
    calls: list[tuple[int, int]] = []
    stages = Stages(lambda done, total: calls.append((done, total)))
    stages.hear(None, 0, "query", False)
    stages.hear([stage(1, 1, 4)], 3, "query", False)
    stages.hear([stage(1, 4, 4), stage(2, 0, 2)], 2, "query", False)
    stages.hear([stage(2, 2, 2)], 0, "query", True)
    assert calls == [(1, 4), (4, 6), (6, 6)]


def test_a_stage_that_runs_no_more_is_done() -> None:
    calls: list[tuple[int, int]] = []
    stages = Stages(lambda done, total: calls.append((done, total)))
    running = {1: SimpleNamespace(numCompletedTasks=3, numTasks=8)}
    tracker: Any = SimpleNamespace(
        getActiveStageIds=lambda: list(running), getStageInfo=running.get
    )
    stages.look(tracker)
    running.clear()
    stages.look(tracker)
    assert calls == [(3, 8), (8, 8)]
