"""Awaits that fail: background tasks in which every await raises once.

The rule: an await that is made to raise has not done its work, as far as what it waits for allows:
that is aborted as by a cancellation, so that no lock or place in a queue is held without the task
knowing. A nursery raises by itself; work in a thread raises when it ends.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import Any, Final, NoReturn

import trio

Place = tuple[str, ...]
"""Where a task awaits: file and line of each function on its stack, only those of the project."""

Abort = Callable[[Callable[[], NoReturn]], trio.lowlevel.Abort]

OURS: Final = "arneb"

THREAD: Final = "to_thread_run_sync"
"""The function that waits for a thread."""


class InjectedFault(Exception):
    """Raised by an await that is to fail."""


class FaultyAwaits:
    """Replaces :func:`arneb_core.api.process.supervision.attempt`, and makes each await of each
    background task raise when it is first reached."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        """Runs begun, by task."""
        self.failed: set[tuple[str, Place]] = set()
        """Awaits that were made to raise, by task."""
        self.passed: set[tuple[str, Place]] = set()
        """Those of them whose line in the task's own loop was reached again."""

    def __repr__(self) -> str:
        return f"<FaultyAwaits {len(self.failed)} failed, {len(self.passed)} passed again>"

    async def attempt(self, name: str, run: Callable[[], Awaitable[object]]) -> None:
        """Run a background task once."""
        self.runs[name] += 1

        def is_to_fail(place: Place) -> bool:
            # Deeper awaits may be reached only because others failed.
            self.passed |= {
                each for each in self.failed if each[0] == name and each[1][:1] == place[:1]
            }
            if (name, place) in self.failed:
                return False
            self.failed.add((name, place))
            return True

        await _Driven(run(), is_to_fail)

    @property
    def outstanding(self) -> dict[str, list[Place]]:
        """Awaits that were made to raise and whose loop has not returned to them, by task."""
        found: dict[str, list[Place]] = {}
        for name, place in self.failed - self.passed:
            found.setdefault(name, []).append(place)
        return found


class _Driven:
    """A coroutine, passed on to trio except where it is to fail."""

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
            abort: Abort | None = getattr(trap, "abort_func", None)
            # A checkpoint without one never raises: its caller may hold a lock by then.
            if abort is not None and self._is_to_fail(_place_of(coroutine)):
                if abort(_raise) is trio.lowlevel.Abort.SUCCEEDED:
                    resume, value = coroutine.throw, InjectedFault("told to fail")
                    continue
                is_late = _is_in_thread(coroutine)
            try:
                value = yield trap
                resume = coroutine.send
            except BaseException as error:
                resume, value = coroutine.throw, error
            else:
                if is_late:
                    resume, value = coroutine.throw, InjectedFault("told to fail")


def _is_in_thread(coroutine: Any) -> bool:
    """Whether it waits for a thread."""
    name = ""
    while coroutine is not None:
        name = getattr(coroutine, "__name__", name)
        if name == THREAD:
            return True
        coroutine = getattr(coroutine, "cr_await", None)
    return False


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
