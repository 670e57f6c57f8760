"""Ordered work: what the machine of a node asks for that has to be done in its order.

The rule: one thing after the other. What can only be held is, in the turn in which it is asked for,
if nothing stands before it; where that ends a task goes on, which may wait for a thread.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from arneb_cluster.applying import Applying, TidyUp
from arneb_cluster.protocol.leadership import Act
from arneb_cluster.protocol.node import Apply

UNAPPLIED_MAX: Final = 1_000
"""Commits that were read and are not in the directory: more are not read before."""


class Ordered:
    """That of one shard."""

    def __init__(
        self,
        applying: Applying,
        act: Callable[[Act], Awaitable[None]],
        applied: Callable[[], None],
    ) -> None:
        """``act`` carries one out; ``applied`` is told that readers find more than before."""
        self._applying = applying
        self._act = act
        self._applied = applied
        self._queue: deque[Act | Apply | TidyUp] = deque()
        self._wanted, self._room = trio.Event(), trio.Event()
        self._works = self._holds = False
        """Something is being done, in the task, or held, at once."""

    def __repr__(self) -> str:
        return f"<Ordered, {len(self._queue)} waiting{', works' if self._works else ''}>"

    @property
    def unapplied_bytes(self) -> int:
        """Of commits that wait."""
        return sum(len(each.commit.body) for each in self._queue if isinstance(each, Apply))

    def add(self, work: Act | Apply | TidyUp) -> None:
        """Have it done behind everything else; :meth:`go_on` begins it."""
        self._queue.append(work)

    def go_on(self) -> None:
        """Do what can be done at once, and have the task do the rest. Who is told that a commit is
        held may bring about the next, and more of this; that goes on when it returns."""
        if self._queue and not self._works and not self._holds:
            self._hold()
        if self._queue:
            self._wanted.set()

    def has_room(self) -> bool:
        """More may be read."""
        return len(self._queue) < UNAPPLIED_MAX

    async def room(self) -> None:
        """Wait until more may be read."""
        while not self.has_room():
            await self._room.wait()

    async def run(self) -> None:
        """Do what was added, until cancelled."""
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
            self._tell_of_room()  # the task may find nothing to do
        if held:
            self._applied()

    def _tell_of_room(self) -> None:
        if self.has_room():
            self._room.set()
            self._room = trio.Event()
