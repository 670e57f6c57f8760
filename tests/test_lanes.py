"""The lanes of ``make conformance``: nothing is left out, and a failure is told and counted."""

import subprocess
import sys
from pathlib import Path
from threading import Lock

import pytest
from conformance.__main__ import CRASHES_MAX, HERE, LANES, NOTHING_CHOSEN, Lane

REPOSITORY = Path(__file__).resolve().parents[1]


def test_every_scenario_is_in_one_lane() -> None:
    in_lanes = [part for parts in LANES.values() for part in parts]
    for path in HERE.rglob("test_*.py"):
        played = path.relative_to(HERE).as_posix()
        assert sum(f"{played}/".startswith(f"{part}/") for part in in_lanes) == 1, played


def test_a_failure_is_reported_when_it_happens_and_counts(tmp_path: Path) -> None:
    """Played by the real plugin, in a folder of its own."""
    (tmp_path / "test_it.py").write_text(
        "def test_good(): pass\ndef test_bad(): assert 1 == 2\ndef test_late(): pass\n"
    )
    plugins = ["-p", "conformance.conftest", "-p", "no:cacheprovider"]
    options = ["-q", "--no-summary", *plugins, "--rootdir"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path), str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = ran.stdout.splitlines()
    told = next(number for number, line in enumerate(lines) if line.startswith("FAILED "))
    assert "test_it.py::test_bad" in lines[told]
    assert any("assert 1 == 2" in line for line in lines[told:])
    assert "1 failed, 2 passed" in lines[-1]
    assert ran.returncode not in (0, NOTHING_CHOSEN)


@pytest.mark.parametrize("folder", ["suites", "clients"])
def test_what_plays_programs_of_others_has_their_time(tmp_path: Path, folder: str) -> None:
    """A whole suite is one scenario, and a client may have to be built first: neither is cut off
    by what bounds a test."""
    (tmp_path / folder).mkdir()
    for place, bounds in ((tmp_path / folder, "[(0,)]"), (tmp_path, "[]")):
        (place / f"test_{place.name}.py").write_text(
            "def test_it(request):\n"
            "    marks = request.node.iter_markers('timeout')\n"
            f"    assert [mark.args for mark in marks] == {bounds}\n"
        )
    plugins = ["-p", "conformance.conftest", "--rootdir", str(tmp_path)]
    lane = Lane("bounds", [str(tmp_path)], plugins)
    lane.follow(Lock())
    assert lane.is_good and "2 passed" in lane.last


def test_a_lane_that_a_library_kills_goes_on_where_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, pathlib, signal\n"
        "marks = pathlib.Path(__file__).with_suffix('.marks')\n"
        "def mark(what):\n"
        "    with marks.open('a') as file: file.write(what)\n"
        "    return marks.read_text().count(what)\n"
        "def test_first(): assert mark('a') == 1\n"
        "def test_dies():\n"
        "    if mark('b') == 1: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "def test_last(): assert mark('c') == 1\n"
    )
    plugins = ["-p", "conformance.conftest", "--rootdir", str(tmp_path)]
    lane = Lane("luck", [str(tmp_path)], plugins)
    lane.follow(Lock())
    assert lane.is_good and lane.crashes == 1
    assert (tmp_path / "test_it.marks").read_text() == "abbc"
    assert "AGAIN" in capfd.readouterr().out


def test_a_lane_that_is_killed_each_time_has_failed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, signal\ndef test_dies(): os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    lane = Lane("luck", [str(tmp_path)], ["--rootdir", str(tmp_path)])
    lane.follow(Lock())
    assert not lane.is_good and lane.crashes == CRASHES_MAX
