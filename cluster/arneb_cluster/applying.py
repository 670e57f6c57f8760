"""Applying: what counts goes into the directory, and whoever waits is told.

The rule: once something could not be applied nothing more is, since what comes next stands on it.
What is small is one write in the event loop, while the disk is fast: to change threads and back
would take longer. Everything else is done in a thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import trio

from arneb_cluster.commit_log import Applied
from arneb_cluster.protocol.node import Apply
from arneb_cluster.replica import Replica, Step
from arneb_core.api.errors import CommitFailed, describe
from arneb_core.store.changes import Changes, CommitReport
from arneb_core.store.commit.commit_log import SMALL_BYTES_MAX, SMALL_ROWS_MAX
from arneb_core.store.commit_record import RecordCorrupt, decode_changes, rows_in


class Own:
    """The end of a commit of this node's."""

    __slots__ = ("changes", "ended")

    def __init__(self, changes: Changes, ended: Applied) -> None:
        self.changes = changes
        self.ended = ended

    def __repr__(self) -> str:
        return f"<Own {len(self.changes.blocks)} runs>"

    def __call__(self) -> None:
        """Is told with a report instead."""


@dataclass(frozen=True, slots=True)
class TidyUp:
    """The directory is to go on with what it has to trim."""

    ended: Applied


class Applying:
    """The directory of a shard, one thread at a time."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._failed = False

    def __repr__(self) -> str:
        return f"<Applying to {self._replica!r}{', failed' if self._failed else ''}>"

    async def apply(self, batch: Sequence[Apply]) -> str:
        """Take these in and tell those who wait; why that could not be, if it could not."""
        if self._failed:
            return ""
        replica = self._replica
        try:
            is_small = len(batch) == 1 and _is_small(batch[0].commit.body)
            small = [_step_of(batch[0])] if is_small else []
            report = replica.apply_at_once(small[0]) if small else None
            reports = (
                [report]
                if report is not None
                else await trio.to_thread.run_sync(
                    lambda: replica.apply(small or [_step_of(each) for each in batch])
                )
            )
        except (CommitFailed, RecordCorrupt) as error:
            self._failed = True
            return f"cannot apply what follows {replica.applied.link.number}: {describe(error)}"
        for each, made in zip(batch, reports, strict=True):
            if isinstance(each.ended, Own):
                each.ended.ended(made)
        return ""

    async def prepare(self) -> None:
        """Make ready what small commits need."""
        await trio.to_thread.run_sync(self._replica.prepare)

    async def tidy_up(self, work: TidyUp) -> None:
        """Go on trimming; what cannot be trimmed now waits."""
        try:
            report = await trio.to_thread.run_sync(self._replica.tidy_up)
        except CommitFailed:
            report = CommitReport(0, 0, 0)
        work.ended(report)


def _is_small(body: bytes) -> bool:
    """To take it apart costs the loop nothing worth mentioning."""
    return 0 < len(body) <= SMALL_BYTES_MAX and rows_in(body) < SMALL_ROWS_MAX


def _step_of(effect: Apply) -> Step:
    body, applied = effect.commit.body, effect.commit.applied
    if isinstance(effect.ended, Own):
        return Step(effect.ended.changes, applied, len(body))
    return Step(decode_changes(body) if body else Changes(), applied, len(body))
