"""Items: a connection's bytes as the reader decodes them, in wire order.

Plain slotted values, not frozen: making a frozen one costs four times as much, and some are made
for every message. Runs hold lists because their users process them with C-level builtins.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pamqp.base import Frame as Command

from arneb_amqp.errors import AmqpError
from arneb_amqp.wire.constants import ChannelId, DeliveryTag


@dataclass(slots=True)
class PublishRun:
    """Consecutive ``basic.publish`` on one channel that differ only in content.

    ``route`` is the exchange and the routing key, both as short strings, as in the method
    (:func:`arneb_amqp.wire.route.split_route` splits it). ``immediate`` is not set, and no message
    has an interesting property (see :mod:`arneb_amqp.wire.property_judge`).
    Each of ``bodies`` is ``0xCE``, the content header frame and, if the message is not empty, one
    content body frame: ``header40 + route + body`` is the entry. All messages are ``persistent`` or
    none is, and all are ``mandatory`` or none is; all have the same priority, and the same
    expiration or none.
    """

    channel: ChannelId
    route: bytes
    persistent: bool
    mandatory: bool
    bodies: list[bytes]
    priority: int = 0
    expiration_ms: int | None = None


@dataclass(slots=True)
class VariedRun:
    """Consecutive ``basic.publish`` on one channel that differ in their routes as well.

    As :class:`PublishRun`, but each of ``bodies`` has its own route, at the same index of
    ``routes``.
    """

    channel: ChannelId
    persistent: bool
    mandatory: bool
    routes: list[bytes]
    bodies: list[bytes]
    priority: int = 0
    expiration_ms: int | None = None


@dataclass(slots=True)
class Publish:
    """One ``basic.publish`` that must be inspected: ``immediate`` is set or a property is
    interesting.

    ``properties`` is the content header's well-formed property list, from the flags on;
    :func:`arneb_amqp.wire.properties.decode_properties` reads it. ``body`` is as in
    :class:`PublishRun`.
    """

    channel: ChannelId
    route: bytes
    persistent: bool
    mandatory: bool
    immediate: bool
    properties: bytes
    body: bytes


@dataclass(slots=True)
class AckRun:
    """Consecutive ``basic.ack`` without ``multiple`` on one channel."""

    channel: ChannelId
    tags: list[int]


@dataclass(slots=True)
class Ack:
    """One ``basic.ack`` with ``multiple``: this tag and all before it; tag 0 means all."""

    channel: ChannelId
    tag: DeliveryTag


@dataclass(slots=True)
class RejectRun:
    """Consecutive ``basic.reject``, or consecutive ``basic.nack`` without ``multiple``, on one
    channel: all ``requeue``, or none does. ``method`` says which of the two they are."""

    channel: ChannelId
    tags: list[int]
    requeue: bool
    method: tuple[int, int]


@dataclass(slots=True)
class Content:
    """The content of a method other than ``basic.publish``: properties and whole body."""

    properties: bytes
    body: bytes


@dataclass(slots=True)
class Method:
    """Any other method; ``content`` is set if it carries one and is not on channel 0."""

    channel: ChannelId
    method: Command
    content: Content | None = None


class Heartbeat(Enum):
    """The peer is alive; a single value, because a heartbeat carries nothing else."""

    HEARTBEAT = "heartbeat"


HEARTBEAT: Final = Heartbeat.HEARTBEAT


@dataclass(frozen=True, slots=True)
class Broken:
    """The peer broke a rule on ``channel``; everything before it counts.

    A :class:`~arneb_amqp.errors.ChannelException` closes that channel and reading continues. After
    a :class:`~arneb_amqp.errors.ConnectionException` the reader yields only methods on channel 0,
    as needed to finish closing. With ``framing_lost`` not even that: frame boundaries are unknown,
    so send the close and end the connection.
    """

    channel: ChannelId
    error: AmqpError
    framing_lost: bool = False


Item = PublishRun | VariedRun | Publish | AckRun | Ack | RejectRun | Method | Heartbeat | Broken
