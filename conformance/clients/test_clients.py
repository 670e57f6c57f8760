"""Programs written with the clients of other languages, built here and run on both brokers.

The rule: each directory is a program that takes the broker's URL, prints a line for each of its
scenarios and ends with 1 when one failed. Versions are pinned by the language's own lock file. A
toolchain that is not there is a failure that names what to install, not a skip.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from conformance.conftest import Target

HERE = Path(__file__).parent
BUILD_WITHIN_S = 300.0
RUN_WITHIN_S = 120.0


def tool(name: str, package: str) -> str:
    """Where ``name`` is."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/go/bin")
    assert found, f"{name} is needed for this scenario: apt-get install {package}"
    return found


def finished(command: Sequence[str], where: Path, within_s: float) -> str:
    """What ``command`` printed; it must end well."""
    ran = subprocess.run(
        command,
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
        env=os.environ | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
    )
    assert ran.returncode == 0, f"{command} ended with {ran.returncode}:\n{ran.stdout}"
    return ran.stdout


@pytest.fixture(scope="session")
def amqplib(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program in JavaScript, with what it needs beside it."""
    node, npm = tool("node", "nodejs"), tool("npm", "npm")
    made = shutil.copytree(
        HERE / "amqplib",
        tmp_path_factory.mktemp("node") / "amqplib",
        ignore=shutil.ignore_patterns("node_modules"),
    )
    finished([npm, "ci", "--no-audit", "--no-fund"], made, BUILD_WITHIN_S)
    return [node, str(made / "scenarios.js")]


@pytest.fixture(scope="session")
def amqp091_go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program in Go."""
    made = tmp_path_factory.mktemp("go") / "scenarios"
    command = [tool("go", "golang-go"), "build", "-o", str(made), "."]
    finished(command, HERE / "amqp091_go", BUILD_WITHIN_S)
    return [str(made)]


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program in Java."""
    started, maven = tool("java", "default-jdk-headless"), tool("mvn", "maven")
    made = shutil.copytree(
        HERE / "java",
        tmp_path_factory.mktemp("java") / "scenarios",
        ignore=shutil.ignore_patterns("target"),
    )
    finished([maven, "--quiet", "--batch-mode", "package"], made, BUILD_WITHIN_S)
    return [started, "-cp", f"{made}/target/classes:{made}/target/dependency/*", "Scenarios"]


@pytest.mark.parametrize("client", ["amqplib", "amqp091_go", "java"])
def test_everyday_and_edge_scenarios(
    client: str, broker: Target, request: pytest.FixtureRequest
) -> None:
    command: list[str] = request.getfixturevalue(client)
    url = f"amqp://guest:guest@{broker.address}/"
    print(finished([*command, url], HERE, RUN_WITHIN_S))
