"""``arneb client``: sends and receives messages on the command line."""

import subprocess
from collections.abc import Iterator
from itertools import count

import pika
import pytest
from conformance.brokers.arneb import Arneb, arneb_command, arneb_environment
from tests.client_command import WITHIN_S, played

NUMBERS = count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arneb]:
    made = Arneb(
        tmp_path_factory.mktemp("broker"), listeners=("pulsar", "amqp", "http-pulsar")
    ).start()
    yield made
    made.stop()


@pytest.fixture
def topic() -> str:
    return f"topic-{next(NUMBERS)}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("read", "topic", "-f", "%y", "-e"), b"got %y"),
        (("read", "topic", "-o", "yesterday"), b"got 'yesterday'"),
        (("consume", "a/b", "-c", "1"), b"tenant/namespace/topic"),
        (("read", "topic", "-o", "1:2:3:4"), b"got '1:2:3:4'"),
        (("produce", "topic", "-H", "a"), b"got -H a"),
    ],
)
def test_meaningless_arguments_are_one_line(
    broker: Arneb, arguments: tuple[str, ...], expected: bytes
) -> None:
    done = played(broker.pulsar_url, *arguments, status=2)
    assert expected in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_unreachable_broker_is_one_line() -> None:
    done = played("pulsar://127.0.0.1:1", "--timeout", "0.5", "ping", status=2)
    assert b"expected a Pulsar broker at pulsar://127.0.0.1:1" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_closed_pipe_ends_a_command_that_waits(broker: Arneb, topic: str) -> None:
    output = played(broker.pulsar_url, "produce", topic, stdin=b"1\n").stderr
    assert output.startswith(b"1 message stored")
    with subprocess.Popen(
        [*arneb_command(), "client", "-b", broker.pulsar_url, "read", topic],
        env=arneb_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == b"1\n"
        reading.stdout.close()
        assert reading.wait(WITHIN_S) == 0
        assert reading.stderr.read() == b"1 message\n"


def test_a_port_of_another_protocol_is_recognised(broker: Arneb) -> None:
    admin = broker.admin_url.removeprefix("http://")
    for address, expected in (
        (f"pulsar://{broker.address}", "speaks AMQP"),
        (f"pulsar://{admin}", "speaks HTTP: a URL that begins with http://"),
        ("amqp://127.0.0.1:1", "expected a URL that begins with one of pulsar"),
    ):
        done = played(address, "--timeout", "10", "ping", "-c", "1", status=2)
        assert expected in done.stderr.decode()
    lines = played(broker.admin_url, "ping", "-c", "2", "-i", "0").stdout.decode().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(broker.pulsar_url)


def test_a_message_sent_by_one_protocol_is_received_by_the_other(broker: Arneb, topic: str) -> None:
    url, address = broker.pulsar_url, broker.address
    parameters = pika.ConnectionParameters(address.host, address.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(topic, durable=True)
        headers = pika.BasicProperties(headers={"a": "b"})
        channel.basic_publish("", topic, b"from a publisher", headers)
        printed = played(url, "read", topic, "-e", "-f", r"%k|%s|%h").stdout
        assert printed.startswith(b"%s|from a publisher|a=b," % topic.encode())
        played(url, "produce", topic, "-k", "key", "-H", "c=d", stdin=b"from a line\n")
        played(url, "consume", topic, "-s", "amqp", "-c", "1")
        method, properties, body = channel.basic_get(topic, auto_ack=True)
        assert (method.routing_key, properties.headers, body) == ("key", {"c": "d"}, b"from a line")
