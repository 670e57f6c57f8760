"""The guide's snippets of streams and writes do what the guide says, one after the other."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest

from arneb.demo.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "spark.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PLACES = ("orders-parquet", "orders-checkpoint", "copy-checkpoint")


def test_the_snippets_run(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    begin, end = text.index("\n## A stream\n"), text.index("\n**Latency.**")
    snippets = SNIPPET.findall(text[begin:end])
    assert len(snippets) == 4
    with BrokerProcess(tmp_path / "data") as broker:
        publish(broker.amqp_port)
        names: dict[str, object] = {"spark": spark}
        for snippet in snippets:
            code = snippet.replace("localhost:15672", str(broker.addresses["http"]))
            for place in PLACES:
                code = code.replace(f'"{place}"', repr(os.fspath(tmp_path / place)))
            exec(code, names)
        said = capsys.readouterr().out.splitlines()
        assert said[0] == "3"
        assert said[1].startswith("0 {'messages': 3, 'bytes': ")
        read = spark.read.format("arneb").option(
            "service.url", f"http://{broker.addresses['http']}"
        )
        assert read.option("topic", "orders-copy").load().count() == 3
        (total,) = read.option("topic", "totals").load().collect()
        assert bytes(total["value"]) == b'{"total": 12}'


def publish(port: int) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("totals", durable=True)
    channel.queue_declare("orders", durable=True)
    for number in range(3):
        channel.basic_publish("", "orders", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    connection.close()
