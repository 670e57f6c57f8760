"""Outgoing messages, before they are packed.

The rule: a message is checked when it is made, so that packing never refuses one in the middle of a
batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import MessageId

MESSAGE_OVERHEAD_BYTES: Final = 64
"""The bytes that a message without a payload counts in the client's memory."""

SendCallback = Callable[[MessageId | None, Exception | None], None]
"""Called once a message is stored or has failed: exactly one of the two arguments is given."""


class Fate(Enum):
    """The state of an outgoing message.

    ``HELD -> SENT -> STORED | FAILED``, and ``HELD -> WITHDRAWN | FAILED``.
    """

    HELD = auto()
    """In a batch that is not closed yet."""
    SENT = auto()
    """It is, or will be, on the wire, and cannot be taken back."""
    STORED = auto()
    FAILED = auto()
    WITHDRAWN = auto()
    """Withdrawn before it was sent; it never will be."""


@dataclass(frozen=True, slots=True)
class TransactionId:
    """A transaction's id, which includes its coordinator's."""

    most_bits: int
    least_bits: int

    def __str__(self) -> str:
        return f"({self.most_bits},{self.least_bits})"


@dataclass(slots=True, eq=False)
class OutgoingMessage:
    """One message that an application sends, with its number."""

    payload: bytes
    sequence_id: int = -1
    """-1 until its producer numbers it."""
    key: str | bytes | None = None
    """The partition key; bytes travel as base64."""
    ordering_key: bytes | None = None
    properties: Mapping[str, str] | None = None
    event_time_ms: int = 0
    deliver_at_ms: int = 0
    null_value: bool = False
    callback: SendCallback | None = None
    sent_at: float = 0.0
    """When the application passed it to the producer; for timeouts and latencies."""
    transaction: TransactionId | None = None
    fate: Fate = Fate.HELD

    def __repr__(self) -> str:
        key = "" if self.key is None else f", key {self.key!r:.80}"
        return f"<OutgoingMessage {self.sequence_id}, {len(self.payload)} bytes{key}>"

    @property
    def order(self) -> bytes | None:
        """The key that orders it: the ordering key, else the partition key; None if it has
        neither."""
        if self.ordering_key:
            return self.ordering_key
        return self.key.encode() if isinstance(self.key, str) else self.key

    @property
    def size_bytes(self) -> int:
        """Its approximate size in a batch before compression: payload, key and properties."""
        if self.properties is None and self.key is None and self.ordering_key is None:
            return len(self.payload)
        names = sum(len(name) + len(value) for name, value in (self.properties or {}).items())
        return len(self.payload) + len(self.order or b"") + names


def checked_properties(properties: Any) -> Mapping[str, str]:
    """Return a copy of properties, all of which must be text. Raises
    :class:`ConfigurationError`."""
    if not isinstance(properties, Mapping):
        raise ConfigurationError(f"expected a mapping, got {type(properties).__name__}")
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"expected properties of str, got {type(value).__name__} for {name!r}"
            )
    return dict(properties)


def check_name(name: Any) -> None:
    """Raise :class:`ConfigurationError` unless a name is text."""
    if not isinstance(name, str):
        raise ConfigurationError(f"expected a name of str, got {type(name).__name__}")
