"""``rabbitmqctl`` of RabbitMQ 3.10.8 and ours: the same command lines, exit codes and output.

Rows of tables are compared in sorted order, because RabbitMQ's order is that of a hash table.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.brokers.rabbitmqctl import Batch, Said
from conformance.management.lines import LINES

from arneb.ctl.program import run

ESCAPES = re.compile(r"\x1b\[\d*m")
NODE = re.compile(r"arneb-?[0-9a-f]*@[\w-]+")
PROCESS = re.compile(r"<NODE[\d.]+>")
PROGRAM = re.compile(r"^(arneb ctl|rabbitmqctl) .*$", re.MULTILINE)


@contextmanager
def set_up(address: Address) -> Iterator[None]:
    """Create something to list while the block runs. The block's last commands close all
    connections and stop the broker, so the connection cannot be closed normally."""
    parameters = pika.ConnectionParameters(address.host, address.port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    _declare(connection)
    yield
    with suppress(pika.exceptions.AMQPError):
        connection.close()


def _declare(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    arguments = {"x-max-length": 10, "x-dead-letter-exchange": "amq.direct"}
    channel.queue_declare("q1", durable=True, arguments=arguments)
    channel.queue_declare("plain")
    channel.queue_declare('a\t"b"é', durable=True)
    channel.queue_declare("mine", exclusive=True)
    channel.exchange_declare(
        "x", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"}
    )
    channel.queue_bind("q1", "x", "a.*", arguments={"k": True})
    channel.basic_publish("", "q1", b"x")
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("q1", lambda *_: None, consumer_tag="tag", arguments={"x-priority": 3})
    connection.process_data_events(0.5)


def ours(directory: Path) -> list[Said]:
    found = []
    for each in LINES:
        out, errors = list[str](), list[str]()
        code = run(
            each.words, write=out.append, complain=errors.append,
            environment={"ARNEB_DATA_DIR": str(directory)},
        )  # fmt: skip
        found.append(Said(int(code), "\n".join(out), "\n".join(errors)))
    return found


def lines_of(text: str) -> list[str]:
    """The lines of an output, sorted, without what differs even between two nodes of the same
    broker."""
    text = PROCESS.sub("PROCESS", NODE.sub("NODE", ESCAPES.sub("", text)))
    text = PROGRAM.sub("", text.partition("\nUsage\n")[0])
    # In a table printed as JSON the commas come before the rows.
    rows = (each.removeprefix(",").rstrip() for each in text.splitlines())
    return sorted(each for each in rows if each)


def test_every_line_says_the_same_and_ends_the_same(tmp_path: Path) -> None:
    if not RabbitMQ.installed():
        pytest.skip("expected Debian's rabbitmq-server")
    theirs = RabbitMQ(tmp_path / "rabbitmq").start()
    try:
        with set_up(theirs.address):
            wanted = Batch(tmp_path / "batch", theirs).run([each.words for each in LINES])
    finally:
        theirs.stop()
    broker = Arneb(tmp_path / "arneb")
    broker.start()
    try:
        with set_up(broker.address):
            got = ours(broker.data)
    finally:
        broker.stop()
    different = []
    for line, mine, other in zip(LINES, got, wanted, strict=True):
        if mine.code != (other.code if line.code is None else line.code):
            different.append((line.words, "exit code", mine.code, other.code))
        if line.differs:
            continue
        for mine_said, other_said in ((mine.out, other.out), (mine.errors, other.errors)):
            if lines_of(mine_said) != lines_of(other_said):
                different.append((line.words, lines_of(mine_said), lines_of(other_said)))
    assert not different
