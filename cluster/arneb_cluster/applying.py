"""Applying: writes the records that count into the directory, and notifies their waiters.

The rule: after a failure nothing more is applied, because what follows depends on it. A small
commit is only held, in the event loop, and a thread takes the held commits over a little later;
everything else goes to the thread, after them. There is only one thread at a time.
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
from arneb_core.store.journal.held_commits import HELD_BYTES_MAX

TAKE_OVER_S: Final = 0.2
"""How long a held commit waits for others: readers of the directory outside this process find it
only then, and a restart reads no more of the log than that. Each takeover flushes twice, on every
node, where Pulsar's bookies may be flushing the next record to the same disk."""

FULL_BYTES: Final = HELD_BYTES_MAX // 4
"""Held bytes at which takeover begins at once: more commits fit beside them until it is done."""

DECODED_BYTES_MAX: Final = 224 * 1024
"""Bytes of a record that the loop decodes by itself: larger ones go to the thread."""


class Own:
    """The completion of one of this node's commits."""

    __slots__ = ("changes", "ended")

    def __init__(self, changes: Changes, ended: Applied) -> None:
        self.changes = changes
        self.ended = ended

    def __repr__(self) -> str:
        return f"<Own {len(self.changes.blocks)} runs>"

    def __call__(self) -> None:
        """Do nothing: :attr:`ended` is called with a report instead."""


@dataclass(frozen=True, slots=True)
class TidyUp:
    """The directory must continue to trim."""

    ended: Applied


class Applying:
    """Applies commits to the directory of a shard, one thread at a time."""

    def __init__(self, replica: Replica, failed: Callable[[str], None]) -> None:
        """``failed`` is called, once, with why a commit could not be applied."""
        self._replica = replica
        self._failed = False
        self._tell = failed
        self._one = trio.Lock()
        self._is_held, self._is_full = trio.Event(), trio.Event()

    def __repr__(self) -> str:
        return f"<Applying to {self._replica!r}{', failed' if self._failed else ''}>"

    async def run(self) -> None:
        """Take over held commits until cancelled; then the rest."""
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
        """Make a commit visible to this process's readers and notify its waiter at once, while
        nothing is under way in :meth:`apply` or :meth:`tidy_up`. False: it must be applied
        instead."""
        body, own = effect.commit.body, effect.ended
        is_own = isinstance(own, Own)
        try:
            if self._failed or not (is_own or _is_small(body)):
                return False
            step = _step_of(effect)
        except RecordCorrupt:
            return False  # apply() reports it
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
        """Apply commits and notify their waiters."""
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
        """Continue trimming; what cannot be trimmed now is left for later."""
        try:
            async with self._one:
                report = await trio.to_thread.run_sync(self._replica.tidy_up)
        except CommitFailed:
            report = CommitReport(0, 0, 0)
        work.ended(report)

    async def flush(self) -> bool:
        """Write to disk everything that waiters were notified of; return whether that succeeded."""
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
    """Whether decoding it costs the event loop hardly anything."""
    return not body or (len(body) <= DECODED_BYTES_MAX and rows_in(body) < SMALL_ROWS_MAX)


def _step_of(effect: Apply) -> Step:
    body, applied = effect.commit.body, effect.commit.applied
    if isinstance(effect.ended, Own):
        return Step(effect.ended.changes, applied, len(body))
    return Step(decode_changes(body) if body else Changes(), applied, len(body))
