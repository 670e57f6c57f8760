"""Building: turns a value and keywords into a message that can be packed.

The rule: invalid values and keywords are refused here, before the message has a sequence id or a
place in a batch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypedDict, TypeVar

from arneb_pulsar.client.codec.schemas.schema import Schema
from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.interceptors import ProducerInterceptor, guarded
from arneb_pulsar.client.messages import (
    OutgoingMessage,
    SendCallback,
    TransactionId,
    checked_properties,
)

T = TypeVar("T")

SEQUENCE_MAX: Final = (1 << 63) - 1
NOT_AT_ONCE: Final = ("deliver_at_ms", "deliver_after_s")


class InTransaction(Protocol):
    """An open transaction; see ``transactions``."""

    @property
    def id(self) -> TransactionId: ...


class Keywords(TypedDict, total=False):
    """What may be given with a message's value."""

    key: str | bytes | None
    """The partition key, for routing, Key_Shared subscriptions and compaction."""
    ordering_key: bytes | None
    """The key that Key_Shared subscriptions use in place of ``key``."""
    properties: Mapping[str, str] | None
    event_time_ms: int
    """When the event happened, in milliseconds since the epoch."""
    deliver_at_ms: int
    """Deliver not before this time, in milliseconds since the epoch; only for Shared and Key_Shared
    subscriptions."""
    deliver_after_s: float
    """The same as a delay from now, in seconds."""
    sequence_id: int | None
    """The sequence id; None = the next one."""
    callback: SendCallback | None
    """Called with the message's id, or with the error."""
    transaction: InTransaction | None


KEYWORDS: Final = Keywords.__annotations__.keys()


class Builder(Generic[T]):
    """Builds the messages of one producer."""

    def __init__(self, schema: Schema[T], interceptors: Sequence[ProducerInterceptor] = ()) -> None:
        self.schema = schema.info.to_wire()
        """The schema for the broker; None for plain bytes."""
        self._encode = schema.encode
        self._interceptors = interceptors

    def __repr__(self) -> str:
        return f"<Builder of {self.schema.name if self.schema else 'bytes'}>"

    def build(
        self, topic: str, value: T | None, wall_ms: int, keywords: Keywords
    ) -> OutgoingMessage:
        """Return the message. Raises :class:`ConfigurationError` and :class:`SchemaError`."""
        if value is None:
            message = OutgoingMessage(b"", null_value=True)
        else:
            message = OutgoingMessage(self._encode(value))
        if keywords:
            _apply(message, wall_ms, keywords)
        if self._interceptors:
            self._intercept(topic, message)
        return message

    def refused(self, topic: str, message: OutgoingMessage, error: Exception) -> None:
        """Tell the interceptors that a message was not accepted."""
        for each in reversed(self._interceptors):
            guarded(each.after_send, topic, message, None, error)

    def _intercept(self, topic: str, message: OutgoingMessage) -> None:
        for each in self._interceptors:
            guarded(each.before_send, topic, message)
        inner = message.callback

        def callback(found: MessageId | None, error: Exception | None) -> None:
            for each in reversed(self._interceptors):
                guarded(each.after_send, topic, message, found, error)
            if inner is not None:
                inner(found, error)

        message.callback = callback


def _apply(message: OutgoingMessage, wall_ms: int, keywords: Keywords) -> None:
    if not keywords.keys() <= KEYWORDS:
        unknown = ", ".join(sorted(keywords.keys() - KEYWORDS))
        raise ConfigurationError(f"expected {', '.join(sorted(KEYWORDS))}, got {unknown}")
    message.key = _key(keywords.get("key"))
    message.ordering_key = _ordering_key(keywords.get("ordering_key"))
    properties = keywords.get("properties")
    message.properties = checked_properties(properties) if properties else None
    message.event_time_ms = _positive("event_time_ms", keywords.get("event_time_ms", 0))
    if all(name in keywords for name in NOT_AT_ONCE):
        raise ConfigurationError("expected deliver_at_ms or deliver_after_s, got both")
    after_ms = _milliseconds("deliver_after_s", keywords.get("deliver_after_s", 0))
    at_ms = wall_ms + after_ms if after_ms > 0 else keywords.get("deliver_at_ms", 0)
    message.deliver_at_ms = _positive("deliver_at_ms", at_ms)
    number = keywords.get("sequence_id")
    if number is not None:
        message.sequence_id = _positive("sequence_id", number)
    message.callback = keywords.get("callback")
    transaction = keywords.get("transaction")
    if transaction is not None:
        message.transaction = transaction.id


def _key(key: Any) -> str | bytes | None:
    if key is None or isinstance(key, str | bytes):
        return key
    raise ConfigurationError(f"expected a key of str or bytes, got {type(key).__name__}")


def _ordering_key(key: Any) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key or None
    raise ConfigurationError(f"expected an ordering key of bytes, got {type(key).__name__}")


def _milliseconds(name: str, seconds: Any) -> int:
    if isinstance(seconds, int | float) and math.isfinite(seconds):
        return int(seconds * 1000)
    raise ConfigurationError(f"expected {name} in seconds, got {seconds!r}")


def _positive(name: str, value: Any) -> int:
    if isinstance(value, int) and 0 <= value <= SEQUENCE_MAX:
        return value
    raise ConfigurationError(f"expected {name} from 0 to {SEQUENCE_MAX}, got {value!r}")
