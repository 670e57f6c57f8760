"""The numbers of AMQP 0-9-1 framing, and the limits that Arneb imposes on a peer."""

from struct import Struct
from typing import Final, NewType

ChannelId = NewType("ChannelId", int)
"""0 is the connection itself; 1 to 65535 are channels."""

DeliveryTag = NewType("DeliveryTag", int)
"""Counts the deliveries of a channel from 1; 0 means all of them where ``multiple`` is set."""

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
PROTOCOL_HEADER_0_9: Final = b"AMQP\x01\x01\x00\x09"
"""Sent by 0-9 clients; RabbitMQ treats it as 0-9-1."""

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8

FRAME_END: Final = 0xCE
FRAME_END_OCTET: Final = b"\xce"

FRAME_START: Final = Struct(">BHI")
"""Type, channel, payload size."""
FRAME_START_BYTES: Final = FRAME_START.size
FRAME_OVERHEAD_BYTES: Final = FRAME_START_BYTES + 1
"""The bytes that a frame adds to its payload."""

CONTENT_START: Final = Struct(">HHQ")
"""Class, weight, body size: the fixed part of a content header's payload."""
CONTENT_START_BYTES: Final = CONTENT_START.size

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

CLASS_BASIC: Final = 60

DIRECT_REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""RabbitMQ's queue that is none: a client consumes from it, and names it in requests, to get the
answers directly."""

BASIC_PUBLISH: Final = (CLASS_BASIC, 40)
BASIC_ACK: Final = (CLASS_BASIC, 80)
BASIC_REJECT: Final = (CLASS_BASIC, 90)
BASIC_NACK: Final = (CLASS_BASIC, 120)

SHORT_MAX: Final = (1 << 16) - 1
"""The largest number in a field of the type ``short``."""
LONG_MAX: Final = (1 << 32) - 1
"""The largest in one of the type ``long``."""

FRAME_BYTES_MIN: Final = 4096
"""4.2.3: every peer must take frames of this size; also the limit until tuning is done."""
FRAME_BYTES_MAX_DEFAULT: Final = 131_072
"""RabbitMQ's offer."""
FRAME_BYTES_UNLIMITED: Final = 1 << 32
"""The meaning of frame-max 0: as large as a size field can say."""
CHANNEL_MAX_DEFAULT: Final = 2047
HEARTBEAT_S_DEFAULT: Final = 60

MESSAGE_BYTES_MAX_DEFAULT: Final = 128 * 1024 * 1024
"""RabbitMQ 3's limit, on which clients and their tests rely; RabbitMQ 4 has 16 MiB."""

PARTIAL_BYTES_MAX_DEFAULT: Final = 2 * MESSAGE_BYTES_MAX_DEFAULT
"""Incomplete bodies on all channels of one connection together. RabbitMQ has no such bound, so one
peer could make it hold 2047 messages of 128 MiB; two of the largest messages are plenty."""

TABLE_DEPTH_MAX: Final = 64
"""Nesting of tables and arrays. RabbitMQ recurses as deep as a frame allows."""

COPY_DEPTH: Final = 2
"""Additional nesting in a traced copy: the message's headers lie within this many more tables."""

CHANNEL_ZERO: Final = ChannelId(0)
