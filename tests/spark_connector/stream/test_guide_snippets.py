"""The guide's snippets of streams and writes do what the guide says, one after the other."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arneb.demo.process import BrokerProcess
from arneb.demo.shop import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "spark.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ORDERS = 30
PLACES = ("orders-parquet", "orders-checkpoint", "copy-checkpoint")


def test_the_snippets_run(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    begin, end = text.index("\n## A stream\n"), text.index("\n**Latency.**")
    snippets = SNIPPET.findall(text[begin:end])
    assert len(snippets) == 4
    with BrokerProcess(tmp_path / "data") as broker:
        fill(broker.amqp_port, ORDERS)
        names: dict[str, object] = {"spark": spark}
        for snippet in snippets:
            code = snippet.replace("localhost:15672", str(broker.addresses["http"]))
            for place in PLACES:
                code = code.replace(f'"{place}"', repr(os.fspath(tmp_path / place)))
            exec(code, names)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == str(ORDERS)
        assert lines[1].startswith(f"0 {{'messages': {ORDERS}, 'bytes': ")
        read = spark.read.format("arneb").option(
            "service.url", f"http://{broker.addresses['http']}"
        )
        assert read.option("topic", "orders-copy").load().count() == ORDERS
        (total,) = read.option("topic", "totals").load().collect()
        assert bytes(total["value"]) == b'{"total": 12}'
