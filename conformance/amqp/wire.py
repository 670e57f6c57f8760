"""A socket and whole frames: shows what client libraries hide, and sends what none of them would.

The rule: it sends what it is given and reads what arrives; it checks nothing and answers nothing by
itself.
"""

import socket
import struct
from contextlib import suppress
from typing import Any, Self

from conformance.amqp.helpers import WITHIN_S
from conformance.conftest import Target
from pamqp import commands, frame

HEADER = b"AMQP\x00\x00\x09\x01"
LOGIN = "\0guest\0guest"


class Wire:
    """A socket that reads whole frames."""

    def __init__(self, target: Target) -> None:
        self.socket = socket.create_connection((target.address.host, target.address.port), WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, method: object, channel: int = 0) -> None:
        self.socket.sendall(frame.marshal(method, channel))  # type: ignore[arg-type]

    def read(self) -> object:
        """The next frame's value, heartbeats included; None at the end of the stream."""
        head = self._exactly(7)
        if len(head) < 7:
            return None
        data = head + self._exactly(struct.unpack(">I", head[3:])[0] + 1)
        return frame.unmarshal(data)[2]

    def open(
        self, mechanism: str = "PLAIN", response: str = "\0guest\0guest", heartbeat: int = 0
    ) -> None:
        self.socket.sendall(HEADER)
        assert isinstance(self.read(), commands.Connection.Start)
        self.send(commands.Connection.StartOk({}, mechanism, response, "en_US"))
        tune = self.read()
        assert isinstance(tune, commands.Connection.Tune)
        self.send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, heartbeat))
        self.send(commands.Connection.Open("/"))
        assert isinstance(self.read(), commands.Connection.OpenOk)

    def _exactly(self, count: int) -> bytes:
        """Read exactly ``count`` bytes, or fewer at the end of the stream; a reset counts as the
        end."""
        data = b""
        with suppress(ConnectionResetError):
            while len(data) < count and (chunk := self.socket.recv(count - len(data))):
                data += chunk
        return data


class WireClient(Wire):
    """A client that can send anything, valid or not."""

    def start(self, mechanism: str = "PLAIN", response: str = LOGIN, **properties: Any) -> Any:
        """Send the header and the login; the result is the answer to connection.start-ok."""
        self.socket.sendall(HEADER)
        assert isinstance(self.read(), commands.Connection.Start)
        self.send(commands.Connection.StartOk(properties, mechanism, response, "en_US"))
        return self.read()

    def tune(self, *, frame_max: int = 0, channel_max: int = 0, heartbeat: int = 0) -> Any:
        """Log in, and tune to these values, or for zero to those that the broker offers; the result
        is the answer to connection.open."""
        tune = self.start()
        assert isinstance(tune, commands.Connection.Tune)
        self.send(
            commands.Connection.TuneOk(
                channel_max or tune.channel_max, frame_max or tune.frame_max, heartbeat
            )
        )
        self.send(commands.Connection.Open("/"))
        return self.read()

    def open_channel(self, number: int = 1) -> Any:
        self.send(commands.Channel.Open(), number)
        return self.read()

    def read_head(self) -> tuple[int, bytes]:
        """The next frame's type and payload."""
        head = self._exactly(7)
        data = self._exactly(struct.unpack(">I", head[3:])[0] + 1)
        return head[0], data[:-1]
