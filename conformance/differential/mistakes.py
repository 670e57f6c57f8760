"""Protocol errors that no client library makes, and for which a broker must close the channel or
connection: bytes by name.

The rule: each consists of whole frames for an open channel, so that the broker can answer with a
close and its reason. Errors that RabbitMQ does not answer are in ``DIFFERENCES.md``; malformed
streams of bytes are in ``bad_input/``.
"""

import struct
from collections.abc import Callable
from typing import Final

from pamqp import commands, frame, header

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
END: Final = b"\xce"
NOT_OPEN: Final = 77
"""A channel that no program opens."""


def _frame(kind: int, channel: int, payload: bytes, end: bytes = END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def _method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return _frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def _publish(channel: int, size: int) -> bytes:
    """A publish and its content header, without a body."""
    head = header.ContentHeader(0, size, commands.Basic.Properties())
    return _publish_alone(channel) + frame.marshal(head, channel)


def _publish_alone(channel: int) -> bytes:
    return frame.marshal(commands.Basic.Publish(routing_key="nobody"), channel)


MISTAKES: Final[dict[str, Callable[[int], bytes]]] = {
    "open twice": lambda on: frame.marshal(commands.Channel.Open(), on),
    "not open": lambda on: frame.marshal(commands.Queue.Declare(queue="q"), NOT_OPEN),
    "method of the connection on a channel": lambda on: frame.marshal(
        commands.Connection.Open("/"), on
    ),
    "method of a channel on the connection": lambda on: frame.marshal(
        commands.Queue.Declare(queue="q"), 0
    ),
    "start-ok again": lambda on: frame.marshal(
        commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), 0
    ),
    "open the connection again": lambda on: frame.marshal(commands.Connection.Open("/"), 0),
    "what only a broker says": lambda on: frame.marshal(commands.Queue.DeclareOk("q", 0, 0), on),
    "arguments too short": lambda on: _method(on, 50, 10, b"\0\0\x05ab"),
    "header without a method": lambda on: frame.marshal(
        header.ContentHeader(0, 1, commands.Basic.Properties()), on
    ),
    "body without a header": lambda on: _frame(BODY, on, b"b"),
    "body where the header is due": lambda on: _publish_alone(on) + _frame(BODY, on, b"b"),
    "method where the header is due": lambda on: _publish_alone(on) + _publish_alone(on),
    "method where the body is due": lambda on: _publish(on, 1) + _publish_alone(on),
    "header of another class": lambda on: (
        _publish_alone(on) + _frame(HEADER, on, struct.pack(">HHQH", 50, 0, 1, 0))
    ),
    "heartbeat on a channel": lambda on: _frame(HEARTBEAT, on, b"") + _frame(9, on, b""),
    "unknown kind of frame": lambda on: _frame(7, on, b"payload"),
    "wrong end of a frame": lambda on: _frame(BODY, on, b"b", b"\0"),
    "frame too long": lambda on: _frame(BODY, on, bytes(131_073)),
}
