"""A canary: one honest client at each port that asks little and waits for its answer.

``python -m tests.attack.canary PORTS SECONDS`` prints how long each answer took, as JSON.
``PORTS`` is JSON as well: the port of every listener.
"""

import json
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Final

import pika
from tests.pulsar_frontend.raw_client import body_of
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

EVERY_S: Final = 0.02
Ask = Callable[[], None]


def amqp(port: int) -> Ask:
    """Publish with a confirm, and get it."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("canary")
    channel.confirm_delivery()

    def ask() -> None:
        channel.basic_publish("", "canary", b"alive")
        assert channel.basic_get("canary", auto_ack=True)[2] == b"alive"

    return ask


def pulsar(port: int) -> Ask:
    """Send, and wait for the receipt."""
    stream = socket.create_connection(("127.0.0.1", port), timeout=60)
    reader, heard = FrameReader(), list[bytes]()

    def say(data: bytes) -> None:
        stream.sendall(data)
        while not heard:
            heard.extend(reader.receive(stream.recv(65536))[0])
        heard.clear()

    say(received(pb.CommandConnect(client_version="canary", protocol_version=13)).data)
    say(received(pb.CommandProducer(topic="canary-pulsar", producer_id=1, request_id=1)).data)
    numbers = iter(range(1 << 62))

    def ask() -> None:
        command = pb.CommandSend(producer_id=1, sequence_id=next(numbers))
        say(received(command, body=body_of(b"alive")).data)

    return ask


def http(path: str) -> Callable[[int], Ask]:
    """Get a document, each time on a connection of its own."""

    def of(port: int) -> Ask:
        def ask() -> None:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                assert answer.read()

        return ask

    return of


LISTENERS: Final = {
    "amqp": amqp,
    "pulsar": pulsar,
    "http": http("/healthz"),
    "http-pulsar": http("/admin/v2/clusters"),
}


def watch(listener: str, port: int, until: float, found: dict[str, list[float]]) -> None:
    ask = LISTENERS[listener](port)
    times = found[listener] = []
    while (began := time.monotonic()) < until:
        ask()
        times.append(time.monotonic() - began)
        time.sleep(EVERY_S)


def main() -> None:
    ports, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
    found: dict[str, list[float]] = {}
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=watch, args=(listener, port, until, found))
        for listener, port in ports.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
