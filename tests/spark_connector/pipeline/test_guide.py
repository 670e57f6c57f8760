"""The guide's snippets run, in their order, against a broker with the queues that they speak of."""

import json
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pika
import pytest
from conformance.brokers.arneb import Arneb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE: Final = Path(__file__).resolve().parents[3] / "docs" / "guide"
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES: Final = ("spark.md", "recipes.md")
STREAMS: Final = re.compile(r"^## A stream\n.*?^\*\*Latency", re.MULTILINE | re.DOTALL)
"""Played by ``tests/spark_connector/stream/test_guide_snippets.py``."""


def blocks(page: str, language: str) -> list[str]:
    """The snippets of a page, but for those of streams and writes."""
    text = STREAMS.sub("", (GUIDE / page).read_text(encoding="utf-8"))
    return [code for kind, code in BLOCK.findall(text) if kind == language]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Arneb]:
    """Orders, some of them dead."""
    running = Arneb(tmp_path, listeners=("amqp", "http"))
    running.start()
    address = pika.ConnectionParameters("127.0.0.1", running.address.port)
    with pika.BlockingConnection(address) as connection:
        channel = connection.channel()
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders-dead"}
        for queue, arguments in (("orders-dead", {}), ("orders-again", {}), ("orders", dead)):
            channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.confirm_delivery()
        for number in range(20):
            body = {"id": number, "amount": "1.5", "country": "NL" if number % 2 else "DE"}
            channel.basic_publish("", "orders", json.dumps(body).encode())
        for _ in range(4):
            channel.basic_nack(channel.basic_get("orders")[0].delivery_tag, requeue=False)
        while channel.queue_declare("orders-dead", passive=True).method.message_count < 4:
            connection.process_data_events(0.05)
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
    said = capsys.readouterr().out
    assert "\n20\n" in said, "the count of the tour"
    assert "10 of 20" in said, "what was replayed"
    assert re.search(r"\| *orders\| *rejected\| *4\|", said), "why messages die"


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
