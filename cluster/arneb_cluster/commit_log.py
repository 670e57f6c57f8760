"""The replicated commit log: what the engine hands over, as records of a shard's topic.

The rule: a commit is stored when its record has its receipt and this node's directory has it too.
When leadership is lost the oldest that waits is told so, which ends all behind it; of none is said
what became of it.
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
"""Commits under way: while one is written by the bookies the next are on their way."""

BESIDE_BYTES_MIN: Final = 256 << 10
"""Of a commit that does not wait for the one under way. An entry costs what it costs whatever it
holds: Pulsar's brokers, bookies and three nodes compute for milliseconds for each, and for 40 µs
for a message. So little waits for what is under way, and for company, as it does at a disk; what is
much goes at once, and the way to the bookies and back bounds no stream."""

RECORD_BYTES_MAX: Final = 1 << 30
"""Of one commit. What its readers hold in memory until they have all parts of it."""

Applied = Callable[[CommitReport], None]
"""Told that a commit is stored and in the directory."""


class Leading(Protocol):
    """What a commit log needs of the node that leads."""

    def commit(self, body: bytes, changes: Changes, ended: Applied) -> bool:
        """Have it stored and applied; False: this node leads no more."""
        ...

    def tidy_up(self, ended: Applied) -> None:
        """Have the directory go on with what it has to do, behind what was submitted."""
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
    def is_unsettled(self) -> bool:
        """The directory has what is told of as stored."""
        return False

    def prepare(self) -> None:
        """There is nothing to make ready."""

    def submit(
        self, changes: Changes, ended: Ended, *, settle: bool = False
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
        """Not here: whether a record counts is known only when all before it have ended."""
        return None

    async def forget_ahead(self, store: Store) -> None:
        """Have removed everywhere what the last leader wrote ahead of a commit that never came."""
        with store.snapshot() as snapshot:
            row = snapshot.get(Table.META, META_AHEAD)
        if row is None:
            return
        done = trio.Event()
        changes = Changes(puts=[(Table.META, META_AHEAD, None)], trims=unpack_trims(row))
        self.submit(changes, lambda ending: done.set())
        await done.wait()

    def lose(self, why: str) -> None:
        """Another node leads, or might."""
        if self._lost is not None:
            return
        self._lost = LeadershipLost(why)
        if self._waiting and not self._is_closed:
            self._in_loop(self._waiting[0].ended, self._lost)
        self._waiting.clear()

    def close(self) -> None:
        """What is under way still is told nothing."""
        self._is_closed = True
        self._waiting.clear()

    def _end(self, waiting: _Waiting, ending: Ending) -> None:
        waiting.ending = ending
        # What only tidies up is done before what was submitted before it has its receipt.
        while self._waiting and (ready := self._waiting[0].ending) is not None:
            self._waiting.popleft().ended(ready)


def at_once(function: Callable[..., object], *args: object) -> None:
    """Call it: for a commit log with which no engine works yet."""
    function(*args)
