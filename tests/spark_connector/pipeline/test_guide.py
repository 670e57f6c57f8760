"""The guide's snippets run, in their order, against a broker with the queues that they speak of."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from conformance.brokers.arneb import Arneb

from arneb.demo.shop import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE: Final = Path(__file__).resolve().parents[3] / "docs" / "guide"
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES: Final = ("spark.md", "recipes.md")
ORDERS: Final = 20
STREAMS: Final = re.compile(r"^## A stream\n.*?^\*\*Latency", re.MULTILINE | re.DOTALL)
"""Played by ``tests/spark_connector/stream/test_guide_snippets.py``."""


def blocks(page: str, language: str) -> list[str]:
    """The snippets of a page, but for those of streams and writes."""
    text = STREAMS.sub("", (GUIDE / page).read_text(encoding="utf-8"))
    return [code for kind, code in BLOCK.findall(text) if kind == language]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Arneb]:
    """With what the tour begins with, but for how many orders there are."""
    running = Arneb(tmp_path, listeners=("amqp", "http"))
    running.start()
    fill(running.address.port, ORDERS)
    yield running
    running.kill()


def test_the_python_of_the_guide_runs(
    spark: "SparkSession",
    broker: Arneb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # A relative path is the JVM's, which began somewhere else.
    places = {
        '"arneb-data"': repr(str(broker.data)),
        "http://127.0.0.1:15672": f"http://127.0.0.1:{broker.http_address.port}",
    }
    names: dict[str, Any] = {}
    snippets = [code for page in PAGES for code in blocks(page, "python")]
    assert len(snippets) >= 8
    for code in snippets:
        for said_there, here in places.items():
            code = code.replace(said_there, here)
        exec(compile(code, "the guide", "exec"), names)
    assert names["spark"] is spark
    output = capsys.readouterr().out
    assert f"\n{ORDERS}\n" in output, "the tour must print the number of orders"
    assert f"4 of {ORDERS}" in output, "the replay must print how many were replayed"
    assert re.search(r"\| *orders\| *rejected\| *4\|", output), (
        "the reasons of dead letters must be shown"
    )


def test_the_programs_of_the_tour_are_there() -> None:
    lines = [line for code in blocks("spark.md", "sh") for line in code.splitlines()]
    modules = [line.split()[2] for line in lines if line.startswith("python -m ")]
    assert modules and all(map(find_spec, modules))
    targets = [line.split()[1] for line in lines if line.startswith("make ")]
    makefile = (GUIDE.parents[1] / "Makefile").read_text(encoding="utf-8")
    assert targets and all(f"\n{target}:" in makefile for target in targets)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_guide_take_what_they_are_given(page: str) -> None:
    commands = [
        shlex.split(line)
        for code in blocks(page, "sh")
        for line in code.replace("\\\n", " ").splitlines()
        if line.startswith("arneb ")
    ]
    assert commands
    for _, name, *arguments in commands:
        command = getattr(import_module(f"arneb.commands.{name}"), name)
        command.make_context(name, arguments)
