"""Publishing: prepared rows are made into the appends of one commit.

The rule: all or nothing: one row that a queue refuses, or a mandatory one that no queue takes,
keeps all out. The entries are sorted by topic in a thread; the turn of the commit checks that
nothing has changed meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from arneb.data.errors import DataError
from arneb.data.prepared import Destination, Prepared, messages_of
from arneb.data.rights import Rights
from arneb.data.targets import Resolved, Targets
from arneb_amqp.topology.destinations import RoutedTopics
from arneb_amqp.topology.overflow import Admission, Overflow
from arneb_core.api.core import Core, CountedRun, Unit
from arneb_core.api.topics.topic import Topic

RUN_ENTRIES_MAX: Final = 10_000
"""The most entries of one run: five such runs fill a ledger."""

ATTEMPTS: Final = 5
"""How often rows are sorted before giving up, when queues and bindings change meanwhile."""

STAMP_ROWS_A_MS: Final = 300
"""Rows made ready in a millisecond, at least. The publish time is to be the commit's, so it is set
ahead of the clock by the time that this takes."""


@dataclass(slots=True)
class Sorted:
    """Entries by topic, counted."""

    runs: list[CountedRun] = field(default_factory=list)
    in_memory: list[tuple[Topic, list[bytes]]] = field(default_factory=list)
    refusing: list[tuple[Overflow, list[bytes]]] = field(default_factory=list)
    unrouted: int = 0
    first_unrouted: Destination | None = None


class Publishing:
    """Puts prepared rows into units."""

    def __init__(self, core: Core, targets: Targets, now_ms: Callable[[], int]) -> None:
        self._core = core
        self._targets = targets
        self._now_ms = now_ms

    def __repr__(self) -> str:
        return f"<Publishing by {self._targets!r}>"

    def stamp_ms(self, rows: int) -> int:
        """Return the publish time for this many rows that are about to be made ready."""
        return self._now_ms() + rows // STAMP_ROWS_A_MS

    async def fill(
        self, unit: Unit, pieces: Sequence[Prepared], rights: Rights, *, mandatory: bool
    ) -> tuple[int, Admission]:
        """Put the entries of ``pieces`` into ``unit``, which must be committed before anything else
        happens; return how many no queue takes, and the admission, which ends when the unit has
        been committed or has failed. Raises :class:`.DataError`."""
        destinations, tables = await trio.to_thread.run_sync(_all_destinations, pieces)
        for _ in range(ATTEMPTS):
            resolved = await self._targets.resolve(destinations, rights)
            found = await trio.to_thread.run_sync(
                _sorted, pieces, tables, destinations, resolved.routed
            )
            if self._still_so(resolved, found):
                break
        else:
            reason = f"queues and bindings changed {ATTEMPTS} times while rows were sorted"
            raise DataError(503, "busy", reason)
        if mandatory and found.first_unrouted is not None:
            where = found.first_unrouted
            reason = f"no queue takes rows for exchange {where.exchange!r} by {where.routing_key!r}"
            raise DataError(409, "unroutable", reason)
        return found.unrouted, self._put(unit, found, pieces)

    def _still_so(self, resolved: Resolved, found: Sorted) -> bool:
        topics = [run.topic for run in found.runs] + [topic for topic, _ in found.in_memory]
        return resolved.is_valid and not any(topic.fenced for topic in topics)

    def _put(self, unit: Unit, found: Sorted, pieces: Sequence[Prepared]) -> Admission:
        admission = Admission()
        for overflow, entries in found.refusing:
            for entry in entries:
                if not admission.offer(overflow, entry):
                    admission.over()
                    reason = f"{overflow.topic.name} is full and refuses what comes"
                    raise DataError(409, "not_allowed", reason)
        unit.runs += found.runs
        unit.appends += found.in_memory
        unit.appends += admission.close().items()
        topics = {each.topic for each in found.runs} | {each for each, _ in unit.appends}
        for topic in topics:
            if any(piece.expires for piece in pieces):
                self._core.expect_expiry(topic)
            if any(piece.delays for piece in pieces):
                self._core.expect_delays(topic)
        return admission


def _all_destinations(pieces: Sequence[Prepared]) -> tuple[list[Destination], list[list[int]]]:
    """Return the destinations of all pieces, each once, and for each piece the indices of its own.
    Runs in a thread: a piece may have thousands of keys."""
    index: dict[Destination, int] = {}
    tables = [
        [index.setdefault(each, len(index)) for each in piece.destinations] for piece in pieces
    ]
    return list(index), tables


def _sorted(
    pieces: Sequence[Prepared],
    tables: Sequence[Sequence[int]],
    destinations: Sequence[Destination],
    routed: Sequence[RoutedTopics],
) -> Sorted:
    """Sort the entries by topic. Runs in a thread."""
    by_topic: dict[Topic, list[bytes]] = {}
    refusing: dict[Overflow, list[bytes]] = {}
    found = Sorted()
    lists = [
        [
            *(by_topic.setdefault(topic, []) for topic in each.topics),
            *(refusing.setdefault(each, []) for each in each.refusing),
        ]
        for each in routed
    ]
    for piece, table in zip(pieces, tables, strict=True):
        if len(table) == 1 and lists[table[0]]:
            for into in lists[table[0]]:
                into += piece.entries
            continue
        for going, entry in zip(piece.going, piece.entries, strict=True):
            number = table[going]
            for into in lists[number]:
                into.append(entry)
            if not lists[number]:
                found.unrouted += 1
                found.first_unrouted = found.first_unrouted or destinations[number]
    for topic, entries in by_topic.items():
        if not topic.durable:
            found.in_memory.append((topic, entries))
            continue
        for start in range(0, len(entries), RUN_ENTRIES_MAX):
            run = entries[start : start + RUN_ENTRIES_MAX]
            found.runs.append(CountedRun(topic, run, messages_of(run), sum(map(len, run))))
    found.refusing = list(refusing.items())
    return found
