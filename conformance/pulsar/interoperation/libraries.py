"""What scenarios ask of any of the three client libraries, and how received messages are described.

The rule: scenarios use only these terms. ``ours``, ``wheel`` and ``java`` implement them with
nothing but the public API of each library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

WITHIN_S: Final = 30.0
"""How long to wait for one message, in seconds. Apache Pulsar needs seconds for the first of each
kind."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Key pairs as PEM files: the public and the private key of each name."""

    public: Mapping[str, str]
    private: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be sent. ``value`` is bytes, text, a dict with the fields of a record, or
    None."""

    value: Any
    key: str | bytes | None = None
    ordering_key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time_ms: int = 0
    sequence_id: int | None = None
    deliver_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as the application received it."""

    value: Any
    is_null: bool
    key: str | bytes | None
    ordering_key: str | None
    properties: Mapping[str, str]
    event_time_ms: int
    redelivery_count: int
    id: bytes
    """The id as serialized by every library."""

    def outgoing(self) -> Outgoing:
        """The message as it was sent, without what was added on the way."""
        return Outgoing(
            self.value, self.key, self.ordering_key, dict(self.properties), self.event_time_ms
        )


@dataclass(frozen=True, slots=True)
class Sending:
    """How to send."""

    compression: str = "NONE"
    packing: str = "single"
    """``single``, ``batch`` (everything that is sent together), ``key batch`` (one batch per key),
    or ``chunks``."""
    schema: str = "bytes"
    """``bytes``, ``string`` or ``protobuf``, or ``json`` or ``avro`` with a version of the record:
    ``json older``, ``avro newer``."""
    keys: Keys | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Receiving:
    """How to receive."""

    subscription: str = "s"
    type: str = "Shared"
    schema: str = "bytes"
    keys: Keys | None = None
    on_crypto_failure: str = "FAIL"
    name: str = ""
    queue_size: int = 1_000
    negative_ack_delay_s: float = 0.1
    ack_timeout_s: float = 0.0
    batch_index_acks: bool = False


class Sender(Protocol):
    """A producer of one of the libraries."""

    def send(self, messages: Sequence[Outgoing]) -> list[bytes]:
        """Send the messages together and wait until all are stored; the result is their ids."""

    def close(self) -> None: ...


class Receiver(Protocol):
    """A consumer of one of the libraries."""

    def receive(self, within_s: float = WITHIN_S) -> Incoming | None:
        """The next message; None if none came in time."""

    def acknowledge(self, which: Incoming, *, cumulative: bool = False) -> None: ...

    def negative_acknowledge(self, which: Incoming) -> None: ...

    def seek(self, where: bytes) -> None:
        """Seek to an id serialized by any library."""

    def close(self) -> None: ...


class Library(Protocol):
    """A client of one of the libraries, connected to one broker."""

    name: str

    def sender(self, topic: str, how: Sending) -> Sender: ...

    def receiver(self, topic: str, how: Receiving) -> Receiver: ...


class Refused(Exception):
    """A library raised an error; the message is the library's own."""


def take(receiver: Receiver, count: int) -> list[Incoming]:
    """Receive and acknowledge the next messages."""
    found = []
    for number in range(count):
        message = receiver.receive()
        assert message is not None, f"{number} of {count} came"
        receiver.acknowledge(message)
        found.append(message)
    return found
