"""Programs written with Pulsar's clients of other languages, run on Apache Pulsar and on Arneb.

The rule: as in ``conformance/clients``: each directory is a program that takes the broker's URL,
prints a line for each of its scenarios and ends with 1 when one failed.
"""

import shutil
from pathlib import Path

import pytest
from conformance.clients.test_clients import BUILD_WITHIN_S, finished, tool

HERE = Path(__file__).parent
RUN_WITHIN_S = 600.0


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program in Java, with the official client."""
    started, maven = tool("java", "default-jdk-headless"), tool("mvn", "maven")
    made = copied("java", tmp_path_factory)
    finished([maven, "--quiet", "--batch-mode", "package"], made, BUILD_WITHIN_S)
    return [started, "-cp", f"{made}/target/classes:{made}/target/dependency/*", "Scenarios"]


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program in Go, with the official client."""
    made = tmp_path_factory.mktemp("go") / "scenarios"
    finished([tool("go", "golang-go"), "build", "-o", str(made), "."], HERE / "go", BUILD_WITHIN_S)
    return [str(made)]


@pytest.fixture(scope="session")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program for node, with a client in JavaScript alone."""
    node, npm = tool("node", "nodejs"), tool("npm", "npm")
    made = copied("javascript", tmp_path_factory)
    finished([npm, "ci", "--no-audit", "--no-fund"], made, BUILD_WITHIN_S)
    return [node, str(made / "scenarios.js")]


def copied(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program where building it leaves no traces in the repository."""
    left_out = shutil.ignore_patterns("target", "node_modules")
    return shutil.copytree(
        HERE / program, tmp_path_factory.mktemp(program) / program, ignore=left_out
    )


@pytest.mark.parametrize("client", ["java", "go", "javascript"])
def test_everyday_and_edge_scenarios(
    client: str, pulsar_url: str, request: pytest.FixtureRequest
) -> None:
    command: list[str] = request.getfixturevalue(client)
    print(finished([*command, pulsar_url], HERE, RUN_WITHIN_S))
