"""Programs that use the clients of other languages, built here and run against both brokers.

The rule: each directory is a program that takes the broker's URL, prints a line for each of its
scenarios, and exits with 1 if one failed. The language's own lock file pins the versions.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from conformance.brokers.rabbitmq import SERVER
from conformance.conftest import Target
from conformance.toolbox import BUILD_WITHIN_S, finished, made_once, python_with, tool

HERE: Final = Path(__file__).parent
RUN_WITHIN_S: Final = 400.0


def sources(name: str, *patterns: str) -> Iterable[Path]:
    """The files that the program ``name`` is built from."""
    return [each for pattern in patterns for each in (HERE / name).glob(pattern)]


def copied(files: Iterable[Path], name: str, into: Path) -> None:
    """Copy ``files`` of ``name`` to where they can be built."""
    for each in files:
        to = into / each.relative_to(HERE / name)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, to)


def amqplib() -> list[str]:
    """The JavaScript program, with its dependencies beside it."""
    node, npm = tool("node", "nodejs"), tool("npm", "npm")
    files = sources("amqplib", "*.js", "*.json")

    def make(place: Path) -> None:
        copied(files, "amqplib", place)
        finished([npm, "ci", "--no-audit", "--no-fund"], place, BUILD_WITHIN_S)

    return [node, str(made_once("amqplib", files, make) / "scenarios.js")]


def amqp091_go() -> list[str]:
    """The Go program."""
    go, name = tool("go", "golang-go"), "amqp091_go"

    def make(place: Path) -> None:
        command = [go, "build", "-o", str(place / "scenarios"), "."]
        finished(command, HERE / name, BUILD_WITHIN_S)

    files = [*sources(name, "*"), *sources("expectations", "*")]
    return [str(made_once(name, files, make) / "scenarios")]


def java() -> list[str]:
    """The Java program."""
    started, maven = tool("java", "default-jdk-headless"), tool("mvn", "maven")
    files = sources("java", "pom.xml", "src/**/*.java")

    def make(place: Path) -> None:
        copied(files, "java", place)
        finished([maven, "--quiet", "--batch-mode", "package"], place, BUILD_WITHIN_S)

    target = made_once("java", files, make) / "target"
    return [started, "-cp", f"{target}/classes:{target}/dependency/*", "Scenarios"]


def lapin() -> list[str]:
    """The Rust program."""
    cargo, name = tool("cargo", "cargo-web"), "lapin"
    files = sources(name, "Cargo.*", "src/*.rs")

    def make(place: Path) -> None:
        copied(files, name, place)
        finished([cargo, "build", "--quiet", "--locked"], place, BUILD_WITHIN_S)

    return [str(made_once(name, files, make) / "target/debug/scenarios")]


def librabbitmq() -> list[str]:
    """The C program."""
    compiler, files = tool("cc", "gcc"), sources("librabbitmq", "*.c")

    def make(place: Path) -> None:
        names = [str(each) for each in files]
        command = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", *names]
        finished([*command, "-lrabbitmq", "-o", str(place / "scenarios")], place, BUILD_WITHIN_S)

    return [str(made_once("librabbitmq", files, make) / "scenarios")]


def erlang() -> list[str]:
    """The Erlang program, whose client library comes with RabbitMQ's server."""
    compiler, started = tool("erlc", "erlang-base"), tool("erl", "erlang-base")
    plugins = [str(each) for each in SERVER.parents[1].glob("lib/*/plugins/*/ebin")]
    assert plugins, "RabbitMQ is needed for its client: apt-get install rabbitmq-server"
    paths = [word for each in plugins for word in ("-pa", each)]
    files = sources("erlang", "*.erl")

    def make(place: Path) -> None:
        names = [str(each) for each in files]
        finished([compiler, "-Werror", *paths, "-o", str(place), *names], place, BUILD_WITHIN_S)

    play = "scenarios:main(init:get_plain_arguments())."
    made = str(made_once("erlang", files, make))
    return [started, "-noinput", *paths, "-pa", made, "-eval", play, "-extra"]


def kombu() -> list[str]:
    """The Python program, with the library that Celery is built on."""
    return [str(python_with(HERE / "kombu/requirements.txt")), str(HERE / "kombu/scenarios.py")]


PROGRAMS: Final = {
    each.__name__: each for each in (amqplib, amqp091_go, erlang, java, kombu, lapin, librabbitmq)
}


@pytest.mark.parametrize("client", PROGRAMS)
def test_everyday_and_edge_scenarios(client: str, broker: Target) -> None:
    url = f"amqp://guest:guest@{broker.address}/"
    print(finished([*PROGRAMS[client](), url], HERE, RUN_WITHIN_S))
