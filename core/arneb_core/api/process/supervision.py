"""Supervision: background work that continues after an error.

The rule: an error ends one run of one background task and nothing else. It is logged, and the task
starts over after a pause that grows with repeated failures; so a task keeps its pending work where
the next run finds it. The one exception is the commit path, where an error may leave memory behind
the disk: :mod:`arneb_core.engine.group_commit.breakage`.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

BACK_OFF_S_MIN: Final = 0.05
"""Pause before the first new run: short enough for tasks that promise a tenth of a second."""

BACK_OFF_S_MAX: Final = 5.0
"""Pause for a task that keeps failing; what it works on may come back at any time."""

SOUND_S: Final = 10.0
"""A run that lasted this long was sound: the next failure counts as the first."""

logger = logging.getLogger(__name__)


class BackOff:
    """The pause after failures, longer after each."""

    def __init__(
        self, seconds_min: float = BACK_OFF_S_MIN, seconds_max: float = BACK_OFF_S_MAX
    ) -> None:
        self._seconds_min = seconds_min
        self._seconds_max = seconds_max
        self.failures = 0
        """Consecutive failures."""

    def __repr__(self) -> str:
        return f"<BackOff after {self.failures} failures>"

    def failed(self) -> float:
        """Count a failure; return the pause in seconds."""
        wait_s = min(self._seconds_max, self._seconds_min * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return wait_s

    def succeeded(self) -> None:
        """Start over with the shortest pause."""
        self.failures = 0


async def supervise(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run a background task until it returns or is cancelled, again after each failure."""
    back_off = BackOff()
    while True:
        began = trio.current_time()
        try:
            await attempt(name, run)
        except Exception as error:
            if trio.current_time() - began >= SOUND_S:
                back_off.succeeded()
            wait_s = back_off.failed()
            # The traceback only once: a task that keeps failing must not fill the disk.
            is_first = back_off.failures == 1
            logger.error(
                "error in %s, restarting it in %.2g s: %r",
                name, wait_s, error, exc_info=error if is_first else None,
            )  # fmt: skip
            await trio.sleep(wait_s)
        else:
            return


async def attempt(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run a background task once. Tests replace this to make it fail anywhere."""
    await run()


async def contain(what: str, run: Callable[[], Awaitable[object]]) -> None:
    """Do something once for one connection: an error is logged and goes no further."""
    try:
        await run()
    except Exception:
        logger.exception("error in %s", what)


async def shielded_nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Keep a nursery open until its own scope is cancelled, whatever becomes of its opener. Start
    it with :meth:`trio.Nursery.start`, and cancel it as the last thing: until then it can still
    serve what a stop has to wait for."""
    async with trio.open_nursery() as nursery:
        # A starter that was cancelled before this point no longer waits: a task shielded now would
        # never end.
        await trio.lowlevel.checkpoint_if_cancelled()
        task_status.started(nursery)
        nursery.cancel_scope.shield = True
        await trio.sleep_forever()


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one error in ``group``, however deep; ``group`` itself if there are several."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return group if isinstance(error, BaseExceptionGroup) else error
