"""Runs the mutants: each known mistake is made in a copy of the code, and tests must fail.

``python -m tests.mutants.run [--black-box] [NAME ...]`` exits with 1 and names the mutants that
survive. With ``--black-box``, brokers are started from the copy, and the scenarios of real clients
must fail (:mod:`tests.mutants.black_box`). Otherwise the tests of the code must fail.

The rule: only a test that ran and failed counts as having noticed. So the tests must pass before
any mistake is made, and any other result (nothing collected, no broker) counts as survival.
"""

import os
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from tests.mutants.black_box import SCENARIOS
from tests.mutants.every import EVERY
from tests.mutants.table import Mutant

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("core", "amqp_frontend", "pulsar_frontend", "spark_connector", "cluster", "broker")
SCENARIO_FOLDER = "conformance"
PLAYED = (SCENARIO_FOLDER, "tests", "pyproject.toml")
"""What scenarios need besides the sources: they start the brokers that lie beside them."""
TIMEOUT_S = 180
"""For the tests of one mutant; the slowest take a tenth of that on an idle machine."""


class Fate(Enum):
    """What tests did to a mutant."""

    KILLED = "killed"
    ENDLESS = "killed, in that tests did not end:"
    ALIVE = "SURVIVES"
    BROKEN = "COULD NOT BE TRIED"


FATES: Final[Mapping[int, Fate]] = {
    pytest.ExitCode.OK: Fate.ALIVE,
    pytest.ExitCode.TESTS_FAILED: Fate.KILLED,
}


class Trials:
    """A copy of the code in which one mistake is made at a time."""

    def __init__(self, directory: Path, *, black_box: bool) -> None:
        self._directory = directory
        self._black_box = black_box
        for source in SOURCES:
            built = shutil.ignore_patterns("*.so")  # it would be run instead of the changed source
            shutil.copytree(ROOT / source, directory / source, ignore=built)
        for name in PLAYED if black_box else ():
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, directory / name)

    def tests_of(self, mutant: Mutant) -> Sequence[str]:
        """The tests that must notice it."""
        return SCENARIOS[mutant.name] if self._black_box else mutant.tests

    def run(self, tests: Collection[str], timeout_s: float | None) -> tuple[Fate, str]:
        """What these tests report on the copy as it is, and their output."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(self._directory / source) for source in SOURCES),
            "ARNEB_CHECKOUT": str(self._directory),  # for tests that start brokers
            "PYTHONDONTWRITEBYTECODE": "1",
            # Examples that Hypothesis found for one mutant must not help to find the next.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self._directory / ".hypothesis"),
        }
        shutil.rmtree(self._directory / ".hypothesis" / "examples", ignore_errors=True)
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        if not self._black_box:
            options += ["--hypothesis-profile", "unshrunk"]
        elif any(test.startswith(SCENARIO_FOLDER) for test in tests):
            options += ["--pulsar", "arneb", "--broker", "arneb"]
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=self._directory if self._black_box else ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Fate.ENDLESS, ""
        return FATES.get(ended.returncode, Fate.BROKEN), ended.stdout + ended.stderr

    def try_one(self, mutant: Mutant) -> tuple[Fate, str]:
        """Make the mistake, run its tests, and undo it."""
        file = self._directory / mutant.file
        original = file.read_text()
        if original.count(mutant.old) != 1:
            return Fate.BROKEN, f"expected this once in {mutant.file}:\n{mutant.old}"
        file.write_text(original.replace(mutant.old, mutant.new))
        try:
            return self.run(self.tests_of(mutant), TIMEOUT_S)
        finally:
            file.write_text(original)


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.mutants.run")
    parser.add_argument("--black-box", action="store_true", help="by the scenarios of real clients")
    parser.add_argument("names", nargs="*", help="of mutants; all of them if none is given")
    options = parser.parse_args(arguments)
    known = [each for each in EVERY if not options.black_box or each.name in SCENARIOS]
    unknown = set(options.names) - {each.name for each in known}
    if unknown:
        parser.error(f"no such mutants: {', '.join(sorted(unknown))}")
    chosen = [each for each in known if not options.names or each.name in options.names]
    with TemporaryDirectory() as directory:
        return _try_all(chosen, Trials(Path(directory), black_box=options.black_box))


def _try_all(chosen: Sequence[Mutant], trials: Trials) -> int:
    wanted = list(dict.fromkeys(test for each in chosen for test in trials.tests_of(each)))
    begun = time.monotonic()
    fate, output = trials.run(wanted, None)
    if fate is not Fate.ALIVE:
        print(output, "expected these tests to pass as long as no mistake is made", sep="\n")
        return 1
    print(f"{time.monotonic() - begun:6.1f} s  no mistake, and all tests pass", flush=True)
    alive = 0
    for mutant in chosen:
        started = time.monotonic()
        fate, output = trials.try_one(mutant)
        print(f"{time.monotonic() - started:6.1f} s  {fate.value:8} {mutant.name}", flush=True)
        if fate is Fate.BROKEN:
            print(output)
        alive += fate in (Fate.ALIVE, Fate.BROKEN)
    minutes = (time.monotonic() - begun) / 60
    print(f"{len(chosen) - alive} killed, {alive} alive, in {minutes:.1f} minutes")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
