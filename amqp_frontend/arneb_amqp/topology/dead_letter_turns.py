"""Turns of dead lettering: how much of it is done in one pass of the event loop.

The rule: however many messages die at once, in however many queues, dead letters are made for a few
milliseconds and then others have their turn. A fanout exchange to queues that dead-letter to it
copies one message without end, each copy with its own history.
"""

from collections.abc import Callable
from typing import Final, Protocol

import trio

WORK_PER_PASS: Final = 16 * 1024
"""Some 3 ms, in bytes of property lists that are decoded and encoded again."""

LETTER_WORK: Final = 160
"""The work of a letter of a new kind, besides its property list."""

COPY_WORK: Final = 4
"""The work of one more message for one more queue."""

REFUSED_WORK: Final = 8 * LETTER_WORK
"""The work of a letter that a full queue refuses: it may be refused again and again."""

Later = Callable[[Callable[[], None]], None]
"""Has a function called once others had their turn: see :func:`in_next_pass`."""


class InParts(Protocol):
    """The dead lettering of one queue."""

    @property
    def has_more(self) -> bool:
        """Whether something waits."""
        ...

    def part(self, work: int) -> int:
        """Do some of what waits, about as much as ``work``; return how much it was. It must not
        raise."""
        ...


def work_of(properties: bytes) -> int:
    """Return the work of a letter of a new kind, with these properties."""
    return LETTER_WORK + len(properties)


def in_next_pass(back: Callable[[], None]) -> None:
    """Call ``back`` after the tasks that are already due. Of a call from a task, that may be in the
    pass under way; of one from ``back``, it is the next."""
    trio.lowlevel.current_trio_token().run_sync_soon(back)


class Turns:
    """Shares the loop between the queues of a vhost that have dead letters.

    Invariant: while a queue waits, a pass is due.
    """

    __slots__ = ("_is_due", "_is_working", "_later", "_left", "_waiting")

    def __init__(self, later: Later = in_next_pass) -> None:
        self._later = later
        self._waiting: dict[InParts, None] = {}
        self._left = 0
        self._is_due = False
        self._is_working = False

    def __repr__(self) -> str:
        return f"<Turns, {len(self._waiting)} queues wait>"

    def add(self, queue: InParts) -> None:
        """Have ``queue`` do what waits there, at once if this pass has done little yet."""
        self._waiting[queue] = None
        if not self._is_due:
            self._is_due = True
            self._left = WORK_PER_PASS
            self._later(self._first_pass)
        if not self._is_working:  # else a commit has caused this, and it comes in its turn
            self._work()

    def _first_pass(self) -> None:
        """Do nothing: this may still be the pass in which the first work was done."""
        self._later(self._pass)

    def _pass(self) -> None:
        self._is_due = bool(self._waiting)
        if self._is_due:
            self._left = WORK_PER_PASS
            self._later(self._pass)
            self._work()

    def _work(self) -> None:
        self._is_working = True
        try:
            while self._waiting and self._left > 0:
                queue = next(iter(self._waiting))
                del self._waiting[queue]
                self._left -= max(1, queue.part(self._left))
                if queue.has_more:
                    self._waiting[queue] = None
        finally:
            self._is_working = False
