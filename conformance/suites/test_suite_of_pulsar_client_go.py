"""The tests of Pulsar's client in Go, and of its administration library, as published in the module
itself, on both brokers.

The rule: as for the other suites (``test_suites.py``). In addition ``differs.txt`` lists what is
left out on Arneb alone, because Arneb differs on purpose. The tests mostly wait, so they are dealt
out to a few brokers that run side by side.
"""

import re
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from conformance.brokers.java_server import classpath
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.suites.fixed_ports import APART
from conformance.suites.test_suites import HERE, RUN_WITHIN_S, TRIES, skipped
from conformance.toolbox import BUILD_WITHIN_S, REPOSITORY, finished, made_once, tool

MODULE: Final = "github.com/apache/pulsar-client-go"
PACKAGES: Final = ("pulsar", "pulsaradmin/pkg/admin")
SHARDS: Final = {"arneb": 8, "pulsar": 2}
"""How many brokers share the tests of a package; Apache Pulsar needs a gigabyte each."""

PASSED: Final = re.compile(r"^--- (?:PASS|SKIP): (\w+) ", re.MULTILINE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.config.getoption("pulsar") or ["pulsar", "arneb"]
    metafunc.parametrize("broker_name", names)


def built() -> Path:
    """A directory with the module's ``source`` and, beside it, the tests of each package."""
    go, folder = tool("go", "golang-go"), HERE / "pulsar_client_go"
    pinned = [folder / "go.mod", folder / "go.sum"]

    def make(place: Path) -> None:
        pin, source = place / "pin", place / "source"
        pin.mkdir()
        for each in pinned:
            shutil.copy(each, pin)
        finished([go, "mod", "download", MODULE], pin, BUILD_WITHIN_S)
        found = finished([go, "list", "-m", "-f", "{{.Dir}}", MODULE], pin, BUILD_WITHIN_S)
        # The module cache is read-only, and a build adds to go.sum.
        shutil.copytree(found.strip(), source, copy_function=shutil.copyfile)
        for each in (source, *source.rglob("*/")):
            each.chmod(0o755)
        for package in PACKAGES:
            build = [go, "test", "-c", "-o", str(place / Path(package).name), f"./{package}"]
            finished(build, source, BUILD_WITHIN_S)

    return made_once("suite-pulsar-client-go", pinned, make)


def play(broker_name: str, place: Path, package: str, tests: Sequence[str]) -> None:
    """Run these tests on a broker of their own, and those that have not passed again on another."""
    source, binary = place / "source", place / Path(package).name
    start = [*APART, sys.executable, "-m", "conformance.suites.fixed_ports", broker_name]
    left = list(tests)
    for _ in range(TRIES):
        chosen = ["-test.v", "-test.timeout=20m", "-test.run", f"^({'|'.join(left)})$"]
        command = [*start, str(source), str(binary), *chosen]
        paths = {"PYTHONPATH": str(REPOSITORY)}
        try:
            finished(command, source / package, RUN_WITHIN_S, paths)
            return
        except AssertionError as error:
            printed = str(error)
        # A test that panics ends the others, too.
        left = [each for each in left if each not in PASSED.findall(printed)]
        print("run again:", ", ".join(left), printed[-3000:], sep="\n")
    raise AssertionError(f"expected to pass on {broker_name}: {', '.join(left)}")


def test_own_suite_of_pulsar_client_go(broker_name: str) -> None:
    if broker_name == "pulsar":
        if not PulsarStandalone.installed():
            pytest.skip("Apache Pulsar needs Java and Maven")
        classpath()  # Maven can fetch nothing where the tests run.
    place = built()
    left_out = set(skipped("pulsar_client_go"))
    if broker_name == "arneb":
        left_out.update(skipped("pulsar_client_go", "differs.txt"))
    jobs = []
    for package in PACKAGES:
        listing = [str(place / Path(package).name), "-test.list", "^Test"]
        names = finished(listing, place / "source" / package, BUILD_WITHIN_S).split()
        tests = [each for each in names if each.startswith("Test") and each not in left_out]
        assert len(tests) > 60
        count = SHARDS[broker_name] if package == PACKAGES[0] else 1
        jobs += [(package, tests[number::count]) for number in range(count)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        played = [pool.submit(play, broker_name, place, *job) for job in jobs]
    for each in played:
        each.result()
