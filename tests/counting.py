"""Counted work: how many calls something makes, which no busy machine changes."""

import gc
import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """How many functions, ours and those written in C, ``work`` calls. The collector of garbage,
    whose hooks would be counted, waits."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count
