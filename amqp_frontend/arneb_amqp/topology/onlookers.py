"""Onlookers: who sees each message that is published and delivered in a vhost.

The rule: they change nothing, raise nothing and keep nobody waiting. A vhost asks once a run
whether it has one, which is all that it costs to have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Tapped:
    """Whose messages are looked at."""

    connection: str
    """By the name of both its ends."""
    user: str


class Onlooker(Protocol):
    """Sees messages of one vhost."""

    def published(self, tapped: Tapped, entries: Sequence[bytes], queues: Sequence[str]) -> None:
        """Messages were published, and go to these queues."""
        ...

    def delivered(
        self,
        tapped: Tapped,
        channel: int,
        queue: str,
        entries: Sequence[bytes],
        redelivered: Sequence[bool],
    ) -> None:
        """Messages of a queue were delivered."""
        ...


class Several:
    """Some that see the same."""

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
