"""What administrators may look at and move of a topic, beyond what clients do.

The rule: nothing here is on the path of a message. The protocol is a part of
:class:`arneb_core.api.topics.topic.Topic`; :mod:`arneb_core.engine.topics.admin` implements it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_core.api.entries.position import LedgerId, Position
from arneb_core.api.topics.settings import Retention


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """One ledger at one instant; ``closed_ms`` 0: it may still grow."""

    id: LedgerId
    entries: int
    messages: int
    bytes: int
    created_ms: int
    closed_ms: int


class InspectedTopic(Protocol):
    """A topic's log, seen from outside."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that the topic was created with."""
        ...

    @property
    def retention(self) -> Retention:
        """How long it keeps acknowledged entries: its own retention, or else the broker's."""
        ...

    async def retain(self, ms: int, size: int, ledger_bytes_max: int | None = None) -> None:
        """Change how long, and how many bytes of, acknowledged entries are kept, now and across
        restarts, and the size of ledgers if given; see
        :class:`arneb_core.api.topics.settings.TopicSettings`. Raises :class:`CommitFailed`."""
        ...

    def ledgers(self) -> Sequence[LedgerStatistics]:
        """Return the log's ledgers, in order."""
        ...

    async def read(
        self, position: Position, bytes_max: int
    ) -> Sequence[tuple[Position, Sequence[bytes]]]:
        """Return runs of entries from ``position`` on, each with the position of its first. Raises
        :class:`StoreFailed`."""
        ...

    async def entry_at(self, position: Position) -> bytes | None:
        """Return the entry at ``position``, None if there is none. Raises :class:`StoreFailed`."""
        ...

    @property
    def has_delays(self) -> bool:
        """Whether delayed entries have come, or may at any moment."""
        ...

    async def soonest(self, limit: int, after_ms: int) -> Sequence[tuple[int, Position]]:
        """Return the next ``limit`` entries that come due after ``after_ms``, in that order, each
        as due time in ms and position; empty if nothing is delayed. Raises :class:`StoreFailed`."""
        ...

    @property
    def floor(self) -> Position:
        """Nothing below it exists any more."""
        ...

    async def roll(self) -> Position:
        """End the open ledger, if it holds anything. Everything below the returned position is then
        durably in closed ledgers. Raises :class:`CommitFailed`, and :class:`NotAllowed` for a topic
        kept in memory."""
        ...

    async def trim(self, position: Position) -> None:
        """Remove the closed ledgers wholly below ``position`` that every durable subscription has
        passed, even if retention would keep them. There must be a durable subscription. Raises as
        :meth:`roll`."""
        ...
