"""The turn watchdog: how long every turn keeps the event loop, and which code made it long.

A turn is what one task does between two checkpoints; a pass is one turn of every task that was
ready, and the loop's own work for it. Both are measured in CPU time of the loop's thread, so that
a busy machine does not make them long. The rule: when off, it costs nothing, since the loop then
has no instrument; a turn that began before the watchdog or ends after it is not counted.

Callbacks that threads hand to the loop run in the turns of one task, the core's or one of trio's;
they are distinguished by their place in the code, which the watchdog's thread looks up during a
turn.
"""

import gc
import logging
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final

import trio

logger = logging.getLogger(__name__)

LONG_MS: Final = 10.0
"""Turns of this length or more are recorded with task and place."""

TOO_LONG_MS: Final = 50.0
"""Turns of this length or more are logged: no input may cause one."""

LOG_EVERY_S: Final = 1.0
"""The time between two log lines at least, however many turns are too long."""

SAMPLE_S: Final = 0.002
"""The thread's sampling interval. A turn that is long enough to matter is seen several times."""

PLACES_MAX: Final = 200
"""The most places recorded; further ones are counted together as :data:`ELSEWHERE`."""

ELSEWHERE: Final = "elsewhere"
UNSEEN: Final = "not seen: one call of C, or too short"

OURS: Final = ("arneb", "arneb_core", "arneb_amqp", "arneb_pulsar")
"""The packages that are searched first for a turn's place."""

BOUNDS_MS: Final = tuple(0.01 * 2 ** (step / 2) for step in range(45))
"""The upper bounds of the histograms' classes, from 0.01 ms to 42 s; every second one doubles."""


class Histogram:
    """Durations counted in classes, so that memory does not grow with their number."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.total = 0
        self.worst_ms = 0.0

    def __repr__(self) -> str:
        return f"<Histogram of {self.total}, worst {self.worst_ms:.1f} ms>"

    def add(self, ms: float) -> None:
        self.counts[bisect_left(BOUNDS_MS, ms)] += 1
        self.total += 1
        if ms > self.worst_ms:
            self.worst_ms = ms

    def quantile_ms(self, share: float) -> float:
        """Return the duration that ``share`` of all stay below, rounded up to its class's bound."""
        wanted, seen = share * self.total, 0
        for bound, count in zip((*BOUNDS_MS, self.worst_ms), self.counts, strict=True):
            seen += count
            if seen and seen >= wanted:
                return min(bound, self.worst_ms)
        return 0.0

    @property
    def figures(self) -> Mapping[str, float]:
        """Return the figures for output."""
        return {
            "total": self.total,
            "p50_ms": self.quantile_ms(0.5),
            "p99_ms": self.quantile_ms(0.99),
            "p999_ms": self.quantile_ms(0.999),
            "worst_ms": self.worst_ms,
        }


@dataclass(slots=True)
class Culprit:
    """A place in the code that made turns long."""

    task: str
    place: str
    turns: int = 0
    worst_ms: float = 0.0
    total_ms: float = 0.0

    def add(self, ms: float) -> None:
        self.turns += 1
        self.total_ms += ms
        self.worst_ms = max(self.worst_ms, ms)


class TurnWatchdog(trio.abc.Instrument):
    """Measures the turns of one event loop.

    Invariant: ``_task`` is set while a task has its turn; ``_places`` are where that turn was seen.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self.turns = Histogram()
        self.passes = Histogram()
        self.collections = (Histogram(), Histogram(), Histogram())
        """Garbage collections by generation, in any thread; those in the loop's count in turns."""
        self._culprits: dict[tuple[str, str], Culprit] = {}
        self._task: trio.lowlevel.Task | None = None
        self._began = 0.0
        self._pass_began: float | None = None
        self._collection_began = 0.0
        self._places: list[str] = []
        self._logged_at = float("-inf")
        self._loop_thread = 0
        self._done = threading.Event()

    def __repr__(self) -> str:
        return f"<TurnWatchdog {self.turns!r}>"

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure the event loop that runs this block."""
        self._loop_thread = threading.get_ident()
        thread = threading.Thread(target=self._look, name="arneb-turn-watchdog", daemon=True)
        trio.lowlevel.add_instrument(self)
        gc.callbacks.append(self._collected)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            gc.callbacks.remove(self._collected)
            with suppress(KeyError):  # trio removes and logs an instrument that has raised
                trio.lowlevel.remove_instrument(self)

    @property
    def culprits(self) -> Sequence[Culprit]:
        """Return the places that made turns of :data:`LONG_MS` or more, the worst first."""
        return sorted(self._culprits.values(), key=lambda each: -each.worst_ms)

    # Called by trio.

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = self._clock()
        self._task = task

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._task is not task:
            return
        ms = (self._clock() - self._began) * 1000
        self._task = None
        self.turns.add(ms)
        if ms >= LONG_MS:
            self._put_down(task.name, ms)
        if self._places:
            self._places = []

    def after_io_wait(self, timeout: float) -> None:
        self._pass_began = self._clock()

    def before_io_wait(self, timeout: float) -> None:
        if self._pass_began is not None:
            self.passes.add((self._clock() - self._pass_began) * 1000)

    # Inside.

    def _put_down(self, task: str, ms: float) -> None:
        # A copy: the thread may append to the list meanwhile.
        seen = Counter(self._places[:]).most_common(1)
        location = seen[0][0] if seen else UNSEEN
        culprit = self._culprits.get((task, location))
        if culprit is None:
            if len(self._culprits) >= PLACES_MAX:
                location = ELSEWHERE
            culprit = self._culprits.setdefault((task, location), Culprit(task, location))
        culprit.add(ms)
        now = time.monotonic()
        if ms >= TOO_LONG_MS and now - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now
            logger.warning("the event loop was blocked for %.0f ms by %s at %s", ms, task, location)

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        # The interpreter collects in one thread at a time.
        if phase == "start":
            self._collection_began = self._clock()
        else:
            ms = (self._clock() - self._collection_began) * 1000
            self.collections[info["generation"]].add(ms)

    def _look(self) -> None:
        """Sample, in a separate thread, where the loop is while a turn lasts."""
        seen: trio.lowlevel.Task | None = None
        began = 0.0
        while not self._done.wait(SAMPLE_S):
            task, since = self._task, self._began
            # Skip a turn seen for the first time: nearly all end before the second sample.
            if task is not None and task is seen and since == began:
                frame = sys._current_frames().get(self._loop_thread)
                location = UNSEEN if frame is None else place_of(frame)
                if self._task is task and self._began == since:
                    self._places.append(location)
            seen, began = task, since


def place_of(frame: FrameType | None) -> str:
    """Describe where ``frame`` is: the innermost function of ours, and the innermost of all."""
    innermost = frame
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
            break
        frame = frame.f_back
    if innermost is None or frame is innermost:
        return _named(innermost)
    return f"{_named(frame)} in {_named(innermost)}" if frame is not None else _named(innermost)


def _named(frame: FrameType | None) -> str:
    if frame is None:
        return UNSEEN
    code = frame.f_code
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno} {code.co_qualname}"
