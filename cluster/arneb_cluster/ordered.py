"""Ordered work: effects of a node's machine that must be carried out in order.

The rule: one effect after another. A commit that only has to be held is held at once, in the same
turn, if nothing precedes it; everything else is done by a task, which may wait for a thread.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from arneb_cluster.applying import Applying, TidyUp
from arneb_cluster.protocol.leadership import Act
from arneb_cluster.protocol.node import Apply

UNAPPLIED_MAX: Final = 1_000
"""Commits read and not yet in the directory, above which no more are read."""


class Ordered:
    """The ordered work of one shard."""

    def __init__(
        self,
        applying: Applying,
        act: Callable[[Act], Awaitable[None]],
        applied: Callable[[], None],
    ) -> None:
        """``act`` carries an act out; ``applied`` is called when readers can see more than
        before."""
        self._applying = applying
        self._act = act
        self._applied = applied
        self._queue: deque[Act | Apply | TidyUp] = deque()
        self._wanted, self._room = trio.Event(), trio.Event()
        self._works = self._holds = False
        """Whether the task is doing something, or :meth:`_hold` is running."""

    def __repr__(self) -> str:
        return f"<Ordered, {len(self._queue)} waiting{', works' if self._works else ''}>"

    @property
    def unapplied_bytes(self) -> int:
        """The bytes of waiting commits."""
        return sum(len(each.commit.body) for each in self._queue if isinstance(each, Apply))

    def add(self, work: Act | Apply | TidyUp) -> None:
        """Queue work after everything else; :meth:`start_next` begins it."""
        self._queue.append(work)

    def start_next(self) -> None:
        """Do what can be done at once, and leave the rest to the task. The notification that a
        commit is held may lead to the next commit, and so back here; that call continues when this
        one returns."""
        if self._queue and not self._works and not self._holds:
            self._hold()
        if self._queue:
            self._wanted.set()

    def has_room(self) -> bool:
        """Whether more may be read."""
        return len(self._queue) < UNAPPLIED_MAX

    async def room(self) -> None:
        """Wait until more may be read."""
        while not self.has_room():
            await self._room.wait()

    async def run(self) -> None:
        """Carry out queued work until cancelled."""
        queue = self._queue
        while True:
            while queue:
                self._works = True
                batch: list[Apply] = []
                while queue and isinstance(first := queue[0], Apply):
                    queue.popleft()
                    batch.append(first)
                if batch:
                    await self._applying.apply(batch)
                    self._applied()
                elif isinstance(following := queue.popleft(), TidyUp):
                    await self._applying.tidy_up(following)
                elif not isinstance(following, Apply):
                    await self._act(following)
                self._tell_of_room()
            self._works = False
            self._wanted = trio.Event()
            await self._wanted.wait()

    def _hold(self) -> None:
        queue, self._holds, held = self._queue, True, 0
        was_full = not self.has_room()
        try:
            while queue and isinstance(first := queue[0], Apply):
                queue.popleft()
                if not self._applying.hold(first):
                    queue.appendleft(first)
                    break
                held += 1
        finally:
            self._holds = False
        if was_full:
            self._tell_of_room()  # the task may find nothing left to do
        if held:
            self._applied()

    def _tell_of_room(self) -> None:
        if self.has_room():
            self._room.set()
            self._room = trio.Event()
