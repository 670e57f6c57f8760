"""Batches: messages that are sent as one entry.

The rule: a batch is sent when it reaches the bound of messages, of bytes, or of time since its
first message. It keeps the order in which messages were added.

Batching by key makes an entry for each key, since a Key_Shared broker reads one key per entry;
messages without a key share one more.
"""

from typing import Final, Protocol

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.messages import OutgoingMessage

MESSAGES_MAX: Final = 1_000
BYTES_MAX: Final = 128 * 1024
DELAY_S: Final = 0.01
"""The C++ client's defaults for a batch; Java's delay is 1 ms."""


class BatchContainer(Protocol):
    """Messages that wait to be sent together."""

    def __len__(self) -> int: ...

    def fits(self, message: OutgoingMessage) -> bool:
        """Return whether ``message`` may be added; if not, :meth:`take` first."""

    def add(self, message: OutgoingMessage, now: float) -> bool:
        """Add ``message``; return True if the waiting messages should be sent now."""

    def take(self) -> list[list[OutgoingMessage]]:
        """Remove and return the waiting messages, one list per entry."""

    def due(self) -> float | None:
        """Return when the waiting messages must be sent; None if there are none."""


class _Limits:
    """The bounds and counts of a container."""

    def __init__(self, messages_max: int, bytes_max: int, delay_s: float) -> None:
        if messages_max < 1 or bytes_max < 1 or delay_s < 0:
            raise ConfigurationError(
                f"expected bounds of a batch, got {messages_max} messages, {bytes_max} bytes and"
                f" {delay_s} s"
            )
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._delay_s = delay_s
        self._bytes = 0
        self._count = 0
        self._since: float | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._count} messages, {self._bytes} bytes>"

    def __len__(self) -> int:
        return self._count

    def fits(self, message: OutgoingMessage) -> bool:
        """Return whether ``message`` fits beside the waiting ones; one that is too large for any
        batch gets a batch of its own."""
        return not self._count or self._bytes + message.size_bytes <= self._bytes_max

    def due(self) -> float | None:
        """Return when the waiting messages must be sent, full or not; None if there are none."""
        return None if self._since is None else self._since + self._delay_s

    def _counted(self, message: OutgoingMessage, now: float) -> bool:
        if self._since is None:
            self._since = now
        self._count += 1
        self._bytes += message.size_bytes
        return self._count >= self._messages_max or self._bytes >= self._bytes_max

    def _reset(self) -> None:
        self._count = self._bytes = 0
        self._since = None


class DefaultBatches(_Limits):
    """One batch for all messages."""

    def __init__(
        self,
        *,
        messages_max: int = MESSAGES_MAX,
        bytes_max: int = BYTES_MAX,
        delay_s: float = DELAY_S,
    ) -> None:
        super().__init__(messages_max, bytes_max, delay_s)
        self._messages: list[OutgoingMessage] = []

    def add(self, message: OutgoingMessage, now: float) -> bool:
        """Have ``message`` wait; True when what waits is to be sent now."""
        self._messages.append(message)
        return self._counted(message, now)

    def take(self) -> list[list[OutgoingMessage]]:
        """Remove and return the waiting messages, one list per entry."""
        if not self._messages:
            return []
        taken, self._messages = self._messages, []
        self._reset()
        return [taken]


class KeyBatches(_Limits):
    """A batch for each key, and one for messages without a key. The bounds are for all together."""

    def __init__(
        self,
        *,
        messages_max: int = MESSAGES_MAX,
        bytes_max: int = BYTES_MAX,
        delay_s: float = DELAY_S,
    ) -> None:
        super().__init__(messages_max, bytes_max, delay_s)
        self._batches: dict[bytes | None, list[OutgoingMessage]] = {}

    def add(self, message: OutgoingMessage, now: float) -> bool:
        """Have ``message`` wait; True when what waits is to be sent now."""
        batch = self._batches.get(message.order)
        if batch is None:
            batch = self._batches[message.order] = []
        batch.append(message)
        return self._counted(message, now)

    def take(self) -> list[list[OutgoingMessage]]:
        """Remove and return the waiting messages, one list per entry, in the order of the first
        messages."""
        taken = list(self._batches.values())
        self._batches = {}
        self._reset()
        return taken
