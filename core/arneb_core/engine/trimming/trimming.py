"""Trimming: what is removed from the front of a topic's log, and when.

The rule: ledgers on disk go with a commit, and memory follows when it is stored. Nothing goes that
a subscription still wants, whether its cursor is stored or not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from arneb_core.api.entries.position import LedgerId, Position, before, ledger_of, position_at
from arneb_core.api.topics.settings import NOTHING_KEPT, Retention
from arneb_core.cursor.acks import AckState
from arneb_core.engine.trimming.slowest_subscription import Slowest
from arneb_core.log.durable_log import DurableLog
from arneb_core.log.memory_log import Log
from arneb_core.log.retention import droppable_through, last_ledger_ends
from arneb_core.store.format.changes import Changes

SWEEP_RUNS_MIN: Final = 64
"""Runs of a memory log that are kept before it is checked which are acknowledged."""


@dataclass(frozen=True, slots=True)
class PlannedTrim:
    """What happens to a topic's ledgers if the commit succeeds."""

    through: LedgerId | None
    """Ledgers up to this one go."""
    ends: bool
    """The last ledger ends, and an empty one begins."""
    now_ms: int


class Reading(Protocol):
    """What trimming asks of a subscription."""

    name: str

    @property
    def durable(self) -> bool: ...

    @property
    def mark_delete(self) -> Position: ...

    @property
    def acks(self) -> AckState: ...


class Trimming:
    """The trimming of one topic's log."""

    def __init__(
        self,
        log: Log,
        subscriptions: Mapping[str, Reading],
        trimmed: Callable[[], None],
    ) -> None:
        self._log = log
        self._subscriptions = subscriptions
        self._trimmed = trimmed
        """Called when ledgers were dropped."""
        self._sweep_at = SWEEP_RUNS_MIN
        self._bound = Slowest(subscriptions)
        self.asked_through = LedgerId(0)
        """Ledgers up to this one go once every durable subscription has passed them, whatever the
        retention."""

    def __repr__(self) -> str:
        return f"<Trimming of {self._log!r}>"

    def comes(self, subscription: Reading) -> None:
        """Add ``subscription`` to those of the topic."""
        self._bound.comes(subscription)

    def goes(self) -> None:
        """Note that a subscription was removed."""
        self._bound.goes()

    def sweep(self) -> None:
        """Drop what every subscription of a memory log is done with. Without subscriptions, keep
        what a new one at the earliest entry would want: the last ledger."""
        log = self._log
        if isinstance(log, DurableLog):
            return
        marks = [each.mark_delete for each in self._subscriptions.values()]
        through = min(marks, default=before(position_at(ledger_of(log.ledgers.next_append), 0)))
        log.tail.drop_through(through)
        last_full = LedgerId((through + 1 >> 32) - 1)
        if any(info.id <= last_full for info in log.ledgers):
            log.drop_through(last_full)
            self._trimmed()
        if marks and len(log.tail) > self._sweep_at:
            states = [each.acks for each in self._subscriptions.values()]
            log.drop_acknowledged(
                lambda first, last: all(_has(each, first, last) for each in states)
            )
            self._sweep_at = 2 * len(log.tail) + SWEEP_RUNS_MIN

    def last_ledger_ends(self, retention: Retention, now_ms: int, *, at_once: bool = False) -> bool:
        """Whether the last ledger should end before anything more is published."""
        if not self._log.durable or not self._ends(self._bound.mark, retention, now_ms, at_once):
            return False
        # Readers hold it as well: one that keeps up must not lose the entries it gets next.
        slowest = min(each.mark_delete for each in self._subscriptions.values())
        return self._ends(slowest, retention, now_ms, at_once)

    def plan(
        self, changes: Changes, retention: Retention, now_ms: int, *, at_once: bool
    ) -> PlannedTrim | None:
        """Put the removal of ledgers that may go into a commit, and a successor of the last one.

        The last ledger stays if runs are planned after it, in this commit or in those under way.
        ``at_once``: room is short.
        """
        log = self._log
        if not isinstance(log, DurableLog) or self._is_held:
            return None
        ends = not log.planned and self.last_ledger_ends(retention, now_ms, at_once=at_once)
        through = self._through(self._bound.mark, retention, now_ms, ends=ends)
        if through is not None:  # only now are all subscriptions worth asking
            through = self._through(self._slowest, retention, now_ms, ends=ends)
        if through is not None and log.planned_drops and through <= log.planned_drops[-1]:
            through = None
        if through is None and not ends:
            return None
        # No ledger is older than the entries of the one before it.
        ended_ms = max(now_ms, log.stamped_ms)
        if ends:
            changes.puts.extend(log.plan_successor(ended_ms))
        if through is not None:
            log.plan_drop(through, changes)
        return PlannedTrim(through, ends, ended_ms)

    def succeeded(self, plan: PlannedTrim) -> None:
        """Apply ``plan``: its commit is on disk."""
        if plan.ends and isinstance(self._log, DurableLog):
            self._log.succeeded(plan.now_ms)
        if plan.through is not None:
            self._log.drop_through(plan.through)
            self._trimmed()

    def failed(self, plan: PlannedTrim) -> None:
        """Undo ``plan``: neither its commit nor any planned after it is on disk."""
        assert isinstance(self._log, DurableLog), f"{self._log!r} keeps nothing on disk"
        if plan.ends:
            self._log.planned.pop()
        if plan.through is not None:
            self._log.planned_drops.pop()

    def _ends(
        self, slowest: Position | None, retention: Retention, now_ms: int, at_once: bool
    ) -> bool:
        return last_ledger_ends(
            self._log.ledgers, slowest, retention=retention, now_ms=now_ms, at_once=at_once
        )

    def _through(
        self, slowest: Position | None, retention: Retention, now_ms: int, *, ends: bool
    ) -> LedgerId | None:
        """Return the last ledger that may go when no durable subscription is behind ``slowest``."""
        through = droppable_through(
            self._log.ledgers, slowest, retention=retention, now_ms=now_ms, ends=ends
        )
        asked = self._asked(slowest, ends=ends)
        if asked is None:
            return through
        return asked if through is None else max(asked, through)

    def _asked(self, slowest: Position | None, *, ends: bool) -> LedgerId | None:
        """Return the last ledger that may go because somebody asked for it."""
        ledgers = self._log.ledgers
        if slowest is None or not ledgers or next(iter(ledgers)).id > self.asked_through:
            return None
        through = droppable_through(ledgers, slowest, retention=NOTHING_KEPT, now_ms=0, ends=ends)
        return None if through is None else min(through, self.asked_through)

    @property
    def _slowest(self) -> Position | None:
        """The lowest mark-delete position of the durable subscriptions; None without one."""
        return min(
            (each.mark_delete for each in self._subscriptions.values() if each.durable),
            default=None,
        )

    @property
    def _is_held(self) -> bool:
        """Nothing may go: some subscription has not passed the first ledger, or there is none."""
        first = next(iter(self._log.ledgers), None)
        if first is None:
            return True
        mark = self._bound.mark
        return bool(first.entries) and mark is not None and mark < first.last


def _has(acks: AckState, first: Position, last: Position) -> bool:
    """Whether all entries in [first, last] are acknowledged."""
    return acks.acknowledged_between(before(first), last) == last - first + 1
