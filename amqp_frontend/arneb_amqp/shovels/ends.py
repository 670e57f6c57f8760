"""The two ends of a shovel: what is taken at one and put in at the other.

The rule: a batch is taken, put in, and settled, one after the other. A source gives a message up
only when it is told to; whatever was not settled is there again when the shovel comes back.
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
    """As :mod:`arneb_amqp.wire.content` describes it."""
    tag: int
    """By which its source knows it: a delivery tag, or a position."""
    part: int | None = None
    """Which message it is of a batch that stands there."""


class SourceEnd(Protocol):
    """Where messages come from."""

    @property
    def length(self) -> int:
        """Of the queue, when it was opened."""
        ...

    async def receive(self, most: int) -> Sequence[Moved]:
        """The next messages: at least one, at most so many. Raises :class:`.RemoteClosed`."""
        ...

    async def settle(self, batch: Sequence[Moved], refused: set[int]) -> None:
        """Give a batch up, but those at the places ``refused``, which come again. Raises
        :class:`.RemoteClosed`."""
        ...


class DestinationEnd(Protocol):
    """Where messages go."""

    @property
    def is_blocked(self) -> bool:
        """It takes nothing at present."""
        ...

    async def put(self, batch: Sequence[Moved], *, confirmed: bool) -> set[int]:
        """Put a batch in; ``confirmed``: for good, when this returns. The places of those that were
        refused. Raises :class:`.RemoteClosed`."""
        ...


class UnitSource(SourceEnd, Protocol):
    """A source in this broker."""

    def settle_in(self, unit: Unit, batch: Sequence[Moved], refused: set[int]) -> None:
        """Give the batch up in the commit of ``unit``."""
        ...
