"""The two ends of a shovel: a source and a destination of messages.

The rule: a batch is received, put and acknowledged before the next one. A source gives a message up
only once it is acknowledged; what was not is still there when the shovel returns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_core.api.core import Unit


@dataclass(slots=True)
class Moved:
    """A message on its way."""

    exchange: str
    routing_key: str
    body: bytes
    """In the form of :mod:`arneb_amqp.wire.content`."""
    tag: int
    """Its source's name for it: a delivery tag, or a position."""
    part: int | None = None
    """Its number within a stored batch."""


class SourceEnd(Protocol):
    """The source of messages."""

    @property
    def length(self) -> int:
        """The queue's length when the source was opened."""
        ...

    async def receive(self, most: int) -> Sequence[Moved]:
        """Return the next messages, at least one and at most ``most``. Raises
        :class:`.RemoteClosed`."""
        ...

    async def acknowledge(self, batch: Sequence[Moved], refused: set[int]) -> None:
        """Acknowledge a batch, except the messages at indexes ``refused``, which come again. Raises
        :class:`.RemoteClosed`."""
        ...


class DestinationEnd(Protocol):
    """The destination of messages."""

    @property
    def is_blocked(self) -> bool:
        """Whether it accepts nothing at present."""
        ...

    async def put(self, batch: Sequence[Moved], *, confirmed: bool) -> set[int]:
        """Put a batch in; ``confirmed``: it is durable when this returns. Return the indexes of
        refused messages. Raises :class:`.RemoteClosed`."""
        ...


class UnitSource(SourceEnd, Protocol):
    """A source in this broker."""

    def acknowledge_in(self, unit: Unit, batch: Sequence[Moved], refused: set[int]) -> None:
        """Acknowledge the batch in the commit of ``unit``."""
        ...
