"""Observers of every message published and delivered in a vhost.

The rule: they change nothing, raise nothing and delay nobody. A vhost checks once per run whether
it has one; without one, that is the whole cost.
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


class MessageObserver(Protocol):
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
    """Passes everything to several observers."""

    def __init__(self, observers: Sequence[MessageObserver]) -> None:
        self._observers = tuple(observers)

    def __repr__(self) -> str:
        return f"<Several {self._observers!r}>"

    def published(self, tapped: Tapped, entries: Sequence[bytes], queues: Sequence[str]) -> None:
        """See :meth:`MessageObserver.published`."""
        for each in self._observers:
            each.published(tapped, entries, queues)

    def delivered(
        self,
        tapped: Tapped,
        channel: int,
        queue: str,
        entries: Sequence[bytes],
        redelivered: Sequence[bool],
    ) -> None:
        """See :meth:`MessageObserver.delivered`."""
        for each in self._observers:
            each.delivered(tapped, channel, queue, entries, redelivered)
