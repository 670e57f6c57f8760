"""A Pulsar client with little overhead, so that the broker is what is measured.

It speaks raw frames on blocking sockets and knows one kind of message: a body that begins with the
time at which it is due, unbatched, because official clients do not batch delayed messages. A
producer keeps a window of messages without receipts. Consumers of Shared subscriptions have a
receiver queue and acknowledge each message, many per command, as official clients do.
"""

import selectors
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

import crc32c
from conformance.brokers.process import Address, BrokerFailed
from conformance.wire.protobuf import Fields, varint
from conformance.wire.pulsar import Command, connect_frame, simple_frame

BODY_BYTES: Final = 64
RUN: Final = 1_000
RUNS_OUT: Final = 5
"""How many runs may be without receipts. Their receipts fit into a socket's buffer, so that neither
side ever waits for the other to read."""

RECEIVER_QUEUE: Final = 1_000
RECEIVE_BYTES: Final = 256 * 1024
WITHIN_S: Final = 60.0
SHARED: Final = 1
KEY_SHARED: Final = 3
"""Subscription types, as numbered by the protocol."""

ID: Final = 1
"""The id of a connection's only consumer or producer."""

SIZES: Final = struct.Struct(">II")
MESSAGE: Final = b"\x08\x09"
RECEIPT: Final = b"\x08\x07"
ID_SIZE_AT: Final = SIZES.size + 7
"""The position of the size of the message id in a MESSAGE: after type, command head and consumer
id."""

ID_FIELD: Final = b"\x1a"

DELIVER_AT: Final = b"\x98\x01"
LOW_BITS: Final = [bytes((low & 0x7F | 0x80, low >> 7 | 0x80)) for low in range(1 << 14)]
"""The first two bytes of a time as a varint, which differ from message to message."""


class Connection:
    """One connection that has completed its handshake."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection((address.host, address.port), WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.call(connect_frame(), Command.CONNECTED)

    def call(self, frame: bytes, answer: Command) -> None:
        """Send ``frame`` and wait for ``answer``. Raises :class:`BrokerFailed`."""
        self.socket.sendall(frame)
        wanted = b"\x08" + varint(answer)
        while True:
            for frame in self.frames():
                if frame[4:].startswith(wanted):
                    return
                if frame[4:6] == bytes((8, Command.PING)):
                    # creating ten thousand subscriptions takes minutes, during which the broker
                    # pings
                    self.answer(frame)
                    continue
                raise BrokerFailed(f"expected {answer.name}, got {frame[:80]!r}")

    def frames(self) -> Iterator[bytes]:
        """Wait for data; the result is the whole frames in it, without their total size."""
        buffer, ends = self.receive()
        at = 0
        for end in ends:
            yield buffer[at + 4 : end]
            at = end

    def receive(self) -> tuple[bytes, list[int]]:
        """Wait for data; the result is the data and the ends of the whole frames in it. Raises
        :class:`BrokerFailed`."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise BrokerFailed("the broker closed the connection")
        buffer = self._rest + data
        ends: list[int] = []
        at, size = 0, len(buffer)
        while at + 4 <= size:
            at += 4 + int.from_bytes(buffer[at : at + 4], "big")
            if at > size:
                break
            ends.append(at)
        self._rest = buffer[ends[-1] :] if ends else buffer
        return buffer, ends

    def answer(self, frame: bytes) -> None:
        """Handle a frame that is neither a message nor a receipt. Raises :class:`BrokerFailed`."""
        kind = frame[4:6]
        if kind == bytes((8, Command.PING)):
            self.socket.sendall(simple_frame(Command.PONG, []))
        elif kind in (bytes((8, Command.SEND_ERROR)), bytes((8, Command.ERROR))):
            raise BrokerFailed(f"the broker refused: {frame!r}")


def subscribe(connection: Connection, topic: str, subscription: str, kind: int = SHARED) -> None:
    """Create a consumer that starts at the earliest message."""
    fields: Fields = [(1, topic), (2, subscription), (3, kind), (4, ID), (5, 1), (8, 1), (13, 1)]
    connection.call(simple_frame(Command.SUBSCRIBE, fields), Command.SUCCESS)


def make_subscriptions(address: Address, topic: str, names: Iterable[str]) -> None:
    """Subscribe and leave, so that the subscriptions exist."""
    for name in names:
        connection = Connection(address)
        subscribe(connection, topic, name)
        connection.socket.close()


