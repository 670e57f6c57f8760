"""The replicated commit log: the engine's commits as records of a shard's topic.

The rule: a commit is stored when its record has its receipt and this node's directory has it, too.
When leadership is lost, the oldest waiting commit fails, which ends all after it; their
outcome is not reported.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from arneb_core.api.errors import LeadershipLost, StoreFailed
from arneb_core.store.commit.commit_log import Ended, Ending
from arneb_core.store.commit.local import InLoop
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.commit_record import encode_changes
from arneb_core.store.format.records import unpack_trims
from arneb_core.store.format.schema import META_AHEAD, Table

DEPTH: Final = 4
"""Commits under way: while the bookies write one, the next are on their way."""

BESIDE_BYTES_MIN: Final = 256 << 10
"""Bytes of a commit that does not wait for the one under way. An entry has a fixed cost whatever it
holds: Pulsar's brokers, bookies and three nodes need milliseconds of processor time for each, and
40 µs for a message in it. So small commits wait for what is under way and for each other, as they
do at a disk; large ones go at once, so the round trip to the bookies does not bound a stream's
rate."""

RECORD_BYTES_MAX: Final = 1 << 30
"""Bytes of one commit, which its readers hold in memory until they have all its parts."""

Applied = Callable[[CommitReport], None]
"""Called when a commit is stored and in the directory."""


class Leading(Protocol):
    """The leading node, as its commit log uses it."""

    def commit(self, body: bytes, changes: Changes, ended: Applied) -> bool:
        """Store and apply a commit; False: this node no longer leads."""
        ...

    def tidy_up(self, ended: Applied) -> None:
        """Let the directory continue to trim, after what was submitted."""
        ...


@dataclass(eq=False, slots=True)
class _Waiting:
    ended: Ended
    ending: Ending | None = None


class PulsarLog:
    """The :class:`.CommitLog` of a leader, for as long as it leads."""

    def __init__(
        self,
        leading: Leading,
        in_loop: InLoop,
        depth: int = DEPTH,
        beside_bytes_min: int = BESIDE_BYTES_MIN,
    ) -> None:
        self.depth = depth
        self.beside_bytes_min = beside_bytes_min
        self._leading = leading
        self._in_loop = in_loop
        self._waiting: deque[_Waiting] = deque()
        self._lost: LeadershipLost | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        state = "lost" if self._lost else f"{len(self._waiting)} of {self.depth} under way"
        return f"<PulsarLog {state}>"

    @property
    def needs_takeover(self) -> bool:
        """Always False: what is reported as stored is in the directory."""
        return False

    def prepare(self) -> None:
        """Do nothing."""

    def submit(
        self, changes: Changes, ended: Ended, *, take_over: bool = False
    ) -> CommitReport | None:
        """See :meth:`.CommitLog.submit`."""
        if self._lost is not None:
            self._in_loop(ended, self._lost)
            return None
        waiting = _Waiting(ended)
        if not changes:
            self._waiting.append(waiting)
            self._leading.tidy_up(lambda report: self._end(waiting, report))
            return None
        body = encode_changes(changes)
        if len(body) > RECORD_BYTES_MAX:
            refusal = StoreFailed(
                f"expected a commit of at most {RECORD_BYTES_MAX} bytes, got {len(body)}"
            )
            self._in_loop(ended, refusal)
            return None
        self._waiting.append(waiting)
        if not self._leading.commit(body, changes, lambda report: self._end(waiting, report)):
            self.lose("this node does not lead")
        return None

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> CommitReport | None:
        """Return None: whether a record counts is known only when all before it have ended."""
        return None

    async def forget_ahead(self, store: Store) -> None:
        """Remove on every node what the last leader wrote ahead of a commit that never came."""
        with store.snapshot() as snapshot:
            row = snapshot.get(Table.META, META_AHEAD)
        if row is None:
            return
        done = trio.Event()
        changes = Changes(puts=[(Table.META, META_AHEAD, None)], trims=unpack_trims(row))
        self.submit(changes, lambda ending: done.set())
        await done.wait()

    def lose(self, why: str) -> None:
        """End all waiting commits: another node leads, or might."""
        if self._lost is not None:
            return
        self._lost = LeadershipLost(why)
        if self._waiting and not self._is_closed:
            self._in_loop(self._waiting[0].ended, self._lost)
        self._waiting.clear()

    def close(self) -> None:
        """Forget what is under way, without reporting an outcome."""
        self._is_closed = True
        self._waiting.clear()

    def _end(self, waiting: _Waiting, ending: Ending) -> None:
        waiting.ending = ending
        # A tidy-up may finish before earlier commits have their receipts.
        while self._waiting and (ready := self._waiting[0].ending) is not None:
            self._waiting.popleft().ended(ready)


def at_once(function: Callable[..., object], *args: object) -> None:
    """Call the function: for a commit log without an engine."""
    function(*args)
