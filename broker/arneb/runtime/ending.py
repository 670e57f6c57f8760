"""Ending: a process that is to end does so soon, whatever it is waiting for.

The rule: what ends it from outside is a timer in a thread of its own, which needs no event loop.
"""

import os
from threading import Timer
from typing import Final

from arneb.logs.log_lines import Say
from arneb_core.engine.engine import Engine

STOP_WITHIN_S: Final = 4.5
"""A stop that takes longer is broken off, to keep the promise of 5 s. Nothing confirmed is
lost then either: the store is as safe against this as against a crash."""

BROKEN_OFF: Final = 1
"""The exit status of a stop that took too long, or that an error in the commit path brought."""


class StartAgain(Exception):
    """The broker cannot go on, and could if it were started again in the same process. The text
    says why."""


async def end_if_broken(core: Engine, say: Say) -> None:
    """See to it that the process ends soon when the engine cannot go on: whoever waits for a
    commit that was under way waits for ever."""
    await core.broken()
    say("stopping: an error in the commit path, see the log")
    break_off_after(STOP_WITHIN_S, say)


def break_off_after(seconds: float, say: Say) -> None:
    """End the process when ``seconds`` have passed, whatever it is waiting for by then."""

    def break_off() -> None:
        say(f"did not stop within {seconds} s, ending the process")
        os._exit(BROKEN_OFF)

    timer = Timer(seconds, break_off)
    timer.daemon = True
    timer.start()
