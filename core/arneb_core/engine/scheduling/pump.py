"""The pump: the one task that does the core's work after a change.

The rule: a change only marks what needs work and wakes the pump. The work (starting a commit,
calling back, dispatching) is done once for all changes of the same turn of the event loop. This
turns single events into runs.
"""

from collections.abc import Callable

import outcome
import trio


class Pump:
    """Runs a step whenever it has been woken since the last one."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._parked: trio.lowlevel.Task | None = None
        self._woken = False

    def __repr__(self) -> str:
        return f"<Pump {'parked' if self._parked else 'running'}>"

    def wake(self) -> None:
        """Have the step run soon, after the tasks that are already due."""
        self._woken = True
        if self._parked is not None:
            task, self._parked = self._parked, None
            # Straight into the run queue: an Event or a memory channel costs three times
            # as much, and this happens once for every publish at window 1.
            trio.lowlevel.reschedule(task, outcome.Value(None))

    async def run(self) -> None:
        """Run steps until cancelled. A step that returns True has more to do; other tasks run
        before that, and before those that the step itself woke."""
        while True:
            if not self._woken:
                self._parked = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
            self._woken = False
            try:
                more = self._step()
            except BaseException:
                self._woken = True  # the next run finds what this one left
                raise
            if more or self._woken:
                self._woken = True
                await trio.lowlevel.cancel_shielded_checkpoint()
                await trio.lowlevel.checkpoint_if_cancelled()

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED
