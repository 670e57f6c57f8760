"""The guide's page on the sealed tier: every snippet is run, in order, and prints what it says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from lake_kit import write_ledgers

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs/guide/lake.md"
BLOCK: Final = re.compile(
    r"^```(?P<kind>sh|python)\n(?P<text>.*?)^```\n\n```text\n(?P<output>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)


def words_of(match: re.Match[str]) -> list[str]:
    if match["kind"] == "python":
        return [sys.executable, "-W", "ignore", "-c", match["text"]]
    command, *words = shlex.split(match["text"])
    assert command == "arneb"
    return [sys.executable, "-m", "arneb", *words]


def lines(text: str) -> list[str]:
    """What is printed, but for how well it is compressed."""
    return [re.sub(r"[\d,]+ bytes", "… bytes", line.rstrip()) for line in text.splitlines()]


def test_the_page_says_what_happens(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    write_ledgers(tmp_path / "arneb-data", 3)
    # As in an environment that is not activated: the page says what Spark needs.
    inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    steps = list(BLOCK.finditer(GUIDE.read_text(encoding="utf-8")))
    assert len(steps) == 6
    for step in steps:
        done = subprocess.run(
            words_of(step),
            cwd=tmp_path,
            env={
                **inherited,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert lines(done.stdout) == lines(step["output"]), step["text"]
