"""Trimming: what a leader has Pulsar trim from its log topic, and when.

The rule: nothing is trimmed before every member has reported in this leadership, and before the
current list of members is in the topic itself; and only what a later record confirms as stored is
trimmed. So a node that is too late for an entry finds a record that says so, every later leader
waits for a node that is given a copy, and a topic that was ever written is never empty.
"""

from dataclasses import dataclass
from typing import Final

from arneb_cluster.protocol.members import Copies, Members, Report
from arneb_cluster.protocol.values import NOWHERE, Place

SETTLED_REPORTS: Final = 3
"""Reports that every live member has made by then: before that no member is considered missing."""

ROW_REPORTS: Final = 12
"""Reports after which the list is rewritten, a minute: a new leader must not consider members gone
that were reporting all the time."""


@dataclass(frozen=True, slots=True)
class Write:
    """Replicate this list; call :meth:`Trimming.written` when it is stored and applied."""

    members: Members


@dataclass(frozen=True, slots=True)
class Trim:
    """Trim the topic up to there."""

    place: Place


@dataclass(frozen=True, slots=True)
class _Decided:
    place: Place
    number: int
    """The number of the last record made by then."""


class Trimming:
    """The trimming of one leadership."""

    def __init__(self, node: str, members: Members, asked: Copies, now_ms: int) -> None:
        """``members``: from the directory of ``node``, the leader."""
        self.members = members
        self._node = node
        self.asked = asked
        self._written = members
        self._writing: Members | None = None
        self._began_ms = self._written_ms = self._decided_ms = now_ms
        self._heard: set[str] = set()
        """The nodes that have reported in this leadership."""
        self._decided: _Decided | None = None
        self.trimmed = NOWHERE
        """The place up to which this leader has trimmed."""

    def __repr__(self) -> str:
        waits = len(self.members.by_node.keys() - self._heard)
        return f"<Trimming up to {self.trimmed}, {waits} of {len(self.members.by_node)} unheard>"

    def heard(self, report: Report, now_ms: int) -> None:
        """Take a member's report."""
        self.members = self.members.heard(report, now_ms)
        self._heard.add(report.node)

    def written(self) -> None:
        """Note that the list being written is stored."""
        if self._writing is not None:
            self._written, self._writing = self._writing, None

    def is_settled(self, now_ms: int) -> bool:
        """Whether members that have not reported by now are missing."""
        return self._later(self._began_ms, SETTLED_REPORTS, now_ms)

    def alarm(self, now_ms: int) -> str:
        """Return why the topic is no longer trimmed; empty if nothing is wrong."""
        return self.members.missing(now_ms, self.asked) if self.is_settled(now_ms) else ""

    def tick(self, now_ms: int, made: int, stored: int) -> list[Write | Trim]:
        """Return what to do now. ``made``: the number of the leader's last record; ``stored``: of
        the last one with a receipt."""
        if self.is_settled(now_ms):
            self.members = self.members.without_gone(now_ms, self.asked)
        asked: list[Write | Trim] = []
        if self._writing is None and self._is_to_be_written(now_ms):
            self._writing, self._written_ms = self.members, now_ms
            asked.append(Write(self.members))
        decided = self._decided
        if decided is not None and stored > decided.number:
            # A record made since then confirms that all of it was stored.
            self._decided, self.trimmed = None, decided.place
            asked.append(Trim(decided.place))
        elif decided is None and self._later(self._decided_ms, 1, now_ms):
            place = self._trim_place()
            if place is not None and place > self.trimmed:
                self._decided, self._decided_ms = _Decided(place, made), now_ms
        return asked

    def failed(self) -> None:
        """Note that trimming failed."""
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
