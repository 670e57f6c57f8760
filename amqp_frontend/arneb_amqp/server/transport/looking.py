"""Looking: reading a client again at once, without a pass of the loop in between.

A client that waits for each answer sends its next request some ten microseconds after it. To wait
for that by the loop takes longer: two system calls, a task that ends and begins its turn, a core
that falls asleep and is woken with cold caches. So its socket is looked at for a moment first.

The rule: only if there has been nobody else for a while and all that the client asked for is done;
no longer than :data:`LOOK_S` for one look, nor, from look to look, than :data:`WITHOUT_PASS_S`
without a pass. A look that brings nothing was in vain, and the client is not looked at for some
turns. One that finds something at once is of a quick client, or of one that does not wait for each
answer, whose requests are better read together: that shows before the next answers, and the latter
is not looked at for a long time.
"""

import os
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

LOOK_S: Final = 50e-6
"""As long as the pass that it saves takes, so that one in vain costs no more than it would save."""

WITHOUT_PASS_S: Final = 0.001
"""Whoever comes meanwhile waits for so long, and one turn: no more than for any turn of another.
The pass costs little: the client needs nearly as long for its next request."""

REST_LOOKS: Final = 64
"""So many turns without a look, of a client that sends before it has its answers."""

VAIN_REST_LOOKS: Final = 4
"""After one in vain: of a client that is always slower, one turn in five is longer by a look."""

CLEAR_ANSWERS: Final = 2
"""So many answers in a row before which nothing had come show that a client waits for them. One
does not: who sends ten in a row may be read by one turn, and the next is of the first alone that
comes then; before the answer to that there are the others."""

SURE_LOOKS: Final = 64
"""Found something at once so often, it is to be shown again."""


class Bytes(Protocol):
    """A link, as it is looked at."""

    def receive_now(self, size: int) -> bytes:
        """What has come already."""
        ...

    def has_come(self) -> bool:
        """Whether there is something to be received."""
        ...


CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
"""On so many this process may run. With one the client could not answer meanwhile."""


class Looking:
    """Reads one link."""

    def __init__(
        self, link: Bytes, cores: int = CORES, seconds: Callable[[], float] = perf_counter
    ) -> None:
        self._link = link
        self._seconds = seconds
        self._may_look = cores > 1
        self._rest = REST_LOOKS
        self._sure = 0
        """Looks that may find something at once, of a client that waits for its answers."""
        self._clear = 0
        """Answers before which nothing had come, since :attr:`asks`."""
        self._answered = False
        """It had one since something was found at once; while :attr:`asks`."""
        self.asks = False
        """:meth:`answers` is to be called before each answer: it is not known whether the client
        waits for them."""
        self._passed_s = 0.0
        """When the loop had its last pass, as far as it is known here."""

    def __repr__(self) -> str:
        return f"<Looking at {self._link!r}, {self._rest} turns of rest>"

    def passed(self) -> None:
        """The loop has had a pass."""
        self._passed_s = self._seconds()

    @property
    def is_pass_due(self) -> bool:
        """The loop is to have one before the look."""
        if self._rest or not self._may_look:
            return False  # there is none
        return self._seconds() - self._passed_s > WITHOUT_PASS_S

    def answers(self) -> None:
        """The client is about to have an answer."""
        self._answered = True
        if self._link.has_come():
            self.asks, self._rest = False, REST_LOOKS
            return
        self._clear += 1
        if self._clear == CLEAR_ANSWERS:
            self.asks, self._sure = False, SURE_LOOKS

    def look(self, size: int) -> bytes:
        """What comes very soon, of a client that is alone and has its answers; empty: it is to be
        waited for, or may not be looked at."""
        if not self._may_look:
            return b""
        if self._rest:
            self._rest -= 1
            return b""
        receive, until = self._link.receive_now, self._seconds() + LOOK_S
        if data := receive(size):
            if self._sure:
                self._sure -= 1
            elif not self.asks:
                self.asks, self._clear = True, 0
            elif not self._answered:  # it is one who waits for none
                self.asks, self._rest = False, REST_LOOKS
            self._answered = False
            return data
        while self._seconds() < until:
            if data := receive(size):
                return data
        self._rest = VAIN_REST_LOOKS
        return b""
