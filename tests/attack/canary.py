"""A canary: one honest client at each listener, which sends small requests and waits for each
answer.

``python -m tests.attack.canary PORTS SECONDS`` prints how long each answer took, as JSON. ``PORTS``
is JSON as well: the port of every listener.
"""

import json
import socket
import sys
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final

import pika
from tests.pulsar_frontend.raw_client import body_of
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

EVERY_S: Final = 0.02
Ask = Callable[[], None]
NO_HEADERS: Final[Mapping[str, str]] = {}


def amqp(port: int) -> Ask:
    """Publish with a confirm, and get the message."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("canary")
    channel.confirm_delivery()

    def ask() -> None:
        channel.basic_publish("", "canary", b"alive")
        assert channel.basic_get("canary", auto_ack=True)[2] == b"alive"

    return ask


def pulsar(port: int) -> Ask:
    """Send a message and wait for the receipt."""
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


def http(path: str, headers: Mapping[str, str] = NO_HEADERS) -> Callable[[int], Ask]:
    """Get a document, each time on a new connection."""

    def of(port: int) -> Ask:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=dict(headers))

        def ask() -> None:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert answer.read()

        return ask

    return of


PAGE: Final = "/api/queues?page=1&page_size=10"
AS_GUEST: Final = {"authorization": f"Basic {b64encode(b'guest:guest').decode()}"}

CANARIES: Final[Mapping[str, tuple[str, Callable[[int], Ask]]]] = {
    "amqp": ("amqp", amqp),
    "pulsar": ("pulsar", pulsar),
    "http": ("http", http("/healthz")),
    "http-management": ("http", http(PAGE, AS_GUEST)),
    "http-pulsar": ("http-pulsar", http("/admin/v2/clusters")),
}
"""The canaries by name: the listener, and what is requested there."""


def watch(canary: str, port: int, until: float, found: dict[str, list[float]]) -> None:
    ask = CANARIES[canary][1](port)
    times = found[canary] = []
    while (began := time.monotonic()) < until:
        ask()
        times.append(time.monotonic() - began)
        time.sleep(EVERY_S)


def main() -> None:
    ports, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
    found: dict[str, list[float]] = {}
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=watch, args=(canary, ports[listener], until, found))
        for canary, (listener, _) in CANARIES.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
