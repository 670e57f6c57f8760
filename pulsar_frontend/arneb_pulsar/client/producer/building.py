"""Building: what an application sends, as a message that can be packed.

The rule: whatever is wrong with a value or a keyword is said here, before the message has a number
or a place in a batch.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypedDict, TypeVar

from arneb_pulsar.client.errors import ConfigurationError, SchemaError
from arneb_pulsar.client.messages import OutgoingMessage, SendCallback, TransactionId
from arneb_pulsar.wire.proto.pulsar_pb2 import KeyValue, Schema

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

SEQUENCE_MAX: Final = (1 << 63) - 1
NOT_AT_ONCE: Final = ("deliver_at_ms", "deliver_after_s")


class SchemaDescription(Protocol):
    """What a broker is told of a schema; see ``codec.schemas``."""

    @property
    def type(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def properties(self) -> Mapping[str, str]: ...


class Encoder(Protocol[T_contra]):
    """Makes bytes of values; see ``codec.schemas``."""

    @property
    def info(self) -> SchemaDescription: ...

    def encode(self, value: T_contra) -> bytes:
        """Raises :class:`SchemaError`."""


class InTransaction(Protocol):
    """An open transaction; see ``transactions``."""

    @property
    def id(self) -> TransactionId: ...


class Keywords(TypedDict, total=False):
    """What may be said of a message beside its value."""

    key: str | bytes | None
    """The partition key: chooses the partition, orders Key_Shared, and is compacted by."""
    ordering_key: bytes | None
    """Orders Key_Shared in place of the key."""
    properties: Mapping[str, str] | None
    event_time_ms: int
    """When it happened, milliseconds since the epoch."""
    deliver_at_ms: int
    """Not before that time; for Shared and Key_Shared subscriptions."""
    deliver_after_s: float
    """Not before so many seconds from now."""
    sequence_id: int | None
    """Its number, if not the next."""
    callback: SendCallback | None
    """Told what became of it."""
    transaction: InTransaction | None


class Builder(Generic[T]):
    """Builds the messages of one producer."""

    def __init__(self, encoder: Encoder[T] | None) -> None:
        """``encoder`` None = values are bytes."""
        self._encoder = encoder
        self.schema = schema_of(encoder.info) if encoder is not None else None
        """What the broker is told of it."""

    def __repr__(self) -> str:
        return f"<Builder with {self._encoder!r}>"

    def build(self, value: T | None, wall_ms: int, keywords: Keywords) -> OutgoingMessage:
        """The message. Raises :class:`ConfigurationError` and :class:`SchemaError`."""
        payload = b"" if value is None else self._payload(value)
        message = OutgoingMessage(payload, null_value=value is None)
        if keywords:
            _apply(message, wall_ms, keywords)
        return message

    def _payload(self, value: Any) -> bytes:
        if self._encoder is not None:
            return self._encoder.encode(value)
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise SchemaError(
            f"expected bytes of a producer without a schema, got {type(value).__name__}"
        )


def schema_of(info: SchemaDescription) -> Schema | None:
    """The field of a command; None for plain bytes, which need no schema."""
    if info.type == Schema.Type.Value("None"):
        return None
    properties = [KeyValue(key=name, value=value) for name, value in info.properties.items()]
    return Schema(
        name=info.name,
        type=info.type,
        schema_data=info.data,
        properties=properties,
    )


def _apply(message: OutgoingMessage, wall_ms: int, keywords: Keywords) -> None:
    message.key = _key(keywords.get("key"))
    message.ordering_key = keywords.get("ordering_key") or None
    message.properties = _properties(keywords.get("properties"))
    message.event_time_ms = _positive("event_time_ms", keywords.get("event_time_ms", 0))
    if all(name in keywords for name in NOT_AT_ONCE):
        raise ConfigurationError("expected deliver_at_ms or deliver_after_s, got both")
    after_ms = int(keywords.get("deliver_after_s", 0) * 1000)
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


def _properties(properties: Any) -> Mapping[str, str] | None:
    if not properties:
        return None
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"expected properties of str, got {type(value).__name__} for {name!r}"
            )
    return dict(properties)


def _positive(name: str, value: int) -> int:
    if not 0 <= value <= SEQUENCE_MAX:
        raise ConfigurationError(f"expected {name} from 0 to {SEQUENCE_MAX}, got {value}")
    return value
