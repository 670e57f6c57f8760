"""Makes a program that differs as short as time allows.

The rule: only whole steps are left out, and the result differed when it was last played.
"""

import time
from collections.abc import Callable
from typing import Final

from conformance.differential.compare import Report, Verdict
from conformance.differential.program import Program

WITHIN_S: Final = 120.0


def shrunk(report: Report, play: Callable[[Program], Report]) -> Report:
    """The report of the shortest program found, or ``report`` itself if the difference does not
    repeat."""
    end = time.monotonic() + WITHIN_S
    # Nothing was played after the step that differs.
    best, steps = report, report.program[: _played(report)]
    size = len(steps)
    while size and time.monotonic() < end:
        start = 0
        while start < len(steps) and time.monotonic() < end:
            tried = play(steps[:start] + steps[start + size :])
            if tried.verdict is Verdict.DIFFERENT:
                best, steps = tried, tried.program[: _played(tried)]
            else:
                start += size
        size = min(size // 2, len(steps)) if size > 1 else 0
    return best


def _played(report: Report) -> int:
    if report.error or not report.lines:
        return len(report.program)
    last = report.lines[-1].step
    return next(n for n, step in enumerate(report.program, 1) if step is last)
