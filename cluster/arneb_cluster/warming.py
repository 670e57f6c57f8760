"""Warming: a follower counts in advance what its engine would otherwise count when it opens.

The rule: counting runs in a thread while this node follows, and stops when it is to lead; what was
counted by then need not be counted while clients wait.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

import trio

from arneb_cluster.replica import Replica
from arneb_core.engine.catalog.open_counts import OpenCounts

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 1.0
"""The interval between counts: what has come since the last one is counted in milliseconds."""

REST_FACTOR: Final = 10
"""After a count that took long, because there are very many queues, the pause is this many times as
long: reading and relaying continue beside it."""


class Warming:
    """Counts for one directory."""

    def __init__(self, replica: Replica, follows: Callable[[], bool]) -> None:
        """``follows``: whether this node follows at this instant."""
        self.counts = OpenCounts()
        self._replica = replica
        self._follows = follows
        self._is_over = False
        self._is_warm = trio.Event()

    def __repr__(self) -> str:
        return f"<Warming {self.counts!r}>"

    async def warm(self) -> None:
        """Wait until everything that was there at the start is counted."""
        await self._is_warm.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_with_run)
            counted_number = -1
            while True:
                number, took_s = self._replica.applied.link.number, 0.0
                if number != counted_number and self._follows():
                    took_s = await trio.to_thread.run_sync(self._count)
                    counted_number = number
                self._is_warm.set()
                await trio.sleep(max(CHECK_INTERVAL_S, REST_FACTOR * took_s))

    async def _end_with_run(self) -> None:
        """Stop counting, and wait for the thread, so that the store is not closed under it."""
        try:
            await trio.sleep_forever()
        finally:
            self._is_over = True

    def _is_wanted(self) -> bool:
        return self._follows() and not self._is_over

    def _count(self) -> float:
        """Count, in a thread; return the thread's time."""
        began = time.thread_time()
        try:
            with self._replica.store.snapshot() as snapshot:
                self.counts.count_all(snapshot, self._is_wanted)
        except ValueError as error:
            # Damaged rows: opening the engine reports them, with advice.
            logger.warning("cannot count %r in advance: %s", self._replica, error)
        return time.thread_time() - began