def publish(address: Address, topic: str, times_ms: Iterable[int]) -> float:
    """Publish one message for each time, where 0 means no delay; the result is messages per
    second."""
    connection = Connection(address)
    fields: Fields = [(1, topic), (2, ID), (3, 1)]
    connection.call(simple_frame(Command.PRODUCER, fields), Command.PRODUCER_SUCCESS)
    times, number, out = iter(times_ms), 0, 0
    began = time.perf_counter()
    while True:
        run = list(islice(times, RUN))
        if run:
            connection.socket.sendall(b"".join(_sends(number, run)))
            number += len(run)
            out += len(run)
        while out > (RUNS_OUT - 1) * RUN or (out and not run):
            for frame in connection.frames():
                if frame[4:6] == RECEIPT:
                    out -= 1
                else:
                    connection.answer(frame)
        if not run:
            break
    took_s = time.perf_counter() - began
    connection.socket.close()
    return number / took_s


def _sends(number: int, times_ms: Iterable[int]) -> Iterator[bytes]:
    now = b"\x18" + varint(time.time_ns() // 1_000_000)
    for sequence, at_ms in enumerate(times_ms, number):
        count = varint(sequence)
        metadata = b"\x0a\x05bench\x10" + count + now
        if at_ms:
            metadata += DELIVER_AT + LOW_BITS[at_ms & 0x3FFF] + _high_bits(at_ms >> 14)
        body = at_ms.to_bytes(8, "big") + bytes(BODY_BYTES - 8)
        covered = len(metadata).to_bytes(4, "big") + metadata + body
        command = b"\x08\x01\x10" + count + b"\x18\x01"
        command = b"\x08\x06\x32" + varint(len(command)) + command
        size = len(command) + 10 + len(covered)
        yield SIZES.pack(size, len(command)) + command + b"\x0e\x01"
        yield crc32c.crc32c(covered).to_bytes(4, "big") + covered


@lru_cache(maxsize=64)
def _high_bits(number: int) -> bytes:
    return varint(number)


@dataclass(slots=True)
class Receiver:
    """The consumer of one subscription."""

    connection: Connection
    messages: int
    """How many messages it takes at least."""
    timed: bool = True
    """Whether the messages are those of :func:`publish`, none of which may come before its time."""
    count: int = 0
    asked: int = 0

    def flow(self) -> None:
        """Grant permits for the free part of the receiver queue, once half of it is free."""
        free = min(self.count + RECEIVER_QUEUE, self.messages) - self.asked
        if free and (free >= RECEIVER_QUEUE // 2 or self.asked + free == self.messages):
            self.asked += free
            self.connection.socket.sendall(simple_frame(Command.FLOW, [(1, ID), (2, free)]))

    def take(self) -> int:
        """Wait for messages and acknowledge them; the result is how many there were."""
        buffer, ends = self.connection.receive()
        ids: list[bytes] = []
        at, latest = 0, b""
        for end in ends:
            if buffer[at + 8 : at + 10] == MESSAGE:
                size_at = at + ID_SIZE_AT
                ids.append(buffer[size_at : size_at + 1 + buffer[size_at]])
                due = buffer[end - BODY_BYTES : end - BODY_BYTES + 8]
                if self.timed and due > latest:
                    latest = due
            else:
                self.connection.answer(buffer[at + 4 : end])
            at = end
        if int.from_bytes(latest, "big") > time.time_ns() // 1_000_000:
            raise BrokerFailed("a message came before its time")
        if ids:
            command = b"\x08\x01\x10\x00" + ID_FIELD + ID_FIELD.join(ids)
            base = b"\x08\x0a\x52" + varint(len(command)) + command
            self.connection.socket.sendall(SIZES.pack(len(base) + 4, len(base)) + base)
        self.count += len(ids)
        self.flow()
        return len(ids)


def drain(
    address: Address, topic: str, subscriptions: Iterable[str], messages: int, within_s: float
) -> float:
    """Each subscription takes ``messages``; the result is deliveries per second, from the first one
    on."""
    receivers: list[Receiver] = []
    selector = selectors.DefaultSelector()
    for name in subscriptions:
        receiver = Receiver(Connection(address), messages)
        subscribe(receiver.connection, topic, name)
        selector.register(receiver.connection.socket, selectors.EVENT_READ, receiver)
        receivers.append(receiver)
    for receiver in receivers:
        receiver.flow()
    began, left = 0.0, messages * len(receivers)
    while left:
        ready = selector.select(within_s)
        if not ready:
            raise BrokerFailed(f"expected {left} more messages within {within_s} s")
        for key, _ in ready:
            taken = key.data.take()
            left -= taken
            if taken and not began:
                began = time.perf_counter()
    took_s = time.perf_counter() - began
    for receiver in receivers:
        receiver.connection.socket.close()
    return messages * len(receivers) / took_s
