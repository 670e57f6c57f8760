"""Supervision: what the broker does in the background, and goes on doing after an error.

The rule: an error ends one run of one background task and nothing else. It is logged, the task
waits a little, longer each time it fails again, and begins anew; so a task keeps what it still has
to do where its next run finds it. The one thing that does not go on is the commit path, where an
error may leave memory behind what is on disk: :mod:`arneb_core.engine.breakage`.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

BACK_OFF_S_MIN: Final = 0.05
"""Before the first new run: soon enough for what promises a tenth of a second."""

BACK_OFF_S_MAX: Final = 5.0
"""Before a run of a task that fails again and again; what it works on may come back any time."""

SOUND_S: Final = 10.0
"""A run that lasted so long was a sound one: the next failure counts as a first one."""

logger = logging.getLogger(__name__)


class BackOff:
    """How long to wait after failures, which is longer after each."""

    def __init__(
        self, seconds_min: float = BACK_OFF_S_MIN, seconds_max: float = BACK_OFF_S_MAX
    ) -> None:
        self._seconds_min = seconds_min
        self._seconds_max = seconds_max
        self.failures = 0
        """In a row."""

    def __repr__(self) -> str:
        return f"<BackOff after {self.failures} failures>"

    def failed(self) -> float:
        """It failed once more; how long to wait now, in seconds."""
        wait_s = min(self._seconds_max, self._seconds_min * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return wait_s

    def succeeded(self) -> None:
        """It did not fail."""
        self.failures = 0


async def supervise(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run a background task until it returns or is cancelled, again and again if it fails."""
    back_off = BackOff()
    while True:
        began = trio.current_time()
        try:
            await attempt(name, run)
        except Exception as error:
            if trio.current_time() - began >= SOUND_S:
                back_off.succeeded()
            wait_s = back_off.failed()
            # The traceback once: what fails again and again must not fill a disk.
            is_first = back_off.failures == 1
            logger.error(
                "error in %s, restarting it in %.2g s: %r",
                name, wait_s, error, exc_info=error if is_first else None,
            )  # fmt: skip
            await trio.sleep(wait_s)
        else:
            return


async def attempt(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """One run of a background task. Tests put theirs in its place, to have it fail anywhere."""
    await run()


async def contain(what: str, run: Callable[[], Awaitable[object]]) -> None:
    """Do something once, for one connection: an error is logged and goes no further."""
    try:
        await run()
    except Exception:
        logger.exception("error in %s", what)


async def shielded_nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Keep a nursery open until its own scope is cancelled, whatever becomes of who opened it. To
    be started with :meth:`trio.Nursery.start`, and cancelled by whoever started it, as the last
    thing: what a stop still has to wait for can be served meanwhile."""
    async with trio.open_nursery() as nursery:
        # Who was cancelled before this began is not waited for: a task that is shielded then would
        # stay where it is, and never end.
        await trio.lowlevel.checkpoint_if_cancelled()
        task_status.started(nursery)
        nursery.cancel_scope.shield = True
        await trio.sleep_forever()


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error in ``group``, however deep; ``group`` itself if there are several."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return group if isinstance(error, BaseExceptionGroup) else error
