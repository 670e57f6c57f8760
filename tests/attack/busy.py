"""A thousand connections that are all busy at once, beside an idle one: how long a pass over them
lasts.

Either each sends work for several turns, or each publishes and acknowledges a little.

Run it as ``python -m tests.attack.busy``; ``test_busy.py`` checks the results against bounds.
"""

import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pika
from pamqp import body, commands, frame, header
from tests.amqp_frontend.server.raw import RawClient
from tests.attack.running import AttackedBroker

CONNECTIONS: Final = 1_000
REQUESTS: Final = 1_500
"""Requests per connection: 28 KiB, which the kernel accepts although nobody reads, and work for
several turns."""

ROUNDS: Final = 20
MESSAGE_BYTES: Final = 100

PING_EVERY_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Found:
    """The results of a run."""

    passes: Mapping[str, float]
    turns: Mapping[str, float]
    pings_s: list[float]
    """How long the idle connection waited for its answers, in ascending order."""


def _batch() -> bytes:
    return frame.marshal(commands.Basic.Qos(prefetch_count=1), 1) * REQUESTS


def attack(connections: int = CONNECTIONS) -> Found:
    """Have all connections send at once, and wait until all have been served."""
    with (
        tempfile.TemporaryDirectory() as directory,
        AttackedBroker(Path(directory) / "data") as broker,
    ):
        port = broker.ports["amqp"]
        clients = [RawClient(port).open() for _ in range(connections)]
        quiet = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        channel = quiet.channel()
        channel.queue_declare("quiet", auto_delete=True)
        data, pings, over = _batch(), [0.0], threading.Event()

        def ping() -> None:
            while not over.wait(PING_EVERY_S):
                began = time.monotonic()
                channel.queue_declare("quiet", passive=True)
                pings.append(time.monotonic() - began)

        pinging = threading.Thread(target=ping)
        pinging.start()
        broker.pause()  # so that all requests are there at once
        for client in clients:
            client.socket.sendall(data)
        broker.go_on()
        for client in clients:
            for _ in range(REQUESTS):
                client.expect(commands.Basic.QosOk)
        over.set()
        pinging.join()
        after = broker.turns()
        for client in clients:
            client.socket.close()
        quiet.close()
        return Found(after["passes"], after["turns"], sorted(pings))


def publish(connections: int = CONNECTIONS) -> Found:
    """At the same moment, each connection publishes a message to a queue of its own and
    acknowledges the one before; then all confirms and deliveries are awaited. Repeated
    :data:`ROUNDS` times."""
    with (
        tempfile.TemporaryDirectory() as directory,
        AttackedBroker(Path(directory) / "data") as broker,
    ):
        clients = [_consumer(broker.ports["amqp"], f"q{number}") for number in range(connections)]
        for done in range(ROUNDS):
            broker.pause()
            for number, client in enumerate(clients):
                ack = frame.marshal(commands.Basic.Ack(done), 1) if done else b""
                client.socket.sendall(ack + _message(f"q{number}"))
            broker.go_on()
            for client in clients:
                client.expect(commands.Basic.Deliver)  # the delivery comes before the confirm
                client.skip_delivery(2)
                client.expect(commands.Basic.Ack)
        after = broker.turns()
        for client in clients:
            client.socket.close()
        return Found(after["passes"], after["turns"], [])


def _consumer(port: int, queue: str) -> RawClient:
    client = RawClient(port).open()
    client.socket.settimeout(60)
    client.send(commands.Queue.Declare, 1, queue=queue, durable=True)
    client.expect(commands.Queue.DeclareOk)
    client.send(commands.Confirm.Select, 1)
    client.expect(commands.Confirm.SelectOk)
    client.send(commands.Basic.Consume, 1, queue=queue, consumer_tag="busy")
    client.expect(commands.Basic.ConsumeOk)
    return client


def _message(queue: str) -> bytes:
    properties = commands.Basic.Properties(delivery_mode=2)
    parts = (
        commands.Basic.Publish(routing_key=queue),
        header.ContentHeader(0, MESSAGE_BYTES, properties),
        body.ContentBody(bytes(MESSAGE_BYTES)),
    )
    return b"".join(frame.marshal(each, 1) for each in parts)


if __name__ == "__main__":
    print(attack())
    print(publish())
