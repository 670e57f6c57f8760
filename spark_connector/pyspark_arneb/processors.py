"""Which processors guests use: all of theirs, or at least half of them while others work.

The rule: a guest assumes that it is alone only after seeing it. While it reads, it repeatedly looks
at how much its processors work for threads that are not nice. As long as that is not zero, and
until it has watched for long enough, it and its JVM keep to the last of the processors and leave
the first to the others. When nothing else runs there, and when the read has ended, they use all of
them. Processors are watched only during reads, because the driver's own work before one, planning
it, is not the work of others.

Being nice is not enough: Linux places a waking thread on an idle processor, and if there is none it
looks at the load of the processors, not at how nice that load is. A broker's thread then waits
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

CHECK_INTERVAL_S: Final = 0.5
"""For how long others are watched before a guest reacts: long enough for the kernel's clock of 100
ticks a second to be meaningful."""

WORK: Final = 0.05
"""The share of one processor above which room is left for others. An unused machine stays below it;
publishing a few hundred messages a second does not."""

ROOM: Final = 2
"""The multiple of their use outside the kernel that is left to others: it covers bursts, and their
time in the kernel, which cannot be distinguished from a guest's."""

LINUX: Final = sys.platform == "linux"

Ticks = dict[int, tuple[int, int]]
"""By processor: the time of all threads that are not nice, and all time."""


class Affinity(Protocol):
    """On which processors threads may run; a process's first thread has the process's number."""

    def of(self, thread: int) -> frozenset[int]:
        """Return the processors of a thread; none if unknown."""

    def set(self, thread: int, to: Collection[int]) -> None:
        """Bind a thread to processors, unless it has ended or is another user's."""


class SystemAffinity:
    """The system's affinity; Linux only."""

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
    """The processors that a process and its JVM may use, and what others were seen to do there."""

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
        """Return all processors that the application may use: those of its JVM, if it has one."""
        if self._jvm is None:
            self._jvm = jvm_above(os.getppid(), self._proc)
        return (self._affinity.of(self._jvm) if self._jvm else None) or self._own

    def begin(self) -> None:
        """Begin a read: keep to what others left when they were last seen, which may be in an
        earlier read."""
        self._since_s, self._since = self._now_s(), ticks(self._stat)
        if self._left is None and self._since:
            self._left = len(self.all()) // 2
        self._keep_to(self._left or 0)

    def look(self) -> None:
        """Keep to what others leave, once they were watched for long enough."""
        if self._seen_s + self._now_s() - self._since_s < CHECK_INTERVAL_S:
            return
        before = self._left
        self._see()
        if before or self._left:  # every time: another read may have reset it
            self._keep_to(self._left or 0)

    def end(self) -> None:
        """Use all processors again, because they are no longer watched."""
        self._see()
        self._keep_to(0)

    def _see(self) -> None:
        """Add what others did since the last look; a short read adds to what earlier ones saw."""
        now_s, now, mine = self._now_s(), ticks(self._stat), self.all()
        passed_s = now_s - self._since_s
        self._seen_s += passed_s
        self._others_s += passed_s * used_by_others(self._since, now, mine)
        self._since_s, self._since = now_s, now
        if self._seen_s >= CHECK_INTERVAL_S and now:
            self._left = left_to_others(self._others_s / self._seen_s, len(mine))
            self._seen_s = self._others_s = 0.0

    def _keep_to(self, left: int) -> None:
        """Bind all threads but the JVM's first, which only waits for its end: its unchanged
        affinity remembers the full set."""
        mine = sorted(self.all())[left:]
        for thread in threads_of(os.getpid(), self._proc):
            self._affinity.set(thread, mine)
        if self._jvm is not None:
            for thread in threads_of(self._jvm, self._proc):
                if thread != self._jvm:
                    self._affinity.set(thread, mine)


@cache
def processors() -> Processors:
    """Return this process's processors, which outlive a read so that the next one knows what others
    did."""
    return Processors()


def cores() -> int:
    """Return how many cores will read the log: this machine's, as the log is on its disk."""
    return len(processors().all()) or os.cpu_count() or 1


def left_to_others(used: float, have: int) -> int:
    """Return how many of ``have`` processors guests leave free if others use ``used`` of them."""
    return min(have // 2, math.ceil(ROOM * used)) if used >= WORK else 0


def used_by_others(before: Ticks, after: Ticks, own: Collection[int]) -> float:
    """Return how many of these processors worked for threads that are not nice; 0 if unknown."""
    used = 0.0
    for each in set(own) & before.keys() & after.keys():
        others, total = (now - then for now, then in zip(after[each], before[each], strict=True))
        if total > 0:
            used += others / total
    return used


def ticks(stat: Path) -> Ticks:
    """Return what each processor has done since the machine started; empty if the system does not
    tell.

    A line is ``cpu0 user nice system idle iowait irq softirq steal …``; the fields after these are
    included in the first two (proc_stat(5)).
    """
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
