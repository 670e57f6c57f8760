"""AMQP entries as neutral messages, and neutral messages as AMQP entries.

The codec is registered as ``amqp`` in the entry point group ``arneb.codecs``; see
:mod:`arneb_core.api.entries.codec` for its users. :func:`encode_message` is the other direction: it
makes what AMQP consumers get for an entry of another origin.
"""

from dataclasses import replace
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.translation import (
    EXCHANGE,
    OTHER_HEADERS,
    event_time_ms,
    from_strings,
    plain_strings,
    split_headers,
    take_null,
    take_text,
    to_strings,
)
from arneb_amqp.wire.constants import FRAME_BYTES_MAX_DEFAULT, ChannelId
from arneb_amqp.wire.content import compose, split_content
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import is_route, join_route, routing_key_of, split_route
from arneb_amqp.wire.tables import Field, encode_table, signedint
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin, published_and_hint

DROPPED: Final = "pulsar.properties_dropped"
"""The header that counts properties for which there was no room."""

_PROPERTY_BYTES_MAX: Final = FRAME_BYTES_MAX_DEFAULT // 2
"""Bytes of a property list: a content header is one frame, which a peer with the usual frame size
must be able to take."""
_CHANNEL: Final = ChannelId(1)
"""The most common channel number of consumers, so that delivery need not replace it."""
_KEY_BYTES_MAX: Final = 255


class AmqpCodec:
    """Reads entries of AMQP origin; see :class:`arneb_core.api.entries.codec.Codec`."""

    origin: Origin = Origin.AMQP

    def decode(self, entry: bytes) -> list[Message]:
        """Return the one message of ``entry``. Raises :class:`ValueError` for a damaged entry."""
        published_ms, hint = published_and_hint(entry)
        start = HEADER_BYTES + hint
        route = entry[HEADER_BYTES:start]
        if not is_route(route):
            raise ValueError(f"expected a route of {hint} octets, got {route!r}")
        content = split_content(entry, start)
        if content is None:
            raise ValueError(f"expected AMQP content at octet {start}")
        listed, payload = content
        is_null = False
        plain = plain_strings(route, listed) if payload else None
        if plain is not None:
            return [
                Message(
                    value=payload,
                    key=routing_key_of(route) or None,
                    properties=plain[0],
                    publish_time_ms=published_ms,
                    event_time_ms=plain[1],
                )
            ]
        try:
            raw, headers = split_headers(listed)
            properties = decode_properties(raw)
            if not payload:
                properties, is_null = take_null(properties)
        except AmqpError as problem:
            raise ValueError(f"expected a property list: {problem}") from problem
        strings = to_strings(split_route(route), properties)
        if headers:
            strings[OTHER_HEADERS] = headers
        return [
            Message(
                value=payload,
                key=routing_key_of(route) or None,
                properties=strings,
                publish_time_ms=published_ms,
                event_time_ms=event_time_ms(properties.timestamp),
                is_null=is_null,
            )
        ]


CODEC: Final = AmqpCodec()


def encode_message(message: Message, queue: str) -> bytes:
    """Return ``message`` as an AMQP entry, for delivery to consumers of ``queue``.

    A message without a key gets the queue's name as its routing key, as if published through the
    default exchange. What does not fit is kept where possible: see the table.
    """
    strings = dict(message.properties)
    exchange = take_text(strings, EXCHANGE)
    if message.key is not None:
        key = message.key[:_KEY_BYTES_MAX]
    else:
        key = b"" if exchange is not None else queue.encode("utf-8", "surrogateescape")
    route = join_route(exchange or "", key.decode("utf-8", "surrogateescape"))
    properties = from_strings(strings, message)
    header = EntryHeader(
        Origin.AMQP,
        publish_time_ms=message.publish_time_ms,
        hint=len(route),
        priority=properties.priority or 0,
    )
    return header.pack() + route + compose(_CHANNEL, _encode(properties), message.value)


def _encode(properties: Properties) -> bytes:
    """Return the property list, with as many headers as fit one frame."""
    raw = encode_properties(properties)
    if len(raw) <= _PROPERTY_BYTES_MAX or not properties.headers:
        return raw
    kept: dict[str, Field] = {}
    room = _PROPERTY_BYTES_MAX - len(encode_properties(replace(properties, headers=kept)))
    for name, field in properties.headers.items():
        room -= len(encode_table({name: field}))
        if room < 0:
            break
        kept[name] = field
    kept[DROPPED] = signedint(len(properties.headers) - len(kept))
    return encode_properties(replace(properties, headers=kept))
