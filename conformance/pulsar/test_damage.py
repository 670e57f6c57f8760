"""What is damaged on its way to the broker is refused, and nothing else is affected."""

import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pulsar
import pytest
from conformance.pulsar.conftest import BrokerUrls
from conformance.pulsar.helpers import payloads, take

WHOLE, DAMAGED = b"come-whole", b"come-holed"


class BadWire:
    """A proxy in front of the broker that replaces :data:`WHOLE` by :data:`DAMAGED`.

    The broker's own port is replaced in its answers too, so that clients keep using the proxy.
    """

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        assert len(str(self.port)) == len(str(broker)), "frames keep their lengths"
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        here, there = b":%d" % self.port, b":%d" % self._broker
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._broker))
            self._open += (client, broker)
            self._pass_on(client, broker, lambda data: data.replace(WHOLE, DAMAGED))
            self._pass_on(broker, client, lambda data: data.replace(there, here))

    def _pass_on(
        self, source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]
    ) -> None:
        def run() -> None:
            try:
                while data := source.recv(1 << 16):
                    target.sendall(change(data))
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the other direction has ended

        threading.Thread(target=run, daemon=True).start()


@pytest.fixture
def bad_wire(broker_urls: BrokerUrls) -> Iterator[BadWire]:
    port = urlsplit(broker_urls.pulsar).port
    assert port is not None
    wire = BadWire(port)
    yield wire
    wire.close()


def test_a_message_that_was_damaged_on_its_way_is_refused(bad_wire: BadWire, topic: str) -> None:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(f"pulsar://127.0.0.1:{bad_wire.port}", logger=quiet)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"before")
    with pytest.raises(pulsar.ChecksumError):
        producer.send(WHOLE)
    producer.send(b"behind")
    assert payloads(take(consumer, 2)) == [b"before", b"behind"]
    client.close()
