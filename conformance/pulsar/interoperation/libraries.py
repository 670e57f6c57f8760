"""What any of the three client libraries is asked to do, and what it says of what it got.

The rule: a scenario says what it wants in these words alone; ``ours``, ``wheel`` and ``java`` each
carry them out with nothing but what their library offers its applications.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

WITHIN_S: Final = 30.0
"""For one message. Apache Pulsar needs seconds for the first of each kind."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Pairs of keys as PEM files: the public and the private half of each name."""

    public: Mapping[str, str]
    private: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be sent. ``value`` is bytes, text, a dict of a record, or None."""

    value: Any
    key: str | bytes | None = None
    ordering_key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time_ms: int = 0
    sequence_id: int | None = None
    deliver_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as its application got it."""

    value: Any
    is_null: bool
    key: str | bytes | None
    ordering_key: str | None
    properties: Mapping[str, str]
    event_time_ms: int
    redelivery_count: int
    id: bytes
    """As every library writes ids down."""

    def outgoing(self) -> Outgoing:
        """What it says, without what its way added."""
        return Outgoing(
            self.value, self.key, self.ordering_key, dict(self.properties), self.event_time_ms
        )


@dataclass(frozen=True, slots=True)
class Sending:
    """How to send."""

    compression: str = "NONE"
    packing: str = "single"
    """single, batch (all that is sent together), key batch (a batch of each key), or chunks."""
    schema: str = "bytes"
    """bytes, string, protobuf; json or avro and which version: ``json older``, ``avro newer``."""
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
        """Send them together, and wait until all are stored; their ids."""

    def close(self) -> None: ...


class Receiver(Protocol):
    """A consumer of one of the libraries."""

    def receive(self, within_s: float = WITHIN_S) -> Incoming | None:
        """The next message; None if none came."""

    def acknowledge(self, which: Incoming, *, cumulative: bool = False) -> None: ...

    def negative_acknowledge(self, which: Incoming) -> None: ...

    def seek(self, where: bytes) -> None:
        """To an id that any library has written down."""

    def close(self) -> None: ...


class Library(Protocol):
    """A client of one of the libraries, connected to one broker."""

    name: str

    def sender(self, topic: str, how: Sending) -> Sender: ...

    def receiver(self, topic: str, how: Receiving) -> Receiver: ...


class Refused(Exception):
    """What a library raised; its text is the library's own."""


def take(receiver: Receiver, count: int) -> list[Incoming]:
    """The next messages, acknowledged."""
    found = []
    for number in range(count):
        message = receiver.receive()
        assert message is not None, f"{number} of {count} came"
        receiver.acknowledge(message)
        found.append(message)
    return found
