"""Formats: converts messages to lines of text and back, in the style of kcat.

The rule: JSON lines that one program prints can be sent by another, and give the same messages.
Pure.

``%s`` payload, ``%S`` its bytes, ``%k`` key, ``%K`` its bytes, ``%t`` topic, ``%p`` partition,
``%o`` id, as :func:`parse_start` reads it, ``%T`` publish time in ms, ``%e`` event time in ms,
``%h`` properties as ``a=b,c=d``, ``%n`` redeliveries, ``%%`` a per cent sign; and ``\\n``,
``\\t``, ``\\r``, ``\\0``, ``\\\\``, ``\\xHH``.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EARLIEST, LATEST, MessageId

DEFAULT: Final = r"%s\n"

ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

FIELDS: Final[Mapping[str, Callable[[Message[Any]], bytes]]] = {
    "s": lambda message: message.data,
    "S": lambda message: b"%d" % len(message.data),
    "k": lambda message: message.key_bytes or b"",
    "K": lambda message: b"%d" % (-1 if message.key_bytes is None else len(message.key_bytes)),
    "t": lambda message: message.topic.encode(),
    "p": lambda message: b"%d" % message.id.partition,
    "o": lambda message: id_text(message.id).encode(),
    "T": lambda message: b"%d" % message.publish_time_ms,
    "e": lambda message: b"%d" % message.event_time_ms,
    "h": lambda message: ",".join(f"{k}={v}" for k, v in message.properties.items()).encode(),
    "n": lambda message: b"%d" % message.redelivery_count,
    "%": lambda _message: b"%",
}

PIECE: Final = re.compile(r"%(?P<field>.)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)", re.DOTALL)
AGO: Final = re.compile(r"(\d+)([smhd])")
SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Format:
    """A compiled format. Raises :class:`ConfigurationError` for an invalid text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: list[bytes | Callable[[Message[Any]], bytes]] = []
        at = 0
        for found in PIECE.finditer(text):
            self._parts.append(text[at : found.start()].encode())
            self._parts.append(_part(found))
            at = found.end()
        self._parts.append(text[at:].encode())

    def __repr__(self) -> str:
        return f"<Format {self._text!r}>"

    def of(self, message: Message[Any]) -> bytes:
        """Return the formatted message."""
        return b"".join(part if isinstance(part, bytes) else part(message) for part in self._parts)


def _part(found: "re.Match[str]") -> bytes | Callable[[Message[Any]], bytes]:
    if (field := found["field"]) is not None:
        if field not in FIELDS:
            known = " ".join(f"%{each}" for each in FIELDS)
            raise ConfigurationError(f"expected one of {known} in a format, got %{field}")
        return FIELDS[field]
    if found["hex"] is not None:
        return bytes.fromhex(found["hex"])
    if found["escape"] not in ESCAPES:
        raise ConfigurationError(f"expected an escape in a format, got \\{found['escape']}")
    return ESCAPES[found["escape"]]


def json_of(message: Message[Any]) -> bytes:
    """Return a message as one line of JSON. Bytes that are not UTF-8 are in base64, in fields whose
    names end in ``_base64``."""
    fields: dict[str, Any] = {
        "topic": message.topic,
        "id": id_text(message.id),
        "publish_time_ms": message.publish_time_ms,
        "producer": message.producer_name,
        "sequence_id": message.sequence_id,
    }
    if message.id.partition >= 0:
        fields["partition"] = message.id.partition
    if message.event_time_ms:
        fields["event_time_ms"] = message.event_time_ms
    if message.redelivery_count:
        fields["redelivery_count"] = message.redelivery_count
    if message.properties:
        fields["properties"] = message.properties
    if message.key_bytes is not None:
        fields.update(_text_or_base64("key", message.key_bytes))
    if message.ordering_key is not None:
        fields.update(_text_or_base64("ordering_key", message.ordering_key))
    if message.is_null:
        fields["value"] = None
    else:
        fields.update(_text_or_base64("value", message.data))
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _text_or_base64(name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


@dataclass(frozen=True, slots=True)
class Line:
    """A message to send, made from a line."""

    value: bytes | None
    key: str | bytes | None = None
    ordering_key: bytes | None = None
    properties: Mapping[str, str] | None = None
    event_time_ms: int = 0


def line_of(data: bytes, key_delimiter: str = "") -> Line:
    """Parse a line of text: a value, or a key and a value with the delimiter between them."""
    if not key_delimiter:
        return Line(data)
    key, delimiter, value = data.partition(key_delimiter.encode())
    if not delimiter:
        return Line(data)
    return Line(value, _text(key))


def line_of_json(data: bytes) -> Line:
    """Parse a line of JSON as :func:`json_of` makes it, ignoring fields that producers and brokers
    set. Raises :class:`ConfigurationError`."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, dict):
            raise ConfigurationError(f"expected a JSON object a line, got {data[:80]!r}")
        key = _bytes_of(fields, "key")
        properties = fields.get("properties")
        if properties is not None and not isinstance(properties, dict):
            raise ConfigurationError(f"expected properties as a JSON object, got {properties!r}")
        return Line(
            _bytes_of(fields, "value"),
            None if key is None else _text(key),
            _bytes_of(fields, "ordering_key"),
            properties,
            int(fields.get("event_time_ms", 0)),
        )
    except (ValueError, TypeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"expected a line of JSON, got {data[:80]!r}: {error}") from error


def _bytes_of(fields: Mapping[str, Any], name: str) -> bytes | None:
    if (text := fields.get(f"{name}_base64")) is not None:
        return b64decode(text, validate=True)
    value = fields.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _text(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def id_text(message: MessageId) -> str:
    """Return an id within its topic: ``ledger:entry``, or ``ledger:entry:index`` in a batch."""
    text = f"{message.ledger_id}:{message.entry_id}"
    return text if message.batch_index < 0 else f"{text}:{message.batch_index}"


def parse_start(text: str, wall_ms: int) -> MessageId | int:
    """Parse a place to begin: ``beginning``, ``end``, an id as ``%o`` prints it, ``@`` and a time
    (ISO 8601, or milliseconds since the epoch), or how long ago: ``90s``, ``15m``, ``2h``, ``1d``.
    Return an id, or a time in ms since the epoch. Raises :class:`ConfigurationError`."""
    if text in ("beginning", "earliest"):
        return EARLIEST
    if text in ("end", "latest"):
        return LATEST
    if ago := AGO.fullmatch(text):
        return wall_ms - int(ago[1]) * SECONDS[ago[2]] * 1_000
    try:
        if text.startswith("@"):
            if text[1:].isdigit():
                return int(text[1:])
            when = datetime.fromisoformat(text[1:])
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            return int(when.timestamp() * 1_000)
        ledger, entry, *index = map(int, text.split(":"))
        if len(index) > 1 or min(ledger, entry, *index) < 0:
            raise ValueError
        return MessageId(ledger, entry, batch_index=index[0] if index else -1)
    except ValueError:
        raise ConfigurationError(
            f"expected beginning, end, @time, 15m or ledger:entry[:index], got {text!r}"
        ) from None
