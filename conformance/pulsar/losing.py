"""A proxy for Pulsar's protocol that loses a receipt, so that a message is sent again.

The rule: everything is passed on unchanged except one receipt: the first to follow a message with
the mark on the same connection. Instead of passing it on, the proxy closes the connection. Only
that connection counts, because a broker of Apache Pulsar may connect to itself through the same
address and write about the transaction meanwhile.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from conformance.wire.protobuf import decode, integer
from conformance.wire.pulsar import Command

MARK: Final = b"its receipt is lost"


class LosingProxy:
    """A proxy in front of one broker."""

    def __init__(self, listener: socket.socket, broker: tuple[str, int]) -> None:
        self._listener = listener
        self._broker = broker
        self._lock = threading.Lock()
        self.seen = 0
        """How many times a marked message was passed on."""
        self.lost = 0
        """How many receipts were lost."""

    def __repr__(self) -> str:
        return f"<LosingProxy before {self._broker}, {self.lost} lost>"

    def serve(self) -> None:
        """Accept connections until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                marked = threading.Event()
                for work, first, other in (
                    (self._to_broker, client, broker),
                    (self._to_client, broker, client),
                ):
                    threading.Thread(target=work, args=(first, other, marked), daemon=True).start()

    def _to_broker(
        self, client: socket.socket, broker: socket.socket, marked: threading.Event
    ) -> None:
        with suppress(OSError):
            for frame in frames(client):
                if MARK in frame:
                    marked.set()
                    with self._lock:
                        self.seen += 1
                broker.sendall(frame)
        _end(client, broker)

    def _to_client(
        self, broker: socket.socket, client: socket.socket, marked: threading.Event
    ) -> None:
        with suppress(OSError):
            for frame in frames(broker):
                with self._lock:
                    is_lost = marked.is_set() and not self.lost and _is_receipt(frame)
                    self.lost += is_lost
                if is_lost:
                    break
                client.sendall(frame)
        _end(client, broker)


@contextmanager
def losing(port: int, broker: tuple[str, int]) -> Iterator[LosingProxy]:
    """Run the proxy in front of a broker, on this port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        proxy = LosingProxy(listener, broker)
        threading.Thread(target=proxy.serve, daemon=True).start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def frames(connection: socket.socket) -> Iterator[bytes]:
    """Whole frames, until the connection ends."""
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
        while len(data) >= 4 and len(data) >= (size := 4 + int.from_bytes(data[:4], "big")):
            yield data[:size]
            data = data[size:]


def _is_receipt(frame: bytes) -> bool:
    size = int.from_bytes(frame[4:8], "big")
    return integer(decode(frame[8 : 8 + size]), 1) == Command.SEND_RECEIPT


def _end(*connections: socket.socket) -> None:
    for each in connections:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
