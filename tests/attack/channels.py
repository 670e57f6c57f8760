"""Opens 100,000 channels at once and closes them: how much memory remains in use.

``python -m tests.attack.channels`` first closes them one by one on connections that stay open, then
drops them with their connections, and prints both figures. The rule: a minute later no more than
:data:`LEFT_MIB` above the idle level may be in use. With ``--used`` each channel first changes one
of its settings.
"""

import argparse
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.attack.running import AttackedBroker

from arneb.runtime.garbage import CHECK_INTERVAL_S, GIVE_BACKS

CONNECTIONS: Final = 50
CHANNELS_EACH: Final = 2_000

LEFT_MIB: Final = 64
QUIET_S: Final = 60.0

OPEN, OPEN_OK, CLOSE, CLOSE_OK = (20, 10), (20, 11), (20, 40), (20, 41)
QOS, QOS_OK = (60, 10), (60, 11)
GOODBYE: Final = struct.pack(">HBHH", 200, 0, 0, 0)
FIVE: Final = struct.pack(">IHB", 0, 5, 0)


def _method(channel: int, method: tuple[int, int], arguments: bytes) -> bytes:
    payload = struct.pack(">HH", *method) + arguments
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


class Client:
    """A connection that sends a method on each of its channels and then reads the answers."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60.0)
        self._file = self._socket.makefile("rb")
        self._socket.sendall(b"AMQP\0\0\x09\x01")
        self._expect((10, 10))
        login = b"\0guest\0guest"
        start_ok = struct.pack(">IB5sI", 0, 5, b"PLAIN", len(login)) + login + b"\x05en_US"
        self._socket.sendall(_method(0, (10, 11), start_ok))
        self._expect((10, 30))
        tune_ok = struct.pack(">HIH", 2047, 131_072, 0)
        self._socket.sendall(_method(0, (10, 31), tune_ok) + _method(0, (10, 40), b"\x01/\0\0"))
        self._expect((10, 41))

    def on_each(
        self, count: int, method: tuple[int, int], arguments: bytes, answer: tuple[int, int]
    ) -> None:
        """Send the same method on channels 1 to ``count``, and read the answers."""
        for channel in range(1, count + 1):
            self._socket.sendall(_method(channel, method, arguments))
        for _ in range(count):
            self._expect(answer)

    def drop(self) -> None:
        """Close the socket without connection.close."""
        self._file.close()
        self._socket.close()

    def _expect(self, method: tuple[int, int]) -> None:
        _, _, size = struct.unpack(">BHI", self._file.read(7))
        got = struct.unpack_from(">HH", self._file.read(size + 1))
        assert got == method, f"expected {method}, got {got}"


@contextmanager
def opened(
    broker: AttackedBroker, connections: int, channels: int, *, used: bool = False
) -> Iterator[list[Client]]:
    """Clients with that many channels each; they are dropped at the end."""
    clients = []
    try:
        for _ in range(connections):
            clients.append(client := Client(broker.ports["amqp"]))
            client.on_each(channels, OPEN, b"\0", OPEN_OK)
            if used:
                client.on_each(channels, QOS, FIVE, QOS_OK)
        yield clients
    finally:
        for client in clients:
            client.drop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit status is 0 if the remaining memory is within the bound."""
    parser = argparse.ArgumentParser(prog="tests.attack.channels", description=__doc__)
    parser.add_argument("--used", action="store_true")
    used = parser.parse_args(arguments).used
    left_mib = []
    for how in ("closed", "dropped"):
        with (
            tempfile.TemporaryDirectory(prefix="arneb-channels-") as place,
            AttackedBroker(Path(place) / "data") as broker,
        ):
            time.sleep(2 * CHECK_INTERVAL_S)
            idle_mib = broker.memory_mib()
            with opened(broker, CONNECTIONS, CHANNELS_EACH, used=used) as clients:
                most_mib = broker.memory_mib()
                if how == "closed":
                    for client in clients:
                        client.on_each(CHANNELS_EACH, CLOSE, GOODBYE, CLOSE_OK)
                    time.sleep(QUIET_S)
                    left_mib.append(broker.memory_mib() - idle_mib)
            if how == "dropped":
                time.sleep(QUIET_S)
                left_mib.append(broker.memory_mib() - idle_mib)
        print(
            f"{CONNECTIONS * CHANNELS_EACH} channels, {how}: idle {idle_mib:.0f} MiB,"
            f" at the most {most_mib:.0f}, {QUIET_S:.0f} s later {left_mib[-1]:.0f} above idle",
            flush=True,
        )
    assert GIVE_BACKS * CHECK_INTERVAL_S <= QUIET_S, (
        "free memory must be returned to the system before it is measured"
    )
    return int(max(left_mib) > LEFT_MIB)


if __name__ == "__main__":
    sys.exit(main())
