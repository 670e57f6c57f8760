"""The lanes of ``make conformance``: nothing is left out, and a failure is told and counted."""

import subprocess
import sys
from pathlib import Path

from conformance.__main__ import HERE, LANES, NOTHING_CHOSEN

REPOSITORY = Path(__file__).resolve().parents[1]


def test_every_scenario_is_in_one_lane() -> None:
    in_lanes = [part for parts in LANES.values() for part in parts]
    for path in HERE.rglob("test_*.py"):
        played = path.relative_to(HERE).as_posix()
        assert sum(f"{played}/".startswith(f"{part}/") for part in in_lanes) == 1, played


def test_a_failure_is_told_when_it_happens_and_counts(tmp_path: Path) -> None:
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
