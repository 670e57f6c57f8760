"""Which processors guests keep to: all that they have, or at most half of them while others work.

The rule: a guest takes itself for alone only when it has seen that it is. While it reads it looks
again and again at what its processors do for those who are not nice; as long as that is anything,
and until it has seen enough, it and its JVM keep to the last of the processors and leave the first
to the others. When nobody else works there, and when the read is over, they have all of them. Only
reads are watched: what its own driver does before, to plan one, is not others' work.

Being nice is not enough, for Linux places whoever wakes up on an idle processor, and where there is
none it looks at what the processors carry, not at how nice that is: a broker's thread then waits
behind another thread of the broker while a guest has the other processor to itself.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from pyspark_arneb.processes import PROC, jvm_above, threads_of

LOOK_S: Final = 0.5
"""For how long others are watched before something follows from it: long enough for the kernel's
clock of 100 ticks a second to say something."""

WORK: Final = 0.05
"""Of one processor, what others must use to be left some. A machine that nobody uses stays below;
publishing a few hundred messages a second does not."""

ROOM: Final = 2
"""How many times as much is left to others as they use outside of the kernel: their time in the
kernel, which the kernel does not tell from a guest's, and what comes in bursts."""

LINUX: Final = sys.platform == "linux"

Ticks = dict[int, tuple[int, int]]
"""By processor: the time of all who are not nice, and all time."""


class Affinity(Protocol):
    """On which processors threads run; the first thread of a process has the process's number."""

    def of(self, thread: int) -> frozenset[int]:
        """None if nobody knows."""

    def set(self, thread: int, to: Collection[int]) -> None:
        """Does nothing to what has ended or is another user's."""


class SystemAffinity:
    """What the system says: Linux, for others have none."""

    def of(self, thread: int) -> frozenset[int]:
        try:
            return frozenset(os.sched_getaffinity(thread)) if LINUX else frozenset()
        except OSError:
            return frozenset()

    def set(self, thread: int, to: Collection[int]) -> None:
        try:
            if LINUX:
                os.sched_setaffinity(thread, to)
        except OSError:
            pass


class Processors:
    """Those that a process and its JVM may use, and what others were seen to do there."""

    def __init__(
        self,
        proc: Path = PROC,
        affinity: Affinity | None = None,
        now_s: Callable[[], float] = time.monotonic,
        stat: Path = PROC / "stat",
    ) -> None:
        self._proc = proc
        self._affinity = affinity or SystemAffinity()
        self._now_s = now_s
        self._stat = stat
        self._jvm: int | None = None
        self._own = self._affinity.of(os.getpid())
        self._left: int | None = None
        self._since_s = 0.0
        self._since: Ticks = {}
        self._seen_s = 0.0
        self._others_s = 0.0

    def __repr__(self) -> str:
        return f"Processors({sorted(self.all())}, {self._left} left to others, jvm={self._jvm})"

    def all(self) -> frozenset[int]:
        """All that the application may use: those of its JVM, where there is one."""
        if self._jvm is None:
            self._jvm = jvm_above(os.getppid(), self._proc)
        return (self._affinity.of(self._jvm) if self._jvm else None) or self._own

    def begin(self) -> None:
        """A read begins: keep to what others left when they were last seen, during a read too."""
        self._since_s, self._since = self._now_s(), ticks(self._stat)
        if self._left is None and self._since:
            self._left = len(self.all()) // 2
        self._keep_to(self._left or 0)

    def look(self) -> None:
        """Keep to what others leave, if there is enough to be seen."""
        if self._seen_s + self._now_s() - self._since_s < LOOK_S:
            return
        before = self._left
        self._see()
        if before or self._left:  # anew each time: another read may have ended meanwhile
            self._keep_to(self._left or 0)

    def end(self) -> None:
        """Have all of them again, for nobody looks any more."""
        self._see()
        self._keep_to(0)

    def _see(self) -> None:
        """What others did since the last time; a short read adds to what those before it saw."""
        now_s, now, mine = self._now_s(), ticks(self._stat), self.all()
        passed_s = now_s - self._since_s
        self._seen_s += passed_s
        self._others_s += passed_s * used_by_others(self._since, now, mine)
        self._since_s, self._since = now_s, now
        if self._seen_s >= LOOK_S and now:
            self._left = left_to_others(self._others_s / self._seen_s, len(mine))
            self._seen_s = self._others_s = 0.0

    def _keep_to(self, left: int) -> None:
        """All threads but the JVM's first, which only waits for its end: it is left as it is, and
        so remembers what there is."""
        mine = sorted(self.all())[left:]
        for thread in threads_of(os.getpid(), self._proc):
            self._affinity.set(thread, mine)
        if self._jvm is not None:
            for thread in threads_of(self._jvm, self._proc):
                if thread != self._jvm:
                    self._affinity.set(thread, mine)


@cache
def processors() -> Processors:
    """This process's. They outlive a read, so that the next one knows what others did."""
    return Processors()


def cores() -> int:
    """The log is on this machine's disk, so this machine's cores will read it."""
    return len(processors().all()) or os.cpu_count() or 1


def left_to_others(used: float, have: int) -> int:
    """How many of so many processors guests keep off, if others use so much of them."""
    return min(have // 2, math.ceil(ROOM * used)) if used >= WORK else 0


def used_by_others(before: Ticks, after: Ticks, own: Collection[int]) -> float:
    """How many of these processors those who are not nice had meanwhile; 0 if nobody knows."""
    used = 0.0
    for each in set(own) & before.keys() & after.keys():
        others, total = (now - then for now, then in zip(after[each], before[each], strict=True))
        if total > 0:
            used += others / total
    return used


def ticks(stat: Path) -> Ticks:
    """What each processor has done since the machine began. Nothing where the system does not say.

    A line is ``cpu0 user nice system idle iowait irq softirq steal …``; what follows is counted in
    the first two (proc_stat(5))."""
    found: Ticks = {}
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, *rest = map(int, fields[:8])
            found[int(name.removeprefix("cpu"))] = user, user + sum(rest)
    return found
