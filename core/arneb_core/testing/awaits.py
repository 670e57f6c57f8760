"""Awaits that fail: background tasks in which every await raises once.

The rule: an await that is made to raise has not done what it was to do, as far as whatever is
awaited allows: it is told as of a cancellation, so that nobody holds a lock or a place in a queue
that its task does not know of. Where that is refused, as by a thread at work, it raises at its end.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import Any, Final, NoReturn

import trio

Place = tuple[str, ...]
"""Where a task awaits: file and line of each function on the way, those of the project only."""

OURS: Final = "arneb"


class InjectedFault(Exception):
    """What an await raises."""


class FaultyAwaits:
    """Takes the place of :func:`arneb_core.supervision.attempt`, and has each await of each
    background task raise when it comes there first."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        """Runs begun, by task."""
        self.failed: dict[tuple[str, Place], int] = {}
        """Awaits that were made to raise, each with the number of the run."""
        self.passed: set[tuple[str, Place]] = set()
        """Those of them at which a later run has been."""

    def __repr__(self) -> str:
        return f"<FaultyAwaits {len(self.failed)} failed, {len(self.passed)} passed again>"

    async def attempt(self, name: str, run: Callable[[], Awaitable[object]]) -> None:
        """One run of a background task."""
        self.runs[name] += 1
        number = self.runs[name]

        def is_to_fail(place: Place) -> bool:
            here = name, place
            if here not in self.failed:
                self.failed[here] = number
                return True
            if self.failed[here] < number:
                self.passed.add(here)
            return False

        await _Driven(run(), is_to_fail)

    @property
    def outstanding(self) -> dict[str, list[Place]]:
        """Awaits that were made to raise and were not come to again, by task."""
        found: dict[str, list[Place]] = {}
        for name, place in self.failed.keys() - self.passed:
            found.setdefault(name, []).append(place)
        return found


class _Driven:
    """A coroutine, passed on to trio but where it is to fail."""

    def __init__(self, coroutine: Awaitable[object], is_to_fail: Callable[[Place], bool]) -> None:
        self._coroutine: Any = coroutine
        self._is_to_fail = is_to_fail

    def __await__(self) -> Generator[Any, Any, object]:
        coroutine = self._coroutine
        resume: Callable[[Any], Any] = coroutine.send
        value: Any = None
        while True:
            try:
                trap = resume(value)
            except StopIteration as stop:
                return stop.value
            is_late = False
            if self._is_to_fail(_place_of(coroutine)):
                if _is_undone(trap):
                    resume, value = coroutine.throw, InjectedFault("told to fail")
                    continue
                is_late = True
            try:
                value = yield trap
                resume = coroutine.send
            except BaseException as error:
                resume, value = coroutine.throw, error
            else:
                if is_late:
                    resume, value = coroutine.throw, InjectedFault("told to fail")


def _is_undone(trap: Any) -> bool:
    """Whatever a task waits for lets it go."""
    abort: Callable[[Callable[[], NoReturn]], trio.lowlevel.Abort] | None
    abort = getattr(trap, "abort_func", None)
    return abort is None or abort(_raise) is trio.lowlevel.Abort.SUCCEEDED


def _raise() -> NoReturn:
    raise InjectedFault("told to fail")


def _place_of(coroutine: Any) -> Place:
    steps: list[str] = []
    while coroutine is not None:
        frame: FrameType | None = getattr(coroutine, "cr_frame", None)
        if frame is not None and OURS in (file := frame.f_code.co_filename):
            steps.append(f"{file[file.rindex(OURS) :]}:{frame.f_lineno} {frame.f_code.co_name}")
        coroutine = getattr(coroutine, "cr_await", None)
    return tuple(steps)
