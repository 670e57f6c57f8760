"""``arneb``, with points at which a leader can be killed: ``python -m tests.cluster.kills.hooked``.

The rule: a point is armed by a file that is named after it in the directory ``ARNEB_POINTS``, and
the process ends with SIGKILL when it comes there, once.

============= =====================================================================
receipted     a commit of this leader's has its receipt, and is not in its directory
applied       it is in the directory, and whoever waits for it was told nothing
============= =====================================================================
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from arneb.cli import main
from arneb_cluster import applying, shard
from arneb_cluster.protocol.node import Apply

POINTS: Final = "ARNEB_POINTS"
RECEIPTED: Final = "receipted"
APPLIED: Final = "applied"


def come_to(point: str) -> None:
    """Die here if the point is armed."""
    armed = Path(os.environ[POINTS]) / point
    if armed.exists():
        armed.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class HookedApplying(applying.Applying):
    """The directory of a shard, with both points."""

    async def apply(self, batch: Sequence[Apply]) -> str:
        """As ever, or to the point."""
        if any(isinstance(each.ended, applying.Own) for each in batch):
            come_to(RECEIPTED)
            if (Path(os.environ[POINTS]) / APPLIED).exists():
                steps = [applying._step_of(each) for each in batch]
                await trio.to_thread.run_sync(self._replica.apply, steps)
                come_to(APPLIED)
        return await super().apply(batch)


if __name__ == "__main__":
    shard.Applying = HookedApplying  # type: ignore[misc]
    main()
