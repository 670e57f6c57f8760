"""Ending: a stopping process ends soon, whatever it is waiting for.

The rule: the time limit is a timer in a thread of its own, which needs no event loop.
"""

import os
from threading import Timer
from typing import Final

from arneb.logs.log_lines import Say
from arneb_core.engine.engine import Engine

STOP_WITHIN_S: Final = 4.5
"""A stop that takes longer is broken off, to keep the promise of 5 s. Nothing confirmed is lost:
the store survives this as it survives a crash."""

BROKEN_OFF: Final = 1
"""The exit status of a stop that took too long, or was caused by an error in the commit path."""


class StartAgain(Exception):
    """The broker cannot continue, but can be started again in the same process. The text says
    why."""


async def end_if_broken(core: Engine, say: Say) -> None:
    """End the process soon after the engine has broken: a task that waits for an unfinished commit
    would wait for ever."""
    await core.broken()
    say("stopping: an error in the commit path, see the log")
    break_off_after(STOP_WITHIN_S, say)


def break_off_after(seconds: float, say: Say) -> None:
    """End the process after ``seconds``, whatever it is waiting for then."""

    def break_off() -> None:
        say(f"did not stop within {seconds} s, ending the process")
        os._exit(BROKEN_OFF)

    timer = Timer(seconds, break_off)
    timer.daemon = True
    timer.start()
