"""Trimming: what one leader has Pulsar forget of its log topic, and when.

The rule: nothing goes before every member was heard of in this leadership, and before the list of
them, as it is now, stands in the topic itself; and nothing goes but behind a record that says that
it was stored. So whoever comes too late for something finds a record that tells it so, whoever is
given a copy is waited for by every later leader, and a topic that was written is never empty.
"""

from dataclasses import dataclass
from typing import Final

from arneb_cluster.protocol.members import Copies, Members, Report
from arneb_cluster.protocol.values import NOWHERE, Place

SETTLED_REPORTS: Final = 3
"""So many reports every member has made by then that lives: before that nobody is missed."""

ROW_REPORTS: Final = 12
"""The list is written anew after so many, a minute: a new leader must not take for gone who was
heard of all the time."""


@dataclass(frozen=True, slots=True)
class Write:
    """Have this list replicated; say :meth:`Trimming.written` when it is stored and applied."""

    members: Members


@dataclass(frozen=True, slots=True)
class Trim:
    """Have the topic forget everything up to there."""

    place: Place


@dataclass(frozen=True, slots=True)
class _Decided:
    place: Place
    number: int
    """Of the last record that was made by then."""


class Trimming:
    """Of one leadership."""

    def __init__(self, node: str, members: Members, asked: Copies, now_ms: int) -> None:
        """``members``: as the directory of ``node``, which leads, has them."""
        self.members = members
        self._node = node
        self.asked = asked
        self._written = members
        self._writing: Members | None = None
        self._began_ms = self._written_ms = self._decided_ms = now_ms
        self._heard: set[str] = set()
        """Who has told of itself in this leadership."""
        self._decided: _Decided | None = None
        self.trimmed = NOWHERE
        """What this leader has had forgotten."""

    def __repr__(self) -> str:
        waits = len(self.members.by_node.keys() - self._heard)
        return f"<Trimming up to {self.trimmed}, {waits} of {len(self.members.by_node)} unheard>"

    def heard(self, report: Report, now_ms: int) -> None:
        """A member has told of itself."""
        self.members = self.members.heard(report, now_ms)
        self._heard.add(report.node)

    def written(self) -> None:
        """The list that was to be written is stored."""
        if self._writing is not None:
            self._written, self._writing = self._writing, None

    def is_settled(self, now_ms: int) -> bool:
        """Who has not been heard of by now is missing."""
        return self._later(self._began_ms, SETTLED_REPORTS, now_ms)

    def alarm(self, now_ms: int) -> str:
        """Why the topic is not trimmed any more; empty if nothing is wrong."""
        return self.members.missing(now_ms, self.asked) if self.is_settled(now_ms) else ""

    def tick(self, now_ms: int, made: int, stored: int) -> list[Write | Trim]:
        """Time has gone by. ``made``: the number of the leader's last record; ``stored``: of the
        last one that has its receipt."""
        if self.is_settled(now_ms):
            self.members = self.members.without_gone(now_ms, self.asked)
        asked: list[Write | Trim] = []
        if self._writing is None and self._is_to_be_written(now_ms):
            self._writing, self._written_ms = self.members, now_ms
            asked.append(Write(self.members))
        decided = self._decided
        if decided is not None and stored > decided.number:
            # A record that was made since says that all of it was stored.
            self._decided, self.trimmed = None, decided.place
            asked.append(Trim(decided.place))
        elif decided is None and self._later(self._decided_ms, 1, now_ms):
            place = self._trim_place()
            if place is not None and place > self.trimmed:
                self._decided, self._decided_ms = _Decided(place, made), now_ms
        return asked

    def failed(self) -> None:
        """The topic could not be trimmed."""
        self.trimmed = NOWHERE

    def _is_to_be_written(self, now_ms: int) -> bool:
        if self.members.runs != self._written.runs:
            return True
        is_due = self._later(self._written_ms, ROW_REPORTS, now_ms)
        return is_due and self.members != self._written

    def _trim_place(self) -> Place | None:
        members = self.members
        if {*members.by_node, self._node} - self._heard or members.runs != self._written.runs:
            return None
        return members.trim_place(self.asked.copies_min)

    def _later(self, then_ms: int, reports: int, now_ms: int) -> bool:
        return now_ms - then_ms >= reports * self.asked.report_s * 1_000
