"""The properties of an AMQP message as strings, and back.

The rule: what has a field on both sides goes from field to field; what only AMQP has becomes a
string with a reserved name, from which the other direction restores it exactly. A string with a
reserved name and an invalid value is an ordinary header. The table is in
``docs/internals/translation.md``.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.header_text import PLAIN, field_of, text_of
from arneb_amqp.plain_strings import CACHED, PlainStrings
from arneb_amqp.wire.properties import DELIVERY_MODE_PERSISTENT, Properties, without_headers
from arneb_amqp.wire.route import Route, join_route
from arneb_amqp.wire.tables import (
    Field,
    array,
    boolean,
    check_table,
    decode_table,
    encode_table,
    long,
    longstr,
)
from arneb_core.api.entries.codec import Message

RESERVED: Final = "amqp."
"""The prefix of property names for what only AMQP has."""
BASE64: Final = ".base64"
"""The suffix of names whose text is not UTF-8."""

EXCHANGE: Final = "amqp.exchange"
HEADER_TYPES: Final = "amqp.header_types"
"""JSON: the types of all headers that are not strings, by name."""
OTHER_HEADERS: Final = "amqp.headers"
"""Base64 of a field table: the headers whose names cannot be property names."""

ORDERING_KEY: Final = "pulsar.ordering_key"
NULL_VALUE: Final = "pulsar.null_value"
"""The header, a true boolean, of a message whose empty body stands for a null value."""
LONG_KEY: Final = "pulsar.key"
LONG_NAMES: Final = "pulsar.properties"
TIMESTAMP_IN_MS: Final = "timestamp_in_ms"
"""The header in which RabbitMQ's timestamp plugin keeps the milliseconds that the property cannot
hold."""

_TEXTS: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "expiration",
    "message_id", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
_NAME_BYTES_MAX: Final = 255

HEADER_FIELDS_MAX: Final = 8_000
"""With more fields, counting those in tables and arrays, headers travel together and undecoded, as
:data:`OTHER_HEADERS`: a content header has room for 100,000, whose texts take 0.2 s."""

_EVENT_TIME_MS_MAX: Final = (1 << 63) - 1

NO_NAMES: Final = join_route("", "")
"""The route without exchange and routing key."""

_PLAIN_STRINGS: Final = PlainStrings(RESERVED, HEADER_TYPES, HEADER_FIELDS_MAX)


def event_time_ms(timestamp: int | None) -> int:
    time_ms = (timestamp or 0) * 1000
    return time_ms if time_ms <= _EVENT_TIME_MS_MAX else 0


def plain_strings(route: bytes, data: bytes) -> tuple[dict[str, str], int] | None:
    """Return the result of :func:`to_strings` for the property list ``data``, and its time in
    milliseconds, if the list is ordinary; else None."""
    exchange = None
    if route[0] or len(route) == len(NO_NAMES):
        exchange = _exchange_string(route[1 : 1 + route[0]])
        if exchange is None:
            return None
    found = _PLAIN_STRINGS.of(data, exchange)
    return None if found is None else (found[0], found[1] * 1000)


def to_strings(route: Route, properties: Properties) -> dict[str, str]:
    """Return the properties of the neutral message."""
    strings = _headers_to_strings(properties.headers)
    if route.exchange or not route.routing_key:
        _put_text(strings, EXCHANGE, route.exchange)
    for name in _TEXTS:
        text = getattr(properties, name)
        if text is not None:
            _put_text(strings, RESERVED + name, text)
    if properties.delivery_mode != DELIVERY_MODE_PERSISTENT:
        mode = properties.delivery_mode
        strings[RESERVED + "delivery_mode"] = "" if mode is None else str(mode)
    if properties.priority is not None:
        strings[RESERVED + "priority"] = str(properties.priority)
    if properties.timestamp is not None and not event_time_ms(properties.timestamp):
        strings[RESERVED + "timestamp"] = str(properties.timestamp)
    return strings


def take_null(properties: Properties) -> tuple[Properties, bool]:
    """Return the properties without the mark of a null value, and whether it was there."""
    headers = properties.headers
    if headers is None or headers.get(NULL_VALUE) != boolean(True):
        return properties, False
    others = {name: field for name, field in headers.items() if name != NULL_VALUE}
    return replace(properties, headers=others or None), True


def _headers_to_strings(headers: Mapping[str, Field] | None) -> dict[str, str]:
    strings: dict[str, str] = {}
    types: dict[str, str] = {}
    others: dict[str, Field] = {}
    for name, field in (headers or {}).items():
        if name.startswith(RESERVED) or not _is_text(name):
            others[name] = field
            continue
        strings[name], type_name = text_of(field)
        if type_name != PLAIN:
            types[name] = type_name
    if types:
        strings[HEADER_TYPES] = json.dumps(types, separators=(",", ":"))
    if others or headers == {}:
        strings[OTHER_HEADERS] = b64encode(encode_table(others)).decode()
    return strings


def split_headers(raw: bytes) -> tuple[bytes, str]:
    """Return a property list without its headers, and those as :data:`OTHER_HEADERS` has them, if
    they have too many fields to become properties; else ``raw`` and an empty string."""
    if len(raw) <= HEADER_FIELDS_MAX:  # A field has at least one octet.
        return raw, ""
    rest, table = without_headers(raw)
    spans: list[int] = []
    check_table(table, 0, len(table), spans)
    if len(spans) <= 2 * HEADER_FIELDS_MAX:
        return raw, ""
    return rest, b64encode(table).decode()


def from_strings(strings: dict[str, str], message: Message) -> Properties:
    """Return the properties from strings; a string with a reserved name and an invalid value stays
    a header."""
    texts = {name: take_text(strings, RESERVED + name) for name in _TEXTS}
    mode: int | None = None
    if strings.get(RESERVED + "delivery_mode") == "":
        del strings[RESERVED + "delivery_mode"]
    else:
        mode = _take_number(strings, "delivery_mode", 0xFF, DELIVERY_MODE_PERSISTENT)
    timestamp = message.event_time_ms // 1000 if message.event_time_ms else None
    return Properties(
        **texts,
        delivery_mode=mode,
        priority=_take_number(strings, "priority", 0xFF),
        timestamp=_take_number(strings, "timestamp", (1 << 64) - 1, timestamp),
        headers=_headers_from_strings(strings, message),
    )


def _headers_from_strings(strings: dict[str, str], message: Message) -> Mapping[str, Field] | None:
    types, others = _take_types(strings), _take_others(strings)
    headers: dict[str, Field] = {}
    long_names: list[Field] = []
    for name, text in strings.items():
        if len(name.encode("utf-8", "surrogateescape")) > _NAME_BYTES_MAX:
            long_names += (longstr(name), longstr(text))
        else:
            headers[name] = _header(text, types.get(name, PLAIN))
    headers.update(others or {})
    for name, field in _extras(message, long_names).items():
        headers.setdefault(name, field)
    return headers if headers or others is not None else None


def _extras(message: Message, long_names: list[Field]) -> dict[str, Field]:
    """Return headers for what has no AMQP field."""
    extras: dict[str, Field] = {}
    if long_names:
        extras[LONG_NAMES] = array(long_names)
    if message.key is not None and len(message.key) > _NAME_BYTES_MAX:
        extras[LONG_KEY] = longstr(message.key)
    if message.ordering_key is not None:
        extras[ORDERING_KEY] = longstr(message.ordering_key)
    if message.is_null:
        extras[NULL_VALUE] = boolean(True)
    if message.event_time_ms % 1000:
        extras[TIMESTAMP_IN_MS] = long(message.event_time_ms)
    return extras


def _header(text: str, type_name: str) -> Field:
    try:
        return field_of(text, type_name)
    except ValueError:  # The text was changed and its type was not; the text counts.
        return longstr(text)


@lru_cache(CACHED)
def _exchange_string(raw: bytes) -> tuple[str, str] | None:
    """Return the string that names the exchange ``raw``; None if it is not UTF-8."""
    try:
        return EXCHANGE, raw.decode()
    except UnicodeDecodeError:
        return None


def _put_text(strings: dict[str, str], name: str, text: str) -> None:
    if _is_text(text):
        strings[name] = text
    else:
        strings[name + BASE64] = b64encode(text.encode("utf-8", "surrogateescape")).decode()


def take_text(strings: dict[str, str], name: str) -> str | None:
    """Remove a text that fits a short string from ``strings`` and return it; None if there is
    none."""
    raw = strings.get(name, "").encode("utf-8", "surrogateescape")
    taken = name
    if name not in strings:
        taken = name + BASE64
        raw = _decoded(strings.get(taken)) or b""
    if taken not in strings or len(raw) > _NAME_BYTES_MAX:
        return None
    del strings[taken]
    return raw.decode("utf-8", "surrogateescape")


def _take_number(
    strings: dict[str, str], name: str, most: int, default: int | None = None
) -> int | None:
    text = strings.get(RESERVED + name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 21 and int(text) <= most):
        return default
    del strings[RESERVED + name]
    return int(text)


def _take_types(strings: dict[str, str]) -> Mapping[str, str]:
    try:
        types = json.loads(strings.get(HEADER_TYPES, ""))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(types, dict):
        return {}
    del strings[HEADER_TYPES]
    return {name: kind for name, kind in types.items() if isinstance(kind, str)}


def _take_others(strings: dict[str, str]) -> Mapping[str, Field] | None:
    raw = _decoded(strings.get(OTHER_HEADERS))
    if raw is None:
        return None
    try:
        others = decode_table(raw)
    except AmqpError:
        return None
    del strings[OTHER_HEADERS]
    return others


def _decoded(text: str | None) -> bytes | None:
    """Decode base64; None if ``text`` is none or invalid."""
    if text is None:
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _is_text(text: str) -> bool:
    """Whether the text has no lone surrogates, which stand for octets that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
