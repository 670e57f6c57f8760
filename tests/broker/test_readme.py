"""The README's five minutes: every snippet is run, in order, and prints what it says.

A ``python`` block is run as a script. An ``sh`` block of ``arneb`` commands is run line by line.
Both run in the directory in which the broker has its ``./arneb-data``. The ``text`` block that
follows is what must be printed. Only the ports differ from what a reader types.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from arneb.demo.process import BrokerProcess
from arneb.settings.config import Config, load_config

README: Final = Path(__file__).resolve().parents[2] / "README.md"
BLOCK: Final = re.compile(
    r"^```(?P<kind>\w+)\n(?P<text>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
HAS_SPARK: Final = find_spec("pyspark") is not None and shutil.which("java") is not None


def snippets(kind: str) -> list[re.Match[str]]:
    return [match for match in BLOCK.finditer(README.read_text()) if match["kind"] == kind]


def tour() -> list[re.Match[str]]:
    """What a reader does in a shell and in Python, after the broker is started."""
    return [
        match
        for match in BLOCK.finditer(README.read_text())
        if match["kind"] == "python"
        or (match["kind"] == "sh" and not re.search("^make |^pip ", match["text"], re.MULTILINE))
    ]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "arneb-data") as process:
        yield process


def run(broker: BrokerProcess, snippet: re.Match[str], directory: Path) -> str:
    """Run one snippet to its end; return what it printed."""
    text = snippet["text"]
    for documented, real in {
        "127.0.0.1:15672": str(broker.addresses["http"]),
        "127.0.0.1:6650": str(broker.addresses["pulsar"]),
        "5672": str(broker.addresses["amqp"].port),
    }.items():
        text = text.replace(documented, real)
    if snippet["kind"] == "python":
        commands = [[sys.executable, "-c", text]]
    else:
        assert all(line.startswith("arneb ") for line in text.splitlines()), text
        commands = [[sys.executable, "-m", *line.split()] for line in text.splitlines()]
    printed = ""
    for command in commands:
        done = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{snippet['text']}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    return printed


def test_the_tour_prints_what_it_says(broker: BrokerProcess, tmp_path: Path) -> None:
    for snippet in tour():
        if "pyspark" in snippet["text"] and not HAS_SPARK:
            continue
        printed = run(broker, snippet, tmp_path)
        if snippet["output"] is not None:
            assert printed.strip() == snippet["output"].strip(), snippet["text"]
        else:
            assert printed.strip(), f"printed nothing: {snippet['text']}"


def test_the_configuration_shown_is_the_default_one(tmp_path: Path) -> None:
    [snippet] = snippets("toml")
    file = tmp_path / "arneb.toml"
    file.write_text(snippet["text"])
    assert load_config(file) == replace(Config(), data_dir=tmp_path / Config().data_dir)
