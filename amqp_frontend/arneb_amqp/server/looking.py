"""Looking: reading a client again at once, without a pass of the loop in between.

A client that waits for each answer sends its next request some ten microseconds after it. To wait
for that by the loop takes longer: two system calls, a task that ends and begins its turn, a core
that falls asleep and is woken with cold caches. So its socket is looked at for a moment first.

The rule: only if there has been nobody else for a while and all that the client asked for is done;
no longer than :data:`LOOK_S` for one look, nor, from look to look, than :data:`WITHOUT_PASS_S`
without a pass. A look that brings nothing was in vain, and one that finds something at once was
not needed: such a client does not wait for each answer, and its requests are better read together.
After either the client is not looked at for some turns.
"""

import os
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

LOOK_S: Final = 50e-6
"""As long as the pass that it saves takes, so that one in vain costs no more than it would save."""

WITHOUT_PASS_S: Final = 0.002
"""Whoever comes meanwhile waits for so long, and one turn: no more than for any turn of another."""

REST_LOOKS: Final = 64
"""So many turns without a look, after one that found something at once."""

VAIN_REST_LOOKS: Final = 4
"""After one in vain: of a client that is always slower, one turn in five is longer by a look."""


class Bytes(Protocol):
    """A link, as it is looked at."""

    def receive_now(self, size: int) -> bytes:
        """What has come already."""
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
        self._passed_s = 0.0
        """When the loop had its last pass, as far as it is known here."""

    def __repr__(self) -> str:
        return f"<Looking at {self._link!r}, {self._rest} turns of rest>"

    def passed(self) -> None:
        """The loop has had a pass."""
        self._passed_s = self._seconds()

    def look(self, size: int) -> bytes:
        """What comes very soon, and has not come before the look, of a client that is alone and
        has its answers; empty: it is to be waited for, or may not be looked at."""
        if not self._may_look:
            return b""
        if self._rest:
            self._rest -= 1
            return b""
        began = self._seconds()
        if began - self._passed_s > WITHOUT_PASS_S:
            return b""
        receive, until = self._link.receive_now, began + LOOK_S
        if data := receive(size):
            self._rest = REST_LOOKS
            return data
        while self._seconds() < until:
            if data := receive(size):
                return data
        self._rest = VAIN_REST_LOOKS
        return b""
