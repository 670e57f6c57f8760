"""Locks by name, several at once: changes of different things need not wait for one another.

The rule: all names are requested at once, and each is granted in the order of requests, so there is
no deadlock and no starvation. A shared name keeps out only those who want it exclusively.
"""

from collections import deque
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager

import trio


class _Ticket:
    """A request for names."""

    __slots__ = ("granted", "missing")

    def __init__(self) -> None:
        self.missing = 0
        self.granted = trio.Event()


class _Line:
    """The holders of one name, and the requests that wait for it."""

    __slots__ = ("holders", "is_shared", "waiting")

    def __init__(self) -> None:
        self.holders: set[_Ticket] = set()
        self.is_shared = False
        self.waiting: deque[tuple[_Ticket, bool]] = deque()

    def enter(self, ticket: _Ticket, *, shared: bool) -> None:
        if self.waiting or not self._admits(shared=shared):
            ticket.missing += 1
            self.waiting.append((ticket, shared))
        else:
            self._admit(ticket, shared=shared)

    def leave(self, ticket: _Ticket) -> None:
        if ticket in self.holders:
            self.holders.discard(ticket)
        else:  # cancelled while it waited
            self.waiting = deque(each for each in self.waiting if each[0] is not ticket)
        while self.waiting and self._admits(shared=self.waiting[0][1]):
            following, shared = self.waiting.popleft()
            self._admit(following, shared=shared)
            following.missing -= 1
            if not following.missing:
                following.granted.set()

    def _admits(self, *, shared: bool) -> bool:
        return not self.holders or (shared and self.is_shared)

    def _admit(self, ticket: _Ticket, *, shared: bool) -> None:
        self.holders.add(ticket)
        self.is_shared = shared


class NameLocks:
    """Locks by name. Invariant: a name has a line while a request holds it."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def __repr__(self) -> str:
        return f"<NameLocks {len(self._lines)} held>"

    @asynccontextmanager
    async def holding(
        self, *alone: Hashable, shared: Sequence[Hashable] = ()
    ) -> AsyncIterator[None]:
        """Hold the names ``alone`` exclusively, and ``shared`` with others who share them."""
        ticket = _Ticket()
        wanted = dict.fromkeys(shared, True) | dict.fromkeys(alone, False)
        for name, is_shared in wanted.items():
            self._lines.setdefault(name, _Line()).enter(ticket, shared=is_shared)
        try:
            if ticket.missing:
                await ticket.granted.wait()
            else:
                await trio.lowlevel.checkpoint()
            yield
        finally:
            for name in wanted:
                line = self._lines[name]
                line.leave(ticket)
                if not line.holders:
                    del self._lines[name]
