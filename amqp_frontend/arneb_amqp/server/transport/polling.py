"""Polling: reading a client again at once, without a pass of the event loop in between.

A client that waits for each answer sends its next request some ten microseconds later. Waiting for
that in the event loop takes longer: two system calls, a task that ends and begins its turn, a core
that falls asleep and is woken with cold caches. So its socket is polled for a moment first.

The rule: the socket is polled only if nobody else has had a turn for a while and the client's
requests are all done; one poll takes at most :data:`POLL_S`, and consecutive polls at most
:data:`WITHOUT_PASS_S` without a pass of the loop. After two polls in a row that found nothing the
client is not polled for some turns. A poll that finds something at once means a quick client, or
one that does not wait for each answer, whose requests are better read together. The next answers
show which; the latter is not polled for a long time.
"""

import os
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

POLL_S: Final = 50e-6
"""As long as the pass that it saves, so one in vain costs no more than it would save."""

WITHOUT_PASS_S: Final = 0.001
"""A newcomer waits this long, plus one turn: no more than for any other turn. The pass costs
little: the client needs nearly as long for its next request."""

REST_TURNS: Final = 64
"""Turns without a poll, for a client that sends before it has its answers."""

VAIN_REST_TURNS: Final = 4
"""The same after two polls in vain: for a client that is always slower, one turn in five is a poll
longer. One alone means little: a quick client was slow once, because something else took its core,
or the kernel took longer to wake it. Four turns without a poll would cost twice the poll."""

CLEAR_ANSWERS: Final = 2
"""Answers in a row without earlier input that show that a client waits for them. One is not enough:
ten requests sent in a row may be read in one turn, and the next turn may see only the first of the
next ten; before the answer to that the others are there."""

SURE_POLLS: Final = 64
"""Polls that find something at once, after which the client must prove again that it waits."""


class Bytes(Protocol):
    """A link, as polls use it."""

    def receive_now(self, size: int) -> bytes:
        """Receive what is there already."""
        ...

    def has_come(self) -> bool:
        """Whether there is input to receive."""
        ...


CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
"""The cores this process may use. With one, the client could not answer during a poll."""


class Polling:
    """Polls one link."""

    def __init__(
        self, link: Bytes, cores: int = CORES, seconds: Callable[[], float] = perf_counter
    ) -> None:
        self._link = link
        self._seconds = seconds
        self._may_poll = cores > 1
        self._rest = REST_TURNS
        self._was_vain = False
        """The last poll found nothing."""
        self._sure = 0
        """Polls that may still find something at once, of a client known to wait for its
        answers."""
        self._clear = 0
        """Answers without earlier input, since :attr:`asks` was set."""
        self._answered = False
        """Whether there was an answer since something was found at once; while :attr:`asks`."""
        self.asks = False
        """Whether :meth:`answers` must be called before each answer, because it is unknown whether
        the client waits for them."""
        self._passed_s = 0.0
        """The loop's last known pass."""

    def __repr__(self) -> str:
        return f"<Polling {self._link!r}, {self._rest} turns of rest>"

    def passed(self) -> None:
        """Note a pass of the loop."""
        self._passed_s = self._seconds()

    @property
    def is_pass_due(self) -> bool:
        """Whether the loop must have a pass before the poll."""
        if self._rest or not self._may_poll:
            return False  # there is no poll
        return self._seconds() - self._passed_s > WITHOUT_PASS_S

    def answers(self) -> None:
        """Note that the client is about to get an answer."""
        self._answered = True
        if self._link.has_come():
            self.asks, self._rest = False, REST_TURNS
            return
        self._clear += 1
        if self._clear == CLEAR_ANSWERS:
            self.asks, self._sure = False, SURE_POLLS

    def poll(self, size: int) -> bytes:
        """Return input that comes very soon, from a client that is alone and has its answers; empty
        if it must be waited for, or may not be polled."""
        if not self._may_poll:
            return b""
        if self._rest:
            self._rest -= 1
            return b""
        receive, until = self._link.receive_now, self._seconds() + POLL_S
        if data := receive(size):
            self._was_vain = False
            if self._sure:
                self._sure -= 1
            elif not self.asks:
                self.asks, self._clear = True, 0
            elif not self._answered:  # it does not wait for answers
                self.asks, self._rest = False, REST_TURNS
            self._answered = False
            return data
        while self._seconds() < until:
            if data := receive(size):
                self._was_vain = False
                return data
        if self._was_vain:
            self._rest = VAIN_REST_TURNS
        self._was_vain = True
        return b""
