"""A client that sends exactly the bytes it is given, and may fall silent at any time."""

import socket
from typing import Any, Self
from warnings import catch_warnings

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Channel, Connection

from arneb_amqp.wire.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER, ChannelId
from arneb_amqp.wire.frames import cut_frame
from arneb_amqp.wire.methods import decode_method, encode_method


class RawClient:
    """One socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, kind: type[Command], channel: int = 0, **fields: Any) -> None:
        with catch_warnings(action="ignore"):
            command = kind()
        for name, value in fields.items():
            setattr(command, name, value)
        self.socket.sendall(encode_method(ChannelId(channel), command))

    def expect(self, kind: type[Command]) -> Any:
        """Read the next frame, which must be a method of that kind."""
        while isinstance(frame := cut_frame(self._held, 0, 1 << 30) if self._held else 1, int):
            chunk = self.socket.recv(65536)
            assert chunk, f"expected {kind.name}, but the connection was closed"
            self._held += chunk
        self._held = self._held[frame.bytes_on_wire :]
        command = decode_method(frame.payload)
        assert type(command) is kind, f"expected {kind.name}, got {command.name}"
        return command

    def expect_heartbeat(self) -> None:
        """Read the next frame, which must be a heartbeat."""
        while len(self._held) < len(HEARTBEAT_FRAME):
            chunk = self.socket.recv(65536)
            assert chunk, "expected a heartbeat, but the connection was closed"
            self._held += chunk
        assert self._held.startswith(HEARTBEAT_FRAME), self._held
        self._held = self._held[len(HEARTBEAT_FRAME) :]

    def skip_delivery(self, frames: int = 3) -> None:
        """Skip one delivery: method, header and one body frame."""
        for _ in range(frames):
            while isinstance(frame := cut_frame(self._held, 0, 1 << 30) if self._held else 1, int):
                chunk = self.socket.recv(65536)
                assert chunk, "expected a delivery, but the connection was closed"
                self._held += chunk
            self._held = self._held[frame.bytes_on_wire :]

    def open(self, heartbeat: int = 0, properties: dict[str, object] | None = None) -> Self:
        """Log in and open a channel."""
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect(Connection.Start)
        self.send(
            Connection.StartOk, client_properties=properties or {}, mechanism="PLAIN",
            response=b"\0guest\0guest", locale="en_US",
        )  # fmt: skip
        tune = self.expect(Connection.Tune)
        self.send(
            Connection.TuneOk, channel_max=tune.channel_max, frame_max=tune.frame_max,
            heartbeat=heartbeat,
        )  # fmt: skip
        self.send(Connection.Open, virtual_host="/")
        self.expect(Connection.OpenOk)
        self.send(Channel.Open, 1)
        self.expect(Channel.OpenOk)
        return self

    def consume(self, queue: str) -> None:
        """Consume from ``queue`` without a prefetch limit; the caller reads what arrives."""
        self.send(Basic.Consume, 1, queue=queue, consumer_tag="raw", no_ack=True)
