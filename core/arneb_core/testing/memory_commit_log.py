"""A commit log in memory: like a replicated one to the engine, with delays and lost leadership.

The rule: a commit is stored when its record is in :class:`Records`, whoever else reads them, and
not before. The store takes it over from the record's bytes, and never has one without a record.
Nothing here knows how a store commits.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

import trio

from arneb_core.api.errors import CommitFailed, LeadershipLost
from arneb_core.store.commit.commit_log import CommitLog, Ended, Ending
from arneb_core.store.commit.local import CommittingStore, InLoop, LocalCommitLog
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.commit_record import encode_record, parse_record

TURNS_MAX: Final = 5
"""The most turns of the event loop by which a commit, or the news of its end, is delayed."""

EPOCH: Final = 1


class Records:
    """The contents of one log, which outlive the engine that wrote it."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.checksum = 0
        """The checksum of the last record."""
        self.leader: MemoryCommitLog | None = None

    def __repr__(self) -> str:
        return f"<Records {len(self.records)}>"

    def changes(self) -> list[Changes]:
        """Return a follower's commits; raises :class:`AssertionError` on a broken chain."""
        found: list[Changes] = []
        before = 0
        for number, data in enumerate(self.records, 1):
            parsed = parse_record(data)
            assert parsed is not None, f"record {number} is not whole"
            record, end = parsed
            assert (record.number, record.before, end) == (number, before, len(data))
            before = record.checksum
            found.append(record.changes)
        return found


class MemoryCommitLog:
    """A :class:`.CommitLog` whose every ending may be late, and may be its last."""

    def __init__(
        self,
        store: CommittingStore,
        in_loop: InLoop,
        *,
        depth: int = 1,
        beside_bytes_min: int = 0,
        records: Records | None = None,
        delays: Random | None = None,
    ) -> None:
        """``delays`` decides how late commits and their endings are; None: never."""
        self.depth = depth
        self.beside_bytes_min = beside_bytes_min
        self.records = records or Records()
        self.records.leader = self
        self._taking_over: CommitLog = LocalCommitLog(store, in_loop)
        self._delays = delays
        self._under_way: deque[tuple[Changes, Ended]] = deque()
        self._lost_at: int | None = None
        self.is_lost = False
        """A caller was told that leadership is lost."""

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else f"{len(self._under_way)} of {self.depth} under way"
        return f"<MemoryCommitLog {self.records!r}, {state}>"

    def lose_leadership(self, after: int = 0) -> None:
        """Store ``after`` more commits, and then nothing more. Commits on their way into the store
        are stored."""
        self._lost_at = len(self.records.records) + after

    # The protocol

    @property
    def needs_takeover(self) -> bool:
        """The store's own answer: every record is taken over before its commit ends."""
        return self._taking_over.needs_takeover

    def prepare(self) -> None:
        """Do nothing."""

    def submit(
        self, changes: Changes, ended: Ended, *, take_over: bool = False
    ) -> CommitReport | None:
        """See :meth:`.CommitLog.submit`."""
        assert len(self._under_way) < self.depth, f"{self!r}, and one more"
        self._under_way.append((changes, ended))
        if len(self._under_way) == 1:
            self._later(self._store_next)
        return None

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> CommitReport | None:
        """Return None: whether a record counts is known only when all before it have ended."""
        return None

    def close(self) -> None:
        """Drop what is under way, without telling anybody."""
        self._under_way.clear()
        self._taking_over.close()

    # Inside

    def _later(self, step: Callable[[], object]) -> None:
        """Have ``step`` done some turns of the loop later; never in this one."""
        self._wait(1 if self._delays is None else self._delays.randint(1, TURNS_MAX), step)

    def _wait(self, turns: int, step: Callable[[], object]) -> None:
        if turns:
            trio.lowlevel.current_trio_token().run_sync_soon(self._wait, turns - 1, step)
        else:
            step()

    def _store_next(self) -> None:
        """Store or refuse the oldest commit under way, or find that it came too late."""
        if not self._under_way:
            return
        changes, _ = self._under_way[0]
        stored = len(self.records.records)
        if self._lost_at is not None and stored >= self._lost_at:
            self.is_lost = True
            self._tell(LeadershipLost(f"another node wrote behind record {stored}"))
            return
        if not changes:  # only for the store, which has something to continue: not replicated
            self._taking_over.submit(
                changes, lambda ending: self._later(lambda: self._tell(ending))
            )
            return
        data, checksum = encode_record(EPOCH, stored + 1, self.records.checksum, changes)
        parsed = parse_record(data)
        assert parsed is not None, "it was made just now"

        def taken_over(ending: Ending) -> None:
            if isinstance(ending, CommitReport):
                self.records.records.append(data)
                self.records.checksum = checksum
            self._tell_later(ending)

        self._taking_over.submit(parsed[0].changes, taken_over)

    def _tell_later(self, ending: Ending) -> None:
        self._later(lambda: self._tell(ending))

    def _tell(self, ending: Ending) -> None:
        if not self._under_way:
            return  # closed meanwhile
        _, ended = self._under_way.popleft()
        if isinstance(ending, CommitFailed):
            self._under_way.clear()  # it ends all after it
        elif self._under_way:
            self._later(self._store_next)
        ended(ending)
