"""Builds programs that use Pulsar's clients in other languages.

The rule: each directory beside this is a program that takes the broker's URL as its first argument,
prints a line for each of its scenarios, and exits with 1 if one failed. It is built once, and again
when one of its files changes.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from conformance.toolbox import BUILD_WITHIN_S, finished, made_once, tool

HERE: Final = Path(__file__).parent
EXPECTATIONS: Final = HERE.parents[1] / "clients/expectations"
"""A Go package with the assertions that the programs use."""

RUN_WITHIN_S: Final = 600.0


def built_in_java(main: str) -> list[str]:
    """The Java program with the official client: the command that runs the class ``main``."""
    started, maven = tool("java", "default-jdk-headless"), tool("mvn", "maven")
    files = _sources("java", "pom.xml", "src/**/*.java")

    def make(place: Path) -> None:
        _copy(files, "java", place)
        finished([maven, "--quiet", "--batch-mode", "package"], place, BUILD_WITHIN_S)

    target = made_once("pulsar-java", files, make) / "target"
    return [started, "-cp", f"{target}/classes:{target}/dependency/*", main]


def built_in_go() -> list[str]:
    """The Go program with the official client."""
    go = tool("go", "golang-go")
    files = [*_sources("go", "*"), *(each for each in EXPECTATIONS.iterdir() if each.is_file())]

    def make(place: Path) -> None:
        command = [go, "build", "-o", str(place / "scenarios"), "."]
        finished(command, HERE / "go", BUILD_WITHIN_S)

    return [str(made_once("pulsar-go", files, make) / "scenarios")]


def built_in_javascript() -> list[str]:
    """The Node.js program, with a client in pure JavaScript."""
    node, npm = tool("node", "nodejs"), tool("npm", "npm")
    files = _sources("javascript", "*.js", "*.json")

    def make(place: Path) -> None:
        _copy(files, "javascript", place)
        finished([npm, "ci", "--no-audit", "--no-fund"], place, BUILD_WITHIN_S)

    return [node, str(made_once("pulsar-javascript", files, make) / "scenarios.js")]


def _sources(program: str, *patterns: str) -> list[Path]:
    found = (each for pattern in patterns for each in (HERE / program).glob(pattern))
    return [each for each in found if each.is_file()]


def _copy(files: Iterable[Path], program: str, place: Path) -> None:
    for each in files:
        to = place / each.relative_to(HERE / program)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, to)
