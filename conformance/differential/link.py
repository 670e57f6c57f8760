"""One connection on raw frames, used step by step: it sends, and keeps what arrives by channel.

The rule: it decides nothing and hides nothing. Every method of the broker becomes one event of its
channel, in order; channel 0 is the connection itself. Only closes are answered, because nothing
else may be sent until they are.
"""

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.brokers.process import Address
from pamqp import base, body, commands, frame, header, heartbeat

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
FRAME_HEAD: Final = struct.Struct(">BHI")
FRAME_MAX: Final = 131072
FRAME_OVERHEAD: Final = 8
CHUNK: Final = 1 << 18
ANSWER_WITHIN_S: Final = 30.0
CAPABILITIES: Final = {
    "consumer_cancel_notify": True,
    "authentication_failure_close": True,
    "basic.nack": True,
    "publisher_confirms": True,
}

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One method that the broker sent, with its content if it has one."""

    name: str
    fields: Fields
    properties: Fields | None = None
    body: bytes = b""


@dataclass(slots=True)
class _Content:
    method: base.Frame
    head: header.ContentHeader | None = None
    parts: list[bytes] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return self.head is not None and sum(map(len, self.parts)) >= (self.head.body_size or 0)


class Link:
    """A connection whose handshake is complete."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection((address.host, address.port), ANSWER_WITHIN_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._contents: dict[int, _Content] = {}
        self.events: dict[int, list[Event]] = {0: []}
        self.open_channels: set[int] = set()
        self.alive = True
        self._shake_hands()

    def send(self, channel: int, *methods: base.Frame) -> None:
        """Write without waiting. After the connection has ended, writes are ignored."""
        self.write(b"".join(frame.marshal(method, channel) for method in methods))

    def write(self, data: bytes) -> None:
        """Write any bytes, whether or not they are valid frames."""
        try:
            if self.alive:
                self._socket.settimeout(ANSWER_WITHIN_S)
                self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self._ended()

    def publish(
        self,
        channel: int,
        method: commands.Basic.Publish,
        properties: commands.Basic.Properties,
        data: bytes,
    ) -> None:
        size = FRAME_MAX - FRAME_OVERHEAD
        parts = [data[start : start + size] for start in range(0, len(data), size)]
        self.write(
            b"".join(
                [
                    frame.marshal(method, channel),
                    frame.marshal(header.ContentHeader(0, len(data), properties), channel),
                    *(frame.marshal(body.ContentBody(part), channel) for part in parts),
                ]
            )
        )

    def call(self, channel: int, method: base.Frame, *answers: str) -> Event | None:
        """Send ``method`` and read until one of ``answers`` arrives; None if the channel is closed
        instead."""
        seen = len(self.events[channel])
        self.send(channel, method)
        return self.answer(channel, seen, *answers)

    def answer(self, channel: int, seen: int, *answers: str) -> Event | None:
        """Read until one of ``answers`` is among the events of ``channel`` from number ``seen`` on;
        None if the channel is closed instead."""
        events = self.events[channel]
        self.read_until(
            lambda: (
                any(event.name in answers for event in events[seen:]) or not self.is_open(channel)
            )
        )
        return next((event for event in events[seen:] if event.name in answers), None)

    def is_open(self, channel: int) -> bool:
        return self.alive and (channel == 0 or channel in self.open_channels)

    def open_channel(self, channel: int) -> None:
        self.events.setdefault(channel, [])
        self.open_channels.add(channel)
        assert self.call(channel, commands.Channel.Open(), "Channel.OpenOk"), "no channel"
        self.events[channel].pop()

    def close(self) -> None:
        """Close the connection with connection.close."""
        if self.alive:
            self.call(0, commands.Connection.Close(200, "bye", 0, 0), "Connection.CloseOk")
        self.drop()

    def drop(self) -> None:
        """Close the socket without connection.close."""
        self.alive = False
        self.open_channels.clear()
        self._socket.close()

    def read_until(self, done: Callable[[], bool]) -> None:
        """Read frames until ``done()`` or the end of the stream. Raises ``TimeoutError`` if neither
        comes."""
        end = time.monotonic() + ANSWER_WITHIN_S
        while not done() and self.alive:
            self._socket.settimeout(max(0.001, end - time.monotonic()))
            self._read()

    def _shake_hands(self) -> None:
        self.write(PROTOCOL_HEADER)
        self.answer(0, 0, "Connection.Start")
        client = {"capabilities": CAPABILITIES, "product": "differential"}
        self.send(0, commands.Connection.StartOk(client, "PLAIN", "\0guest\0guest", "en_US"))
        self.answer(0, 0, "Connection.Tune")
        self.send(0, commands.Connection.TuneOk(2047, FRAME_MAX, 0))
        assert self.call(0, commands.Connection.Open("/"), "Connection.OpenOk"), "no connection"
        self.events[0].clear()

    def _read(self) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except ConnectionResetError:
            data = b""
        if not data:
            self._ended()
            return
        self._buffer += data
        while len(self._buffer) >= FRAME_HEAD.size:
            size = FRAME_HEAD.size + FRAME_HEAD.unpack_from(self._buffer)[2] + 1
            if len(self._buffer) < size:
                return
            _, channel, value = frame.unmarshal(bytes(self._buffer[:size]))
            del self._buffer[:size]
            self._take(channel, value)

    def _ended(self) -> None:
        self.events[0].append(Event("end of stream", {}))
        self.drop()

    def _take(self, channel: int, value: Any) -> None:
        match value:
            case commands.Basic.Deliver() | commands.Basic.Return() | commands.Basic.GetOk():
                self._contents[channel] = _Content(value)
            case header.ContentHeader():
                self._contents[channel].head = value
                self._end_content(channel)
            case body.ContentBody():
                self._contents[channel].parts.append(value.value)
                self._end_content(channel)
            case heartbeat.Heartbeat():
                pass
            case _:
                self._keep(channel, value)

    def _keep(self, channel: int, method: base.Frame) -> None:
        self.events[channel].append(Event(method.name.removeprefix("amqp."), dict(method)))
        match method:
            case commands.Channel.Close():
                self.open_channels.discard(channel)
                self.send(channel, commands.Channel.CloseOk())
            case commands.Channel.CloseOk():
                self.open_channels.discard(channel)
            case commands.Connection.Close():
                self.send(0, commands.Connection.CloseOk())
                self.drop()
            case _:
                pass

    def _end_content(self, channel: int) -> None:
        content = self._contents[channel]
        if not content.whole:
            return
        assert content.head is not None
        properties = {key: value for key, value in content.head.properties if value is not None}
        method = content.method
        self.events[channel].append(
            Event(method.name, dict(method), properties, b"".join(content.parts))
        )
        del self._contents[channel]
