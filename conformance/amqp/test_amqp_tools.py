"""The command-line tools of librabbitmq, used as in shell scripts."""

import shutil
import subprocess

import pytest
from conformance.amqp.conftest import Named
from conformance.amqp.helpers import bodies_in, publish
from conformance.conftest import Target
from pika.adapters.blocking_connection import BlockingChannel

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None, reason="amqp-tools is not installed"
)


def tool(broker: Target, command: str, *arguments: str, standard_input: str = "") -> str:
    """Run a tool against the broker; the result is what it prints."""
    server = ["--server", broker.address.host, "--port", str(broker.address.port)]
    done = subprocess.run(
        [command, *server, *arguments],
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.returncode} {done.stderr}"
    return done.stdout


def test_declare_publish_get_delete(broker: Target, name: Named) -> None:
    queue = name("tools")
    assert tool(broker, "amqp-declare-queue", "-d", "-q", queue).strip() == queue
    tool(broker, "amqp-publish", "-r", queue, "-p", "-b", "hello")
    assert tool(broker, "amqp-get", "-q", queue) == "hello"
    assert tool(broker, "amqp-delete-queue", "-q", queue).strip() == "0"


def test_publish_each_line_and_consume_them(broker: Target, queue: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(50))
    tool(broker, "amqp-publish", "-r", queue, "-l", standard_input=lines)
    got = tool(broker, "amqp-consume", "-q", queue, "-c", "50", "cat")
    assert got.split("line ")[1:] == [f"{number}" for number in range(50)] or got == lines


def test_properties_arrive(broker: Target, channel: BlockingChannel, queue: str) -> None:
    arguments = ["-r", queue, "-p", "-C", "text/plain", "-t", "answers", "-H", "color: red"]
    tool(broker, "amqp-publish", *arguments, "-b", "x")
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"x"
    assert (properties.content_type, properties.delivery_mode) == ("text/plain", 2)
    assert (properties.reply_to, properties.headers) == ("answers", {"color": "red"})


def test_get_from_an_empty_queue_says_so(broker: Target, queue: str) -> None:
    server = ["--server", broker.address.host, "--port", str(broker.address.port)]
    command = ["amqp-get", *server, "-q", queue]
    done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    assert done.returncode == 2


def test_consume_leaves_the_rest(broker: Target, channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a", b"b", b"c")
    assert tool(broker, "amqp-consume", "-q", queue, "-c", "2", "-p", "1", "cat") == "ab"
    assert bodies_in(channel, queue) == [b"c"]
