"""Onlookers: observers of every message published and delivered in a vhost.

The rule: they change nothing, raise nothing and delay nobody. A vhost checks once a run whether it
has one; without one, that is the whole cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Tapped:
    """The client whose messages are observed."""

    connection: str
    """The name of both its ends."""
    user: str


class Onlooker(Protocol):
    """Sees messages of one vhost."""

    def published(self, tapped: Tapped, entries: Sequence[bytes], queues: Sequence[str]) -> None:
        """Observe published messages that go to these queues."""
        ...

    def delivered(
        self,
        tapped: Tapped,
        channel: int,
        queue: str,
        entries: Sequence[bytes],
        redelivered: Sequence[bool],
    ) -> None:
        """Observe delivered messages of a queue."""
        ...


class Several:
    """Passes everything to several onlookers."""

    def __init__(self, onlookers: Sequence[Onlooker]) -> None:
        self._onlookers = tuple(onlookers)

    def __repr__(self) -> str:
        return f"<Several {self._onlookers!r}>"

    def published(self, tapped: Tapped, entries: Sequence[bytes], queues: Sequence[str]) -> None:
        """See :meth:`Onlooker.published`."""
        for each in self._onlookers:
            each.published(tapped, entries, queues)

    def delivered(
        self,
        tapped: Tapped,
        channel: int,
        queue: str,
        entries: Sequence[bytes],
        redelivered: Sequence[bool],
    ) -> None:
        """See :meth:`Onlooker.delivered`."""
        for each in self._onlookers:
            each.delivered(tapped, channel, queue, entries, redelivered)
