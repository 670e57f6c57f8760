"""The durable cursor of a streaming query: a subscription on each of its topics, kept by a lease.

The rule: the cursor alone keeps what the query has not finished. Every look at the log acknowledges
what the query has finished and renews the lease. A query never says that it has ended for good, so
a cursor that is not renewed expires; a query that comes back later then gets an error that says
what it lost.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from arneb_core.api.entries.position import Position

log = logging.getLogger(__name__)

LEASE_S_UNKNOWN: Final = 24 * 3600
"""The longest lease while no checkpoint has the cursor's name: if the query ends before its first
batch was planned, nobody can find the cursor again, and it should not keep the log for long."""

Positions = Mapping[str, tuple[int, Position]]
"""By a topic's full name: its id, and the first entry that is not acknowledged."""


@dataclass(frozen=True, slots=True)
class CursorState:
    """The state of a cursor in one topic."""

    next: Position
    """The first entry that is not acknowledged."""
    messages: int
    bytes_total: int
    age_s: int
    """The age of the first entry that is not acknowledged; 0 without one."""
    created: bool = False
    """This call created it."""


class CursorGone(Exception):
    """The cursor does not exist: its lease expired, or somebody removed it."""


class CursorService(Protocol):
    """What a broker offers to the owner of cursors. Every call concerns many topics at once, and
    changes nothing if it fails."""

    def open(self, name: str, positions: Positions, lease_s: int) -> dict[str, CursorState]:
        """Create the cursor where it does not exist; where it does, take it over with this
        lease."""
        ...

    def acknowledge(self, name: str, positions: Positions) -> dict[str, CursorState]:
        """Acknowledge everything before each place, and renew the lease. Raises
        :class:`CursorGone`."""
        ...

    def remove(self, name: str, topics: Iterable[str]) -> None:
        """Remove the cursor where it exists."""
        ...


class QueryCursor:
    """The cursor as one run of a query uses it."""

    def __init__(self, service: CursorService, lease_s: int) -> None:
        self._service = service
        self._lease_s = lease_s
        self._lease_s_given: dict[str, int] = {}
        """The lease of each cursor that this run has opened, by name."""

    def keep(
        self, name: str, done: Positions, fresh: Positions, *, known: bool
    ) -> dict[str, CursorState]:
        """Acknowledge what is ``done``, and create the cursor at the places of ``fresh`` where it
        does not exist. ``known``: a checkpoint has the name, or will have it before the batch
        runs."""
        lease_s = self._lease_s if known else min(self._lease_s, LEASE_S_UNKNOWN)
        found: dict[str, CursorState] = {}
        if self._lease_s_given.get(name) != lease_s:
            found = self._service.open(name, {**done, **fresh}, lease_s)
            self._lease_s_given[name] = lease_s
        elif fresh:
            found = self._service.open(name, fresh, lease_s)
        if done:
            found |= self._acknowledge(name, done, lease_s, found)
        return found

    def _acknowledge(
        self, name: str, done: Positions, lease_s: int, opened: Mapping[str, CursorState]
    ) -> dict[str, CursorState]:
        if all(topic in opened and opened[topic].next == done[topic][1] for topic in done):
            return {}
        try:
            return self._service.acknowledge(name, done)
        except CursorGone:
            log.warning("the cursor %s had ended: it is created again where the query stands", name)
            return self._service.open(name, done, lease_s)

    def give_up(self, name: str, topics: Iterable[str]) -> None:
        """Remove a cursor of this run whose name is in no checkpoint."""
        if self._lease_s_given.pop(name, None) is not None:
            self._service.remove(name, topics)

    def __repr__(self) -> str:
        return f"<QueryCursor {', '.join(self._lease_s_given) or 'not open'}>"
