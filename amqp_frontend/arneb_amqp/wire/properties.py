"""The property list of a content header: what stands in it, and what must be looked at.

The rule: nothing here is called for a message whose property list equals the last one's; the
reader compares bytes. :class:`PropertyScanner` judges a list that is new, and only code that
needs single properties decodes them.

A *property list* is a content header's payload from the flags on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from arneb_amqp.wire.tables import Field


class PropertyFlag(IntFlag):
    """The flag of each property, in the order in which they stand in the list."""

    CONTENT_TYPE = 0x8000
    CONTENT_ENCODING = 0x4000
    HEADERS = 0x2000
    DELIVERY_MODE = 0x1000
    PRIORITY = 0x0800
    CORRELATION_ID = 0x0400
    REPLY_TO = 0x0200
    EXPIRATION = 0x0100
    MESSAGE_ID = 0x0080
    TIMESTAMP = 0x0040
    TYPE = 0x0020
    USER_ID = 0x0010
    APP_ID = 0x0008
    CLUSTER_ID = 0x0004


INTERESTING_ALWAYS: Final = PropertyFlag.EXPIRATION | PropertyFlag.USER_ID
"""Every message with one of these is checked when it is published."""

INTERESTING: Final = INTERESTING_ALWAYS | PropertyFlag.PRIORITY | PropertyFlag.REPLY_TO
"""The default mask of the reader: publishes with one of these flags come singly, as do those
with a header named CC or BCC, whatever the mask."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a message; None = not there. Times are seconds since the epoch."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, Field] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


def decode_properties(data: bytes) -> Properties:
    """The properties in the list ``data``.

    Raises :class:`~arneb_amqp.errors.ConnectionException` (502) when it is malformed.
    """
    raise NotImplementedError


def encode_properties(properties: Properties) -> bytes:
    """The property list. Raises :class:`ValueError` when a value does not fit."""
    raise NotImplementedError


def properties_of(body: bytes) -> bytes:
    """The property list inside an entry's AMQP body or a :class:`PublishRun` body (0xCE +
    content header frame + body frame)."""
    raise NotImplementedError


def payload_of(body: bytes) -> bytes:
    """The message body inside such a body."""
    raise NotImplementedError


def with_properties(body: bytes, properties: bytes) -> bytes:
    """``body`` with another property list (BCC taken out, reply-to rewritten)."""
    raise NotImplementedError


def compose(channel: int, properties: bytes, payload: bytes) -> bytes:
    """``0xCE`` + content header frame + one body frame, from its parts."""
    raise NotImplementedError
