"""Applying: what counts goes into the directory, and whoever waits is told.

The rule: once something could not be applied nothing more is, since what comes next stands on it.
What is small is only held, in the event loop, and a thread takes over what is held a little later;
everything else is the thread's, behind that. There is one thread at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from arneb_cluster.commit_log import Applied
from arneb_cluster.protocol.node import Apply
from arneb_cluster.replica import Replica, Step
from arneb_core.api.errors import CommitFailed, describe
from arneb_core.store.commit.commit_log import SMALL_ROWS_MAX
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.commit_record import RecordCorrupt, decode_changes, rows_in
from arneb_core.store.journal.held import HELD_BYTES_MAX

TAKE_OVER_S: Final = 0.2
"""What is held waits so long for company: who reads the directory beside this process finds it no
later, and who starts again reads no more of the log than that. Each takeover flushes twice, on
every node, where Pulsar's bookies may be flushing for the next record on the same disk."""

FULL_BYTES: Final = HELD_BYTES_MAX // 4
"""With so much it is taken over at once: until that is done there is room for more."""

DECODED_BYTES_MAX: Final = 224 * 1024
"""Of a record that the loop takes apart by itself: more is for the thread."""


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

    def __init__(self, replica: Replica, failed: Callable[[str], None]) -> None:
        """``failed`` is told why something could not be applied, once."""
        self._replica = replica
        self._failed = False
        self._tell = failed
        self._one = trio.Lock()
        self._is_held, self._is_full = trio.Event(), trio.Event()

    def __repr__(self) -> str:
        return f"<Applying to {self._replica!r}{', failed' if self._failed else ''}>"

    async def run(self) -> None:
        """Take over what is held, until cancelled; then what is left."""
        try:
            while True:
                await self._is_held.wait()
                with trio.move_on_after(TAKE_OVER_S):
                    await self._is_full.wait()
                self._is_held, self._is_full = trio.Event(), trio.Event()
                await self._take_over()
        finally:
            with trio.CancelScope(shield=True):
                await self._take_over()

    def hold(self, effect: Apply) -> bool:
        """Have it found by readers of this process, and tell who waits, at once, while nothing is
        under way in :meth:`apply` or :meth:`tidy_up`. False: it is to be applied."""
        body, own = effect.commit.body, effect.ended
        is_own = isinstance(own, Own)
        try:
            if self._failed or not (is_own or _is_small(body)):
                return False
            step = _step_of(effect)
        except RecordCorrupt:
            return False  # which says so
        if not self._replica.hold(step):
            return False
        if body:
            self._is_held.set()
            if self._replica.held_bytes >= FULL_BYTES:
                self._is_full.set()
        if isinstance(own, Own):
            own.ended(CommitReport(len(own.changes.blocks), len(body), 0))
        return True

    async def apply(self, batch: Sequence[Apply]) -> None:
        """Take these in and tell those who wait."""
        replica = self._replica
        try:
            async with self._one:
                if self._failed:
                    return
                reports = await trio.to_thread.run_sync(
                    lambda: replica.apply([_step_of(each) for each in batch])
                )
        except (CommitFailed, RecordCorrupt) as error:
            self._fail(error)
            return
        for each, made in zip(batch, reports, strict=True):
            if isinstance(each.ended, Own):
                each.ended.ended(made)

    async def tidy_up(self, work: TidyUp) -> None:
        """Go on trimming; what cannot be trimmed now waits."""
        try:
            async with self._one:
                report = await trio.to_thread.run_sync(self._replica.tidy_up)
        except CommitFailed:
            report = CommitReport(0, 0, 0)
        work.ended(report)

    async def flush(self) -> bool:
        """Have on disk all that somebody was told of by now; whether it is."""
        await self._take_over()
        return not self._failed

    async def _take_over(self) -> None:
        try:
            async with self._one:
                if not self._failed:
                    await trio.to_thread.run_sync(self._replica.take_over)
        except CommitFailed as error:
            self._fail(error)

    def _fail(self, error: CommitFailed | RecordCorrupt) -> None:
        self._failed = True
        number = self._replica.flushed.link.number
        self._tell(f"cannot apply what follows {number}: {describe(error)}")


def _is_small(body: bytes) -> bool:
    """To take it apart costs the loop nothing worth mentioning."""
    return not body or (len(body) <= DECODED_BYTES_MAX and rows_in(body) < SMALL_ROWS_MAX)


def _step_of(effect: Apply) -> Step:
    body, applied = effect.commit.body, effect.commit.applied
    if isinstance(effect.ended, Own):
        return Step(effect.ended.changes, applied, len(body))
    return Step(decode_changes(body) if body else Changes(), applied, len(body))
